//! Tests of oracles: they are given events that did not happen, and must report the broken rule.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use xds_core::{
    TypeUrl, WatchId,
    client::{Notice, WatchError},
};

use crate::{
    Application, Config,
    options::Options,
    oracle::{Report, Rule},
    run_seed,
    world::{LinkId, World},
};

/// Returns the rule id that `lie` breaks in a world with this number of servers.
pub(super) fn judgement_of(
    servers: u32,
    lie: impl Fn(&mut World, LinkId, &mut Report) + Send + Sync + 'static,
) -> Option<&'static str> {
    judgement_with(Options { servers, ..Options::default() }, lie)
}

/// Returns the rule id that `lie` breaks. The world has one client, which has the resource that it
/// watches, and one server with one stream.
pub(super) fn judgement(
    lie: impl Fn(&mut World, LinkId, &mut Report) + Send + Sync + 'static,
) -> Option<&'static str> {
    judgement_with(Options::default(), lie)
}

/// Returns the rule id that `lie` breaks in a run with these options.
pub(super) fn judgement_with(
    options: Options,
    lie: impl Fn(&mut World, LinkId, &mut Report) + Send + Sync + 'static,
) -> Option<&'static str> {
    broken_rule(options, lie).map(|rule| rule.id)
}

/// Returns the rule that `lie` breaks, with its sentence, because several rules may have one id.
pub(super) fn broken_rule(
    options: Options,
    lie: impl Fn(&mut World, LinkId, &mut Report) + Send + Sync + 'static,
) -> Option<Rule> {
    let found = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&found);
    let config = Config::new(move |world: &mut World| {
        world.watch(0, 0, Some("r0"));
        world.set(0, "r0", "good");
        world.advance(Duration::from_secs(1));
        let link = world.open_links()[0];
        let mut report = Report::default();
        lie(world, link, &mut report);
        *kept.lock().expect("nobody panics with it") = report.breach.map(|(rule, _)| rule);
    });
    let outcome = run_seed(0, &config.with_fixed_options(options));
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
    *found.lock().expect("nobody panics with it")
}

/// Returns the errors and ambient errors that watchers receive in a run with these options.
pub(super) fn errors_told(
    options: Options,
    scenario: impl Fn(&mut World) + Send + Sync + 'static,
) -> Vec<WatchError> {
    let collector = ErrorCollector::default();
    let heard = Arc::clone(&collector.0);
    let config = Config::new(scenario).with_fixed_options(options);
    let outcome = run_seed(0, &config.with_application(move |_| Box::new(collector.clone())));
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
    heard.lock().expect("nobody panics with it").clone()
}

/// Records errors.
#[derive(Clone, Default)]
struct ErrorCollector(Arc<Mutex<Vec<WatchError>>>);

impl Application for ErrorCollector {
    fn notified(&mut self, _: WatchId, _: &TypeUrl, _: Option<&str>, notice: &Notice) {
        if let Notice::Changed(Err(error)) | Notice::Ambient(Some(error)) = notice {
            self.0.lock().expect("nobody panics with it").push(error.clone());
        }
    }
}
