//! Tests with clients that connect, wait or report errors wrongly.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use xds_core::{
    client::{Client, ClientConfig, Interest, Node, Output, ServerAddress, TimerStart},
    types::CLUSTER,
};

use super::*;
use crate::{
    Options,
    oracle::testing::{broken_rule, errors_told, judgement, judgement_of},
    world::Reach,
};

#[test]
fn waits_on_several_streams_do_not_add_up() {
    let found = judgement(|world, link, _| {
        let mut oracle = Connections::default();
        let key = (0, Text::from("r0"));
        let stream = |since: Time| StreamRecord {
            since: BTreeMap::from([(key.clone(), since)]),
            ..StreamRecord::default()
        };
        let began = world.now();
        world.advance(Duration::from_secs(10));
        oracle.note_waits(0, &stream(began), world);
        assert!(oracle.waited.is_empty(), "it did not wait for long enough");
        world.advance(Duration::from_secs(5));
        oracle.note_waits(0, &stream(began), world);
        assert_eq!(oracle.waited.len(), 1);
        let item = crate::world::message::ResponseItem {
            name: key.1.clone(),
            version: Text::default(),
            bytes: Some(crate::Toy::bytes("r0", "good")),
            ttl: None,
        };
        let response = Response {
            kind: Some(0),
            nonce: "n".into(),
            version: "v".into(),
            resources: vec![item],
            removed: Vec::new(),
            errors: Vec::new(),
        };
        oracle.streams.insert(link, StreamRecord::default());
        oracle.read(link, &response, world);
        assert!(oracle.waited.is_empty(), "it has come");
    });
    assert_eq!(found, None);
    println!("covers: IC24");
}

#[test]
fn all_fail_is_false_while_a_server_has_not_failed() {
    let found = judgement(|world, link, _| {
        let mut oracle = Connections::default();
        let place = place(link, world);
        let all_fail = |oracle: &Connections| oracle.all_fail(0, None, (Some("r0"), false), world);
        assert!(!all_fail(&oracle));
        oracle.attempts.entry(place).or_default().is_failing = true;
        assert!(all_fail(&oracle));
    });
    assert_eq!(found, None);
}

#[test]
fn working_fallback_hides_the_failure_of_the_first_server() {
    let found = judgement_of(2, |world, link, _| {
        let mut oracle = Connections::default();
        assert_eq!(world.link(link).server, 0);
        oracle.attempts.entry((0, 0, None)).or_default().is_failing = true;
        assert!(oracle.all_fail(0, None, (Some("r0"), true), world), "the other one is not asked");
        assert!(!oracle.all_fail(0, None, (Some("r0"), false), world), "it is to be asked");
        world.set_reach(0, Reach::Refused, Duration::from_secs(100));
        world.reset(link, 14);
        world.watch(0, 0, Some("r1"));
        world.advance(Duration::from_secs(20));
        assert!(world.links(0).any(|(_, link)| link.server == 1), "it has turned");
        assert!(!oracle.all_fail(0, None, (Some("r0"), false), world), "the other one serves");
        oracle.attempts.entry((0, 1, None)).or_default().is_failing = true;
        assert!(oracle.all_fail(0, None, (Some("r0"), false), world));
    });
    assert_eq!(found, None);
    println!("covers: IC29");
}

/// Returns the error of endpoints that do not arrive.
fn missing() -> xds_core::client::WatchError {
    let told = errors_told(Options::default(), |world| {
        world.watch(0, 1, Some("r9"));
        world.advance(Duration::from_secs(40));
    });
    told.into_iter().next().expect("it is missing")
}

/// Returns the error of a client whose does-not-exist timeout is shorter than gRPC's.
fn early_does_not_exist_error() -> xds_core::client::WatchError {
    let mut config = ClientConfig::new(Node::new("client-0"), ServerAddress::new("server-0"))
        .with_type(crate::ToyType::new(CLUSTER));
    config.profile.timer_start = TimerStart::Subscription;
    config.profile.does_not_exist_timeout = Some(SILENT_FOR / 2);
    let mut client = Client::new(config, 0, Time::ZERO);
    client.watch(&CLUSTER.into(), Interest::Name("r9"), Time::ZERO).expect("a good name");
    client.handle_timeout(Time::ZERO.after(SILENT_FOR / 2));
    let told = std::iter::from_fn(|| client.poll_output()).find_map(|output| match output {
        Output::Notify(_, Notice::Changed(Err(error))) => Some(error),
        _ => None,
    });
    told.expect("it is missing")
}

