//! Oracles that are told what did not happen, to see whether they find it out.

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

/// The same where there are so many servers.
pub(super) fn judgement_of(
    servers: u32,
    lie: impl Fn(&mut World, LinkId, &mut Report) + Send + Sync + 'static,
) -> Option<&'static str> {
    judgement_with(Options { servers, ..Options::default() }, lie)
}

/// What an oracle says of a lie that it is told in a world in which one client has what it watches, from one
/// server over one stream.
pub(super) fn judgement(
    lie: impl Fn(&mut World, LinkId, &mut Report) + Send + Sync + 'static,
) -> Option<&'static str> {
    judgement_with(Options::default(), lie)
}

/// The same in a run of this kind.
pub(super) fn judgement_with(
    options: Options,
    lie: impl Fn(&mut World, LinkId, &mut Report) + Send + Sync + 'static,
) -> Option<&'static str> {
    broken_rule(options, lie).map(|rule| rule.id)
}

/// The same, with its sentence: several rules may have one id.
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

/// What watchers are told in a run of this kind to be wrong with what they watch, in the place of a value or beside it.
pub(super) fn errors_told(
    options: Options,
    scenario: impl Fn(&mut World) + Send + Sync + 'static,
) -> Vec<WatchError> {
    let ear = Ear::default();
    let heard = Arc::clone(&ear.0);
    let config = Config::new(scenario).with_fixed_options(options);
    let outcome = run_seed(0, &config.with_application(move |_| Box::new(ear.clone())));
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
    heard.lock().expect("nobody panics with it").clone()
}

/// Takes down what is told to be wrong.
#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Vec<WatchError>>>);

impl Application for Ear {
    fn notified(&mut self, _: WatchId, _: &TypeUrl, _: Option<&str>, notice: &Notice) {
        if let Notice::Changed(Err(error)) | Notice::Ambient(Some(error)) = notice {
            self.0.lock().expect("nobody panics with it").push(error.clone());
        }
    }
}
