//! Readiness: before its resources are loaded, a server refuses streams or holds requests.

use core::time::Duration;

use crate::support::Rig;
use xds_core::server::{
    Admission, CloseReason, Readiness, Refusal, ServerConfig, ServerEvent, ServerOutput,
    StatusCode, StreamKind, Variant,
};

const VIA: StreamKind = StreamKind::Aggregated(Variant::StateOfTheWorld);

/// An answer without resources would make the client delete what it has.
#[test]
fn unready_server_refuses_streams() {
    let mut config = ServerConfig::default();
    config.readiness = Readiness::NotReady;
    let mut rig = Rig::new(config);
    let refusal = rig.server.accept(VIA, rig.now).expect_err("a refusal");
    assert_eq!((refusal, refusal.code()), (Refusal::NotReady, StatusCode::Unavailable));
    rig.run(
        "
        set cds a=1
        ready
        ready
        > cds
        < cds first a=1
        shutdown
        ready                    # too late
        ",
    );
    assert_eq!(rig.server.accept(VIA, rig.now), Err(Refusal::ShuttingDown));
    let stats = rig.server.stats();
    assert_eq!((stats.refused.not_ready, stats.refused.shutting_down), (1, 1));
    println!("covers: M16");
}

fn holding(admission: Admission) -> Rig {
    let mut config = ServerConfig::default();
    config.readiness = Readiness::HoldRequests;
    config.admission = admission;
    config.limits.decision = Some(Duration::from_secs(10));
    Rig::new(config)
}

/// Held requests are answered in order of arrival.
#[test]
fn requests_are_held_until_ready() {
    let mut rig = holding(Admission::All);
    rig.run(
        "
        > cds
        > eds a
        2d> cds +a
        <
        set cds a=1; eds a=1
        <                        # not ready yet
        2d<
        wait 9s
        open
        2open
        asked
        ready
        < cds first a=1
        < eds first a=1
        2d< cds first a=1
        3> cds
        3< cds first a=1
        wait 100s                # the limit no longer applies
        open
        2open
        ",
    );
    let stats = rig.server.stats();
    assert_eq!((stats.refused.not_ready, stats.closed.not_ready), (0, 0));
    println!("covers: M16");
}

/// The limit is shorter than a client's does-not-exist timer, which would report missing resources.
#[test]
fn held_request_is_closed_with_unavailable_after_limit() {
    let mut rig = holding(Admission::All);
    let after = Duration::from_secs(10);
    rig.run("> cds\nwait 9s\nopen\nwait 1s");
    let reason = rig.take_close(1).expect("closed");
    assert_eq!(reason, CloseReason::NotReady { after });
    assert_eq!(reason.code(), StatusCode::Unavailable);
    assert_eq!(reason.to_string(), "the server is still not ready after 10s");
    assert_eq!(rig.server.stats().closed.not_ready, 1);
    // A reconnected client is held again; a stream without a request is not held.
    rig.run("2> cds\nwait 5s\nset cds a=1\nready\n2< cds first a=1\nwait 60s\n2open");
    println!("covers: M16");
}

/// The application decides about clients after it has loaded the resources.
#[test]
fn admission_of_held_clients_is_requested_when_ready() {
    let mut rig = holding(Admission::ByApplication);
    let asks = |rig: &mut Rig| {
        let asked = rig.effects().into_iter().filter_map(|it| match it {
            ServerOutput::Event(ServerEvent::Authorize { stream, node_id }) => {
                Some((stream, node_id.to_string()))
            }
            _ => None,
        });
        asked.collect::<Vec<_>>()
    };
    rig.run("> cds\n2> cds\nset @v cds a=1\nwait 9s");
    assert_eq!(asks(&mut rig), []);
    assert_eq!(rig.server.unanswered_events().count(), 0);
    rig.run("ready");
    let (first, second) = (rig.stream(1), rig.stream(2));
    assert_eq!(asks(&mut rig), [(first, "node-1".to_owned()), (second, "node-2".to_owned())]);
    assert_eq!(rig.server.unanswered_events().count(), 2);
    // The limit for the decision starts with the request.
    rig.run("assign 1 v\n< cds first a=1\nwait 1s");
    let after = Duration::from_secs(10);
    assert_eq!(rig.take_close(2), Some(CloseReason::NoDecision { after }));
    rig.run("open");
    println!("covers: M9 M16");
}

/// A server that drains before it is ready answers no request.
#[test]
fn drain_closes_held_streams() {
    let mut rig = holding(Admission::All);
    rig.run("set cds a=1\n> cds\ndrain 0s grace 1s\nready\nwait 1s");
    assert_eq!(rig.take_close(1), Some(CloseReason::ShuttingDown));
    println!("covers: M14 M16");
}