/// Returns the rule broken if a watch of `r0` receives this error.
fn rule_broken_by_error(
    options: Options,
    error: &xds_core::client::WatchError,
    before: impl Fn(&mut Connections, LinkId) + Send + Sync + 'static,
) -> Option<Rule> {
    let error = error.clone();
    broken_rule(options, move |world, link, report| {
        let mut oracle = Connections::default();
        before(&mut oracle, link);
        let watch = world.watches(0).next().expect("there is one").0;
        let notice = &Notice::Changed(Err(error.clone()));
        oracle.notified(0, watch, notice, world, report);
    })
}

#[test]
fn does_not_exist_without_a_reason_is_detected() {
    let error = missing();
    assert!(matches!(error.kind(), WatchErrorKind::DoesNotExist(_)), "{error}");
    assert_eq!(rule_broken_by_error(Options::default(), &error, |_, _| {}), Some(PATIENCE));
    let features = [Feature::TransientTimer].into_iter().collect();
    let warned = Options { features, ..Options::default() };
    assert_eq!(rule_broken_by_error(warned, &error, |_, _| {}), Some(SILENCE));
    let key = || (0, Text::from("r0"));
    let answered = move |oracle: &mut Connections, link: LinkId| {
        let answered = BTreeSet::from([key()]);
        oracle.streams.insert(link, StreamRecord { answered, ..StreamRecord::default() });
    };
    assert_eq!(rule_broken_by_error(Options::default(), &error, answered), Some(ANSWERED_ERROR));
    assert_eq!(
        rule_broken_by_error(Options::default(), &early_does_not_exist_error(), |_, _| {}),
        Some(HOW_LONG)
    );
    let waited = |oracle: &mut Connections, _| {
        oracle.waited.insert((0, 0, "r0".into()));
    };
    assert_eq!(rule_broken_by_error(Options::default(), &error, waited), Some(NOT_CACHED));
    println!("covers: IC24 IC25 IC31");
}

#[test]
fn resources_after_fallback_are_awaited_since_the_last_request() {
    let error = missing();
    let found = |ago: Duration, servers: u32| {
        let (error, options) = (error.clone(), Options { servers, ..Options::default() });
        broken_rule(options, move |world, link, report| {
            let mut oracle = Connections::default();
            let all_since = BTreeMap::from([(0, world.now())]);
            oracle.streams.insert(link, StreamRecord { all_since, ..StreamRecord::default() });
            world.advance(ago);
            let watch = world.watches(0).next().expect("there is one").0;
            oracle.notified(0, watch, &Notice::Ambient(Some(error.clone())), world, report);
        })
    };
    assert_eq!(found(SILENT_FOR, 2), None);
    assert_eq!(found(SILENT_FOR / 2, 2), Some(PATIENCE));
    assert_eq!(found(SILENT_FOR, 1), Some(PATIENCE), "there is no other server that had it");
    println!("covers: IC24");
}

#[test]
fn error_about_a_working_server_is_detected() {
    let unavailable = errors_told(Options::default(), |world| {
        world.set_reach(0, Reach::Refused, Duration::from_secs(10));
        world.watch(0, 0, Some("r0"));
        world.advance(Duration::from_secs(5));
    });
    let error = unavailable.first().expect("nobody is there");
    assert_eq!(rule_broken_by_error(Options::default(), error, |_, _| {}), Some(FAILED));
    let two = Options { servers: 2, ..Options::default() };
    assert_eq!(rule_broken_by_error(two, error, |_, _| {}), Some(REASON));
    println!("covers: IC27 IC29");
}

#[test]
fn parallel_or_early_connection_attempt_is_detected() {
    let found = broken_rule(Options::default(), |world, link, report| {
        let mut oracle = Connections::default();
        oracle.opening(link, world, report);
        assert!(report.breach.is_none(), "{:?}", report.breach);
        oracle.opening(link, world, report);
    });
    assert_eq!(found, Some(BACKOFF));
    let found = broken_rule(Options::default(), |world, link, report| {
        let mut oracle = Connections::default();
        oracle.opening(link, world, report);
        oracle.ended(link, StreamEnd::Refused, world, report);
        oracle.opening(link, world, report);
    });
    assert_eq!(found, Some(BACKOFF));
    println!("covers: IC26");
}

