//! Where everything ends: all agree, fall silent, and leave nothing behind.

use std::{collections::BTreeSet, time::Duration};

use xds_core::service::Variant;

use super::{Event, Oracle, Report, Rule, server_talk::renews};
use crate::{
    options::{Action, Options, ProfileName, Streams, Transport},
    trace::Phase,
    world::{LinkId, Watch, World, alias_of, message::Text},
};

const CONVERGENCE: Rule = Rule::new(
    "IL1",
    "once everything works again, each watch holds what its server has, within a bound",
);
const SILENCE: Rule = Rule::new("IL2", "after the last change the messages come to an end");
const NOTHING_LEFT: Rule =
    Rule::new("IL7", "what was held for watches and streams is let go of when they have gone");
const CLOSED_STREAMS: Rule = Rule::new("IS23", "a closed stream leaves nothing behind at a server");
const AFTER_THE_END: Rule = Rule::new("IC39", "after it was shut down a client does nothing");

/// Judges the end of a run.
#[derive(Debug, Default)]
pub(super) struct Convergence {
    phase: Option<Phase>,
    has_converged: bool,
    /// Heartbeats that were not answered yet: these go on as long as there is somebody to hear them.
    beats: BTreeSet<(LinkId, Text)>,
}

impl Oracle for Convergence {
    fn rules(&self) -> &'static [Rule] {
        &[CONVERGENCE, SILENCE, NOTHING_LEFT, CLOSED_STREAMS, AFTER_THE_END]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match event {
            Event::Phase(phase) => self.phase = Some(*phase),
            Event::Opening { link } | Event::Requested { link, .. }
                if world.is_shut_down(world.link(*link).client) =>
            {
                report.breach(AFTER_THE_END, || format!("{event:?}"));
            }
            Event::Rest if self.phase == Some(Phase::Converge) => {
                self.has_converged = true;
                for client in 0..world.client_count() {
                    for (id, watch) in world.watches(client) {
                        if let Err(what) = agrees(client, watch, world) {
                            report.breach(CONVERGENCE, || format!("client-{client} {id}: {what}"));
                        }
                    }
                }
            }
            Event::Responded { link, response } if renews(response) => {
                self.beats.insert((*link, response.nonce.clone()));
            }
            // Whoever polls goes on asking.
            Event::Requested { .. } | Event::Responded { .. }
                if world.options().transport == Transport::Polls => {}
            Event::Requested { link, request }
                if self.beats.remove(&(*link, request.nonce.clone())) => {}
            Event::Requested { request, .. }
                if self.has_converged && self.phase == Some(Phase::Converge) =>
            {
                report.breach(SILENCE, || format!("{request:?} though nothing has changed"));
            }
            Event::Responded { response, .. }
                if self.has_converged && self.phase == Some(Phase::Converge) =>
            {
                report.breach(SILENCE, || format!("{response:?} though nothing has changed"));
            }
            Event::Rest if self.phase == Some(Phase::Teardown) => nothing_is_left(world, report),
            _ => {}
        }
    }
}

/// Whether deletions end the use of a resource.
fn drops_deleted(world: &World, kind: usize) -> bool {
    let options = world.options();
    if !options.lies.spare_clients() {
        // A client that was told of what never was may keep it where nobody ever says that it is not so.
        return false;
    }
    let is_done = |action| options.actions.contains(action);
    let can_be_bad = is_done(Action::SetBad) || is_done(Action::SetForAWhile);
    if is_done(Action::SetError) && options.variant == Variant::StateOfTheWorld {
        // An error is told once. That the resource is then gone looks the same as that nothing has changed.
        return false;
    }
    let is_policy = match options.profile {
        // What a client that refuses responses whole was told beside a bad resource is not told again, if
        // it was a deletion.
        ProfileName::Envoy => !can_be_bad,
        ProfileName::Grpc => options.drops_cached(),
    };
    let type_url = world.types()[kind].as_str();
    let is_told =
        options.variant == Variant::Incremental || xds_core::types::is_full_state_in_sotw(type_url);
    is_policy && is_told
}

fn agrees(client: usize, watch: &Watch, world: &World) -> Result<(), String> {
    let truth = &world.truth_for(client)[watch.kind];
    let is_reported =
        |name: &str| world.truth_beside_in(world.view_of(client), watch.kind, name).error.is_some();
    let expected = truth.iter().filter(|(name, _)| watch.covers(name));
    for (name, bytes) in expected {
        let has_error = is_reported(name);
        let is_told = watch.is_missing || !watch.view.is_empty() || !watch.is_of_one();
        if has_error && is_told {
            continue; // It was told the error, and may keep what it has.
        }
        if watch.view.get(name) != Some(bytes) {
            let held = watch.view.get(name).map(|held| crate::Toy::text_of(held));
            return Err(format!(
                "{name} is {:?}, and {held:?} is held",
                crate::Toy::text_of(bytes)
            ));
        }
    }
    let mut held = watch.view.keys();
    let left_over = held.find(|name| !truth.contains_key(*name) && !is_reported(name));
    if let Some(name) = left_over
        && drops_deleted(world, watch.kind)
    {
        return Err(format!("{name} does not exist and is held"));
    }
    if let Some(name) = &watch.name
        && !truth.keys().any(|own| own == name || *name == alias_of(own))
        && watch.is_of_one()
        && watch.view.is_empty()
        && !watch.is_missing
    {
        return Err(format!("{name} does not exist and nobody has said so"));
    }
    Ok(())
}

fn nothing_is_left(world: &World, report: &mut Report) {
    for client in 0..world.client_count() {
        let held = world.client(client).status().count();
        report.ensure(held == 0, NOTHING_LEFT, || format!("client-{client} holds {held} entries"));
        let links = world.links(client).count();
        // A proxy keeps its streams open.
        let keeps = world.options().profile == ProfileName::Envoy;
        report.ensure(links == 0 || keeps, NOTHING_LEFT, || {
            format!("client-{client} has {links} streams that nobody wants anything of")
        });
        let is_shut_down = world.is_shut_down(client);
        let due = world.client(client).poll_timeout();
        report.ensure(!is_shut_down || (links == 0 && due.is_none()), AFTER_THE_END, || {
            format!("client-{client} has {links} streams and {due:?}")
        });
    }
    for server in 0..world.server_count() {
        let has_links = (0..world.client_count()).any(|client| world.links(client).count() > 0);
        let streams = world.streams(server);
        report.ensure(has_links || streams == 0, CLOSED_STREAMS, || {
            format!("server-{server} has {streams} streams")
        });
        if let Some(core) = world.server(server).filter(|_| !has_links) {
            let stats = core.stats();
            let kinds = 0..world.types().len();
            let resources: usize = kinds.map(|kind| world.known_names(server, kind)).sum();
            let is_clean = stats.streams == 0
                && stats.subscriptions == 0
                && stats.resources == resources
                && stats.names == resources;
            report.ensure(is_clean, CLOSED_STREAMS, || format!("server-{server}: {stats:?}"));
        }
    }
}

/// How long it may take until everything is as it should be, once everything works: the longest pause of
/// a client, with its jitter, the longest wait for a resource, and what is under way. Where somebody outside
/// has the last word, each type has a response that waits for it and a newer one behind that, endpoints that
/// come again with their clusters have one more, and types that share a stream wait for each other.
pub(crate) fn bound(options: &Options) -> Duration {
    let responses = match options.streams {
        Streams::Aggregated => 2 * options.types + 2,
        Streams::PerType => 4,
    };
    BOUND + options.verdicts.delay().unwrap_or_default() * responses
}

const BOUND: Duration = Duration::from_secs(120);
