//! The end of a run: participants agree, fall silent, and release all state.

use std::{collections::BTreeSet, time::Duration};

use xds_core::{
    TypeUrl,
    client::ResourceState,
    server::{MakeBeforeBreakPolicy, Missing},
    service::Variant,
};

use super::{Event, Oracle, Report, Rule};
use crate::{
    options::{Action, Feature, Options, Order, ProfileName, Responses, Streams, Transport},
    trace::Phase,
    world::{KEEPALIVE, LinkId, Watch, World, alias_of, message::Text},
};

const CONVERGENCE: Rule = Rule::new(
    "IL1",
    "after all faults are repaired, each watch has its server's state within a time limit",
);
const ALL_TURN: Rule = Rule::new(
    "IC29",
    "a client that cannot reach its first server and lacks a resource falls back to the next one with all its watches",
);
const SILENCE: Rule = Rule::new("IL2", "after the last change, messages stop");
const NOTHING_LEFT: Rule =
    Rule::new("IL7", "the state of watches and streams is released when they end");
const CLOSED_STREAMS: Rule = Rule::new("IS23", "a server stores nothing for a closed stream");
const AFTER_THE_END: Rule = Rule::new("IC39", "a client does nothing after it was shut down");

/// Checks the end of a run.
#[derive(Debug, Default)]
pub(super) struct Convergence {
    phase: Option<Phase>,
    has_converged: bool,
    /// Heartbeats without ACK. They continue while a client subscribes to them.
    beats: BTreeSet<(LinkId, Text)>,
}

impl Oracle for Convergence {
    fn rules(&self) -> &'static [Rule] {
        &[CONVERGENCE, ALL_TURN, SILENCE, NOTHING_LEFT, CLOSED_STREAMS, AFTER_THE_END]
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
                    let is_left = |watch: &Watch| is_without_server(client, watch, world);
                    if let Some(what) = lacking(client, world) {
                        report.breach(ALL_TURN, || {
                            format!("client-{client} knows nothing of {what}")
                        });
                    }
                    for (id, watch) in world.watches(client).filter(|(_, watch)| !is_left(watch)) {
                        if let Err(what) = agrees(client, watch, world) {
                            report.breach(CONVERGENCE, || format!("client-{client} {id}: {what}"));
                        }
                    }
                }
            }
            Event::Responded { link, response } if response.renews() => {
                self.beats.insert((*link, response.nonce.clone()));
            }
            // Polling clients continue to poll.
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

/// Whether a client has a stream to a server for a type.
fn is_at(client: usize, server: usize, kind: usize, world: &World) -> bool {
    let mut links = world.links(client);
    links.any(|(_, link)| {
        link.server == server && link.is_open && link.only.is_none_or(|only| only == kind)
    })
}

/// Whether a watch cannot be served, because its client cannot reach the first server and has not
/// fallen back to the second.
fn is_without_server(client: usize, watch: &Watch, world: &World) -> bool {
    let is_of_first = watch.name.as_deref().is_none_or(|name| world.serves(0, name));
    world.is_away(client, 0) && is_of_first && !is_at(client, 1, watch.kind, world)
}

/// Returns a resource that the client lacks, for which it should have fallen back.
fn lacking(client: usize, world: &World) -> Option<String> {
    let is_left = |type_url: &TypeUrl| {
        let kind = world.types().iter().position(|known| known == type_url);
        kind.is_some_and(|kind| !is_at(client, 1, kind, world))
    };
    let mut known = world.client(client).status();
    let lacking = known.find(|it| {
        let is_unknown = it.state == ResourceState::Requested && it.bytes.is_none();
        is_unknown && world.serves(0, it.name.as_str()) && is_left(it.type_url)
    });
    lacking.filter(|_| world.is_away(client, 0)).map(|it| it.name.to_string())
}

/// Whether clients stop using deleted resources.
fn drops_deleted(client: usize, world: &World, kind: usize) -> bool {
    let options = world.options();
    if !options.lies.spare_clients() {
        // A client may keep an invented resource if no server ever removes it.
        return false;
    }
    let is_done = |action| options.actions.contains(action);
    let can_be_bad = options.can_be_invalid();
    let mut servers = 0..world.server_count();
    let is_incremental =
        servers.all(|server| options.variant_of(client, server) == Variant::Incremental);
    let are_told = is_done(Action::SetError) || options.responses == Responses::Short;
    if are_told && !is_incremental {
        // An error is sent once. A later deletion looks like no change.
        return false;
    }
    let is_policy = match options.profile {
        // A client that rejects whole responses is not sent a rejected removal again.
        ProfileName::Envoy => !can_be_bad,
        ProfileName::Grpc => options.drops_cached(),
    };
    let type_url = world.types()[kind].as_str();
    let is_told = is_incremental || xds_core::types::is_full_state_in_sotw(type_url);
    is_policy && is_told
}