#[test]
fn fallback_or_absence_of_fallback_without_a_reason_is_detected() {
    let two = Options { servers: 2, ..Options::default() };
    let turned = |world: &mut World, link: LinkId| {
        world.set_reach(0, Reach::Refused, Duration::from_secs(100));
        world.reset(link, 14);
        world.watch(0, 0, Some("r1"));
        world.advance(Duration::from_secs(20));
        let mut links = world.links(0).filter(|(_, link)| link.server == 1);
        links.next().expect("it has turned").0
    };
    let found = broken_rule(two.clone(), move |world, link, report| {
        let other = turned(world, link);
        Connections::default().opening(other, world, report);
    });
    assert_eq!(found, Some(FALLBACK));
    // Whether the client was drained when the server, from which it had fallen back, recovered.
    let recovered = |is_seen: bool| {
        broken_rule(two.clone(), move |world, link, report| {
            let other = turned(world, link);
            let mut oracle = Connections::default();
            let server = oracle.attempts.entry((0, 0, None)).or_default();
            server.fail();
            server.recover(is_seen);
            oracle.opening(other, world, report);
            oracle.on_event(&Event::ClientDrained { client: 0 }, world, report);
            assert!(!oracle.attempts.values().any(|it| it.has_recovered_unseen));
        })
    };
    assert_eq!(recovered(false), None);
    assert_eq!(recovered(true), Some(FALLBACK));
    let found = broken_rule(two, |world, _, report| {
        let mut oracle = Connections::default();
        let attempts = |turns, breaks| Attempts { turns, breaks, ..Attempts::default() };
        oracle.attempts.insert((0, 0, None), attempts(0, 1));
        oracle.attempts.insert((0, 1, None), attempts(1, 0));
        oracle.at_rest(world, report);
        assert!(report.breach.is_none(), "{:?}", report.breach);
        oracle.attempts.insert((0, 1, None), attempts(2, 0));
        oracle.at_rest(world, report);
    });
    assert_eq!(found, Some(TURNS));
    println!("covers: IL5");
}

/// A client that briefly wants nothing of the next server may leave it and return. This is one
/// fallback, even if its first output is drained afterwards.
#[test]
fn leaving_and_returning_to_a_server_is_one_fallback() {
    let two = Options { servers: 2, ..Options::default() };
    let turns = |unwatches: bool| {
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        let found = broken_rule(two.clone(), move |world, link, report| {
            world.set_reach(0, Reach::Refused, Duration::from_secs(100));
            world.reset(link, 14);
            world.watch(0, 0, Some("r1"));
            world.advance(Duration::from_secs(20));
            let other = world.links(0).find(|(_, it)| it.server == 1).expect("it has turned").0;
            let watch = world.watches(0).next().expect("there is one").0;
            let mut oracle = Connections::default();
            oracle.attempts.entry((0, 0, None)).or_default().fail();
            if unwatches {
                oracle.on_event(&Event::Unwatched { client: 0, watch }, world, report);
            }
            oracle.opening(other, world, report);
            oracle.ended(other, StreamEnd::ByClient, world, report);
            oracle.on_event(&Event::ClientDrained { client: 0 }, world, report);
            world.advance(Duration::from_secs(1));
            oracle.opening(other, world, report);
            counted.store(oracle.attempts[&(0, 1, None)].turns, Ordering::Relaxed);
        });
        assert_eq!(found, None);
        count.load(Ordering::Relaxed)
    };
    assert_eq!(turns(true), 1);
    assert_eq!(turns(false), 2, "it has turned away in between");
    println!("covers: IL5");
}

#[test]
fn idle_stream_that_is_kept_open_is_detected() {
    let found = broken_rule(Options::default(), |world, link, report| {
        let mut oracle = Connections::default();
        oracle.streams.insert(link, StreamRecord { is_open: true, ..StreamRecord::default() });
        oracle.at_rest(world, report);
        assert!(report.breach.is_none(), "{:?}", report.breach);
        let watch = world.watches(0).next().expect("there is one").0;
        world.unwatch(0, watch);
        world.advance(Duration::from_secs(1));
        oracle.at_rest(world, report);
    });
    assert_eq!(found, Some(IDLE));
    println!("covers: IC10");
}
