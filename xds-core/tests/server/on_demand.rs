//! On-demand resources: the application is notified of missing resources with subscribers.

use crate::support::{Rig, request_of, run_all, run_all_with, transaction_in, url};
use prost::Message as _;
use xds_core::{
    ViewName,
    server::{
        Admission, OnDemand, ServerConfig, ServerEvent, ServerOutput, StreamEvent, Transaction,
    },
};

fn config() -> ServerConfig {
    let mut config = ServerConfig::default();
    config.on_demand = OnDemand::Notify;
    config
}

#[test]
fn missing_resource_is_wanted_once() {
    run_all_with(
        &config(),
        &[
            (
                "M254",
                "
                set eds a=1
                > eds a b
                wanted eds b
                asked                   # a exists
                < eds first a=1
                > eds a b
                2> eds b
                3d> eds +b
                asked                   # once
                > rds b
                wanted rds b            # another type
            ",
            ),
            (
                "M254 M255",
                "
                > eds b
                wanted eds b
                2d> eds +b
                2<                      # not known yet
                set eds b=1
                < eds first b=1
                2d< eds first b=1
                3> eds b
                3< eds first b=1
                asked
            ",
            ),
            // The application reports a missing resource: a removal or an error, depending on the
            // variant.
            (
                "M255 M173",
                "
                > eds b
                2d> eds +b
                wanted eds b
                set eds !b=5
                < eds first !b=5
                2d< eds first -b
                2d> eds ack
                2<
                3d> eds +b
                3d< eds first -b
                asked
                set eds b=1
                > eds b
                < eds changed b=1
                2d< eds changed b=1
            ",
            ),
            // A new subscription while the resource exists is reported, so that its source keeps
            // it.
            (
                "M254 M256",
                "
                > eds b
                wanted eds b
                set eds b=1
                < eds first b=1
                > eds c
                wanted eds c
                unwanted eds b
                > eds b
                wanted eds b
                unwanted eds c
                < eds resubscribed b=1
                2> eds b
                asked
                2< eds first b=1
            ",
            ),
            (
                "M256",
                "
                > eds b
                2> eds b
                wanted eds b
                > eds a
                wanted eds a
                asked                   # another subscriber is left
                2close
                unwanted eds b
                3> eds b
                wanted eds b            # wanted again
                set eds b=1
                3close
                unwanted eds b
                4> eds b
                wanted eds b            # it exists, but its source may drop it
                4< eds first b=1
                4close
                unwanted eds b
                close
                unwanted eds a
            ",
            ),
            (
                "M256",
                "
                d> eds +b
                wanted eds b
                d> eds -b +c
                wanted eds c
                unwanted eds b
                d> eds +*               # a wildcard names nothing
                asked
                shutdown
                unwanted eds c
            ",
            ),
        ],
    );
    let mut rig = Rig::new(config());
    rig.run("> eds b\n2d> eds +b\nwanted eds b");
    let mut missing = Transaction::new();
    missing.mark_missing(url("eds"), "b");
    rig.server.apply(missing, rig.now).expect("a good transaction");
    rig.run("< eds first !b=5\n2d< eds first -b\n2close\nclose\nunwanted eds b\nset eds -b");
    assert_eq!(rig.server.stats().names, 0, "M243");
    println!("covers: M255 M256");
}

#[test]
fn on_demand_events_are_off_by_default() {
    run_all(&[(
        "M131",
        "
        > eds b
        2d> eds +b
        2d< eds first -b
        asked
        close
        asked
    ",
    )]);
}