fn agrees(client: usize, watch: &Watch, world: &World) -> Result<(), String> {
    let truth = &world.truth_for(client)[watch.kind];
    let is_reported =
        |name: &str| world.truth_extras_in(world.view_of(client), watch.kind, name).error.is_some();
    for (name, bytes) in watch.covered(truth) {
        let has_error = is_reported(name);
        let is_told = watch.is_missing || !watch.view.is_empty() || !watch.is_of_one();
        if has_error && is_told {
            continue; // It received the error and may keep the resource.
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
        && drops_deleted(client, world, watch.kind)
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
        // Envoy clients keep their streams.
        let keeps = world.options().profile == ProfileName::Envoy;
        report.ensure(links == 0 || keeps, NOTHING_LEFT, || {
            format!("client-{client} still has open streams ({links}) after its last watch ended")
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

/// Maximum time until the participants agree after all faults are repaired.
///
/// It is the sum of: the detection of a silent stream, or of a file change; the longest backoff
/// with jitter; the longest delay of a first response, and the does-not-exist timeout; messages in
/// flight; and the stage timeout of make before break. With external verdicts, each type has a
/// response that waits for its verdict and a newer one behind it. Endpoints that are sent again
/// with their clusters have one more, and types on one stream wait for each other.
pub(crate) fn bound(options: &Options) -> Duration {
    let responses = match options.streams {
        Streams::PerType => 4,
        _ => 2 * options.types + 2,
    };
    let silence = match options.transport {
        Transport::Streams => KEEPALIVE,
        Transport::Polls => LONGEST_POLL,
        Transport::Files => LONGEST_LOOK,
    };
    let timeout = match options.features.contains(Feature::TransientTimer) {
        true => Duration::from_secs(30),
        false => Duration::from_secs(15),
    };
    let steps = match options.order {
        Order::ByRank | Order::AsDue => Duration::ZERO,
        Order::AfterAcks | Order::OnlyAfterAcks => {
            MakeBeforeBreakPolicy::default().stage_timeout * options.types
        }
    };
    let way = options.latency + options.jitter + options.clock_grain;
    let delay = options.verdicts.delay().unwrap_or_default();
    let parts = match options.responses {
        Responses::Long => 1,
        Responses::Short => PARTS,
    };
    silence
        + LONGEST_PAUSE
        + first_answer()
        + timeout
        + steps
        + (way * WAYS + delay) * responses * parts
}

/// Messages in flight for one response: connection attempt, its result, request, and response.
const WAYS: u32 = 4;

/// Maximum number of parts of a split response: names of an authority are long, and there are eight
/// with resources and twelve without.
const PARTS: u32 = 20;

/// Time for which a server delays an empty first response.
fn first_answer() -> Duration {
    match Missing::default() {
        Missing::HoldFor(time) => time,
        _ => Duration::ZERO,
    }
}

/// Maximum backoff with jitter, and a margin.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(37);

/// Maximum time between two polls, including the poll itself.
const LONGEST_POLL: Duration = Duration::from_secs(60);

/// Maximum time between two reads of a file without a change report.
const LONGEST_LOOK: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        oracle::testing::broken_rule,
        world::{
            Reach,
            message::{Names, Request},
        },
    };

    /// Returns the oracle after a world came to rest in this phase.
    fn rests(phase: Phase, world: &World, report: &mut Report) -> Convergence {
        let mut oracle = Convergence::default();
        oracle.on_event(&Event::Phase(phase), world, report);
        oracle.on_event(&Event::Rest, world, report);
        oracle
    }

    fn request() -> Request {
        Request {
            kind: Some(0),
            nonce: Text::default(),
            version: Text::default(),
            error: None,
            node: None,
            names: Names::Whole(vec!["r0".into()]),
        }
    }

    #[test]
    fn client_without_the_newest_resources_is_detected() {
        let found = broken_rule(Options::default(), |world, _, report| {
            rests(Phase::Converge, world, report);
            assert!(report.breach.is_none(), "{:?}", report.breach);
            world.set(0, "r0", "better");
            rests(Phase::Converge, world, report);
        });
        assert_eq!(found, Some(CONVERGENCE));
        println!("covers: IL1");
    }

    #[test]
    fn missing_fallback_to_the_next_server_is_detected() {
        let two = Options { servers: 2, ..Options::default() };
        let found = broken_rule(two, |world, link, report| {
            world.set_reach(0, Reach::Refused, Duration::from_secs(100));
            world.reset(link, 14);
            world.watch(0, 0, Some("r1"));
            rests(Phase::Converge, world, report);
        });
        assert_eq!(found, Some(ALL_TURN));
        println!("covers: IC29");
    }

    #[test]
    fn message_after_convergence_is_detected() {
        let found = broken_rule(Options::default(), |world, link, report| {
            let mut oracle = rests(Phase::Converge, world, report);
            let request = &request();
            oracle.on_event(&Event::Requested { link, request }, world, report);
        });
        assert_eq!(found, Some(SILENCE));
        println!("covers: IL2");
    }

    #[test]
    fn state_left_after_shutdown_is_detected() {
        let found = broken_rule(Options::default(), |world, _, report| {
            rests(Phase::Teardown, world, report);
        });
        assert_eq!(found, Some(NOTHING_LEFT));
        let found = broken_rule(Options::default(), |world, _, report| {
            // The server has not seen the end yet.
            world.shut_down(0);
            rests(Phase::Teardown, world, report);
        });
        assert_eq!(found, Some(CLOSED_STREAMS));
        println!("covers: IL7 IS23");
    }

    #[test]
    fn request_after_client_shutdown_is_detected() {
        let found = broken_rule(Options::default(), |world, link, report| {
            world.shut_down(0);
            let request = &request();
            let event = Event::Requested { link, request };
            Convergence::default().on_event(&event, world, report);
        });
        assert_eq!(found, Some(AFTER_THE_END));
        println!("covers: IC39");
    }
}
