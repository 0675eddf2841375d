//! Tests with watchers that receive wrong notices.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use xds_core::{TypeUrl, client::FlowControl};

use super::*;
use crate::{
    Application, Config, Options,
    oracle::testing::{broken_rule, errors_told, judgement},
    run_seed,
    storm::settle,
};

/// Records errors.
#[derive(Clone, Default)]
struct NoticeCollector(Arc<Mutex<Vec<WatchError>>>);

impl Application for NoticeCollector {
    fn notified(&mut self, _: WatchId, _: &TypeUrl, _: Option<&str>, notice: &Notice) {
        if let Notice::Changed(Err(error)) = notice {
            self.0.lock().expect("nobody panics with it").push(error.clone());
        }
    }
}

/// Returns the error of a resource that does not exist.
fn missing() -> WatchError {
    let collector = NoticeCollector::default();
    let notified_watches = collector.clone();
    let config = Config::new(|world: &mut World| {
        world.watch(0, 0, Some("r0"));
        settle(world);
    });
    let config = config.with_options(|options| *options = Options::default());
    let outcome = run_seed(0, &config.with_application(move |_| Box::new(collector.clone())));
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
    let notified_watches = notified_watches.0.lock().expect("nobody panics with it");
    notified_watches.first().cloned().expect("it is missing")
}

#[test]
fn repeated_does_not_exist_notice_is_detected() {
    let error = missing();
    let found = judgement(move |world, _, report| {
        let mut oracle = Watching::default();
        let (watch, _) = world.watches(0).next().expect("there is one");
        let begun = Event::Watched { client: 0, watch, kind: 0, name: Some("r0"), is_first: true };
        oracle.on_event(&begun, world, report);
        let notice = &Notice::Changed(Err(error.clone()));
        oracle.on_event(&Event::Notified { client: 0, watch, notice }, world, report);
        assert!(report.breach.is_none(), "it is told once");
        oracle.on_event(&Event::Notified { client: 0, watch, notice }, world, report);
    });
    assert_eq!(found, Some("IC16"));
    println!("covers: IC16");
}

/// Returns the rule broken if a watch of `r0` receives these notices.
fn record(options: Options, notices: Vec<Notice>) -> Option<Rule> {
    broken_rule(options, move |world, _, report| {
        let mut oracle = Watching::default();
        let (watch, _) = world.watches(0).next().expect("there is one");
        let begun = Event::Watched { client: 0, watch, kind: 0, name: Some("r0"), is_first: true };
        oracle.on_event(&begun, world, report);
        for (number, notice) in notices.iter().enumerate() {
            assert!(report.breach.is_none(), "before {number}: {:?}", report.breach);
            oracle.on_event(&Event::Notified { client: 0, watch, notice }, world, report);
        }
    })
}

fn value(name: &str, text: &str) -> Notice {
    Notice::Changed(Ok(Resource::new(name, "1", crate::Toy::bytes(name, text))))
}

#[test]
fn invalid_notice_for_a_watch_is_detected() {
    let record = |notices| record(Options::default(), notices);
    let well = || Notice::Ambient(None);
    assert_eq!(record(vec![value("r0", "good")]), None);
    assert_eq!(record(vec![value("r1", "good")]), Some(OWN_NAME));
    assert_eq!(record(vec![value("r0", "good"), value("r0", "good")]), Some(NO_REPETITION));
    assert_eq!(record(vec![well()]), Some(VALUE_FIRST));
    assert_eq!(record(vec![value("r0", "good"), well()]), Some(CLEARED_ONCE));
    let all = vec![value("r0", "1"), value("r0", "2"), value("r0", "3")];
    assert_eq!(record(all), Some(NEWEST_ONLY));
    println!("covers: IC13 IC14 IC16 IC28 IC35");
}

#[test]
fn connectivity_error_hidden_by_the_profile_is_detected() {
    let errors = errors_told(Options::default(), |world| {
        world.set_reach(0, crate::world::Reach::Refused, Duration::from_secs(10));
        world.watch(0, 0, Some("r0"));
        world.advance(Duration::from_secs(5));
    });
    let error = Notice::Changed(Err(errors.first().expect("nobody is there").clone()));
    assert_eq!(record(Options::default(), vec![error.clone()]), None);
    let proxy = Options { profile: ProfileName::Envoy, ..Options::default() };
    assert_eq!(record(proxy, vec![error]), Some(HIDDEN));
    println!("covers: IC27");
}

#[test]
fn notice_after_the_end_is_detected() {
    let found = broken_rule(Options::default(), |world, _, report| {
        let (watch, _) = world.watches(0).next().expect("there is one");
        let notice = &value("r0", "good");
        let event = Event::Notified { client: 0, watch, notice };
        Watching::default().on_event(&event, world, report);
    });
    assert_eq!(found, Some(SILENCE));
    println!("covers: IC39");
}

#[test]
fn watcher_that_disagrees_with_its_client_is_detected() {
    let found = |delay: Duration| {
        let options = Options { flow_control: FlowControl::Off, ..Options::default() };
        broken_rule(options, move |world, _, report| {
            let watch = world.watch(0, 0, None).expect("it may");
            world.advance(Duration::from_secs(1));
            world.slow_down(0, watch, delay);
            for text in ["better", "best"] {
                world.set(0, "r0", text);
                world.advance(Duration::from_secs(1));
            }
            agree(world, report);
        })
    };
    assert_eq!(found(Duration::ZERO), None);
    assert_eq!(found(Duration::from_secs(100)), Some(SAME_TRUTH), "it is busy with the one before");
    println!("covers: IC32");
}