// M254: on-demand events are per view, and follow a client's view change.
#[test]
fn on_demand_events_follow_view_change() {
    let mut config = config();
    config.admission = Admission::ByApplication;
    let mut rig = Rig::new(config);
    rig.run("> eds a\n2d> eds +a\nasked");
    let wants = |rig: &mut Rig| {
        let told = rig.effects().into_iter().filter_map(|effect| match effect {
            ServerOutput::Event(ServerEvent::Wanted { view, names, .. }) => {
                Some(format!("+{view}/{}", names[0]))
            }
            ServerOutput::Event(ServerEvent::Unwanted { view, names, .. }) => {
                Some(format!("-{view}/{}", names[0]))
            }
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    let assign = |rig: &mut Rig, stream: u32, view: &str| {
        let id = rig.stream(stream);
        rig.server.assign(id, &ViewName::from(view), rig.now);
        rig.drain();
    };
    rig.server.apply(transaction_in("two", "eds a=2"), rig.now).expect("a good transaction");
    assign(&mut rig, 1, "one");
    assign(&mut rig, 2, "one");
    assert_eq!(wants(&mut rig), ["+one/a"]);
    assign(&mut rig, 1, "two");
    assert_eq!(wants(&mut rig), Vec::<String>::new());
    rig.run("< eds first a=2");
    assign(&mut rig, 2, "three");
    assert_eq!(wants(&mut rig), ["-one/a", "+three/a"]);
    rig.run("2<");
    assert_eq!(rig.server.stats().views, 3, "what nobody sees is gone");
    println!("covers: M254 M256 M223");
}

// M250, M256: a resource set after its last client left causes no event for the next client, and
// the application can query whether it has subscribers.
#[test]
fn late_on_demand_resource_is_removed_unless_named() {
    let mut rig = Rig::new(config());
    let removed_in = |rig: &mut Rig, view: &str, name: &str| {
        let applied = rig.server.remove_unless_named(&view.into(), &url("eds"), name, rig.now);
        applied.expect("a sound removal").map(|applied| applied.removed)
    };
    let removed = |rig: &mut Rig| removed_in(rig, "", "a");
    assert_eq!(removed(&mut rig), Some(0), "it does not exist");
    rig.run("> eds a\nwanted eds a\nasked");
    assert_eq!(removed(&mut rig), None);
    assert_eq!(
        (removed_in(&mut rig, "", "b"), removed_in(&mut rig, "other", "a")),
        (Some(0), Some(0))
    );
    rig.run("close\nunwanted eds a\nset eds a=1");
    assert_eq!(removed(&mut rig), Some(1));
    rig.run("set eds a=1\n2d> eds +a\n2d< eds first a=1\nasked");
    assert_eq!(removed(&mut rig), None);
    rig.run("2d> eds ack\n2d<");
    rig.run("2d> eds -a");
    assert_eq!(removed(&mut rig), Some(1));
    println!("covers: M250 M256");
}

fn ask(rig: &mut Rig, resource_names: Vec<String>) {
    let stream = rig.stream(1);
    let mut request = request_of("node-1", "eds");
    request.resource_names = resource_names;
    let event = StreamEvent::Message(stream, request.encode_to_vec().into());
    rig.server.handle_event(event, rig.now);
}

// M242: all names of a request are reported in one event.
#[test]
fn on_demand_names_of_request_are_reported_together() {
    const MANY: usize = 50_000;
    let mut config = config();
    // A request in parts is reported in as many events.
    config.limits.names_per_call = 2 * MANY;
    let mut rig = Rig::new(config);
    let wants = |rig: &mut Rig| {
        rig.drain();
        let told = rig.effects().into_iter().filter_map(|effect| match effect {
            ServerOutput::Event(ServerEvent::Wanted { names, .. }) => Some(("wanted", names.len())),
            ServerOutput::Event(ServerEvent::Unwanted { names, .. }) => {
                Some(("unwanted", names.len()))
            }
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    ask(&mut rig, (0..MANY).map(|n| n.to_string()).collect());
    assert_eq!(wants(&mut rig), [("wanted", MANY)]);
    ask(&mut rig, (1..=MANY).map(|n| n.to_string()).collect());
    assert_eq!(wants(&mut rig), [("wanted", 1), ("unwanted", 1)]);
    rig.run("close");
    assert_eq!(wants(&mut rig), [("unwanted", MANY)]);
    println!("covers: M242 M254 M256");
}

// M242: a client is not read until the application has polled its events.
#[test]
fn unpolled_on_demand_events_stop_reading() {
    let mut rig = Rig::new(config());
    let stream = rig.stream(1);
    let mut requests = 0;
    while rig.server.wants_read(stream) {
        ask(&mut rig, vec![requests.to_string()]);
        requests += 1;
    }
    assert!((100..1_024).contains(&requests), "{requests}");
    rig.drain();
    assert!(rig.server.wants_read(stream));
    println!("covers: M242 M254");
}

// M9, M254: pending questions can be listed by a restarted application.
#[test]
fn open_questions_are_listed() {
    let mut config = config();
    config.admission = Admission::ByApplication;
    let mut rig = Rig::new(config);
    let open = |rig: &Rig| {
        let questions = rig.server.unanswered_events().map(|question| match question {
            ServerEvent::Authorize { node_id, .. } => {
                format!("lets in {node_id}")
            }
            ServerEvent::Wanted { view, names, .. } => {
                format!("wants {names:?} of {view}")
            }
            other => panic!("{other:?}"),
        });
        questions.collect::<Vec<_>>()
    };
    rig.run("set @v eds a=1\n> eds a b c\n2> eds b\n3> cds");
    assert_eq!(open(&rig), ["lets in node-1", "lets in node-2", "lets in node-3"]);
    rig.run("assign 1 v\n3close");
    assert_eq!(open(&rig), ["lets in node-2", r#"wants ["c", "b"] of v"#]);
    rig.run("assign 2 v\nset @v eds b=1 !c=5");
    assert_eq!(open(&rig), Vec::<String>::new());
    rig.run("2> eds d\n4> eds e\nassign 4 w\n2close");
    assert_eq!(open(&rig), [r#"wants ["e"] of w"#], "nobody wants what has lost its client");
    println!("covers: M9 M254 M256");
}
