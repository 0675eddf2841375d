//! Oracles that are told what did not happen, to see whether they find it out.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{
    Config,
    options::Options,
    oracle::Report,
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
    let found = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&found);
    let config = Config::new(move |world: &mut World| {
        world.watch(0, 0, Some("r0"));
        world.set(0, "r0", "good");
        world.advance(Duration::from_secs(1));
        let link = world.open_links()[0];
        let mut report = Report::default();
        lie(world, link, &mut report);
        *kept.lock().expect("nobody panics with it") = report.breach.map(|(rule, _)| rule.id);
    });
    let outcome = run_seed(0, &config.with_fixed_options(options));
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
    *found.lock().expect("nobody panics with it")
}
