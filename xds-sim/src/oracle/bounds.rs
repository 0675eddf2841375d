//! Limits on stored state, in proportion to subscriptions. They also apply in runs with lies.

use std::collections::{BTreeMap, BTreeSet};

use super::{Event, Oracle, Report, Rule};
use crate::{
    options::{Lie, Options, Transport},
    world::{LinkId, MOST_NAMES, Party, World},
};

const ENTRIES: Rule = Rule::new(
    "IC35",
    "the state that a client stores is bounded by its watches and its servers' resources, whatever the servers send",
);
const SUBSCRIPTIONS: Rule = Rule::new(
    "IS24",
    "the state that a server stores for its clients is bounded, whatever the clients send",
);

const NAMES: Rule = Rule::new(
    "IS24",
    "a stream that subscribes to too many names is closed, and stored names are bounded by the subscriptions",
);

/// Maximum number of names invented by a lie.
const MADE_UP: usize = 12;

/// Number of names of a type that may be watched, except those of
/// [`Action::WatchMany`](crate::options::Action).
fn names_of(options: &Options) -> usize {
    options.names as usize * if options.has_aliases() { 2 } else { 1 }
}

/// Number of names of all types that a client watches or subscribes to.
fn wanted(client: usize, world: &World) -> usize {
    let watches =
        world.watches(client).filter_map(|(_, watch)| Some((watch.kind, watch.name.as_ref()?)));
    let asked = world.links(client).flat_map(|(_, link)| link.asked.iter().enumerate());
    let asked = asked.flat_map(|(kind, subscription)| {
        subscription.subscribed.iter().map(move |name| (kind, name))
    });
    watches.chain(asked).collect::<BTreeSet<_>>().len()
}

/// Checks the number of names that a server stores: of its resources, and of its clients'
/// subscriptions.
fn names_are_bounded(server: usize, held: usize, asked: usize, world: &World, report: &mut Report) {
    let options = world.options();
    let watched = world.types().len() * names_of(options) + asked;
    let kinds = 0..world.types().len();
    let resources: usize = kinds.map(|kind| world.known_names(server, kind)).sum();
    let of_rogue_clients =
        world.rogue_name_counts(server).map(|names| names + MADE_UP).sum::<usize>();
    // The names of ending streams have been released, except those of the stream being ended.
    let resources = resources * if options.has_aliases() { 2 } else { 1 };
    let bound = resources + watched * options.views.max(1) as usize + of_rogue_clients + MADE_UP;
    report.ensure(held <= bound, NAMES, || format!("{held} names of {bound}"));
}

/// Checks the number of entries that a client stores.
fn entries_are_bounded(client: usize, held: usize, world: &World, report: &mut Report) {
    let options = world.options();
    let own = options.types as usize * (names_of(options) + MADE_UP);
    let watched = || (0..world.types().len()).map(|kind| world.watched(client, kind).count());
    if held <= own || held <= own + watched().sum::<usize>() {
        return; // The common case; the exact bound is slow.
    }
    let bound = own + wanted(client, world);
    report.ensure(held <= bound, ENTRIES, || format!("client-{client} holds {held} entries"));
}

/// Checks the number of streams and subscriptions of a server that has just seen one end.
fn streams_are_bounded(
    server: usize,
    (held, subscriptions): (usize, usize),
    world: &World,
    report: &mut Report,
) {
    let streams = world.streams(server) + 1;
    // A rogue client may appear to subscribe to further types.
    let may_name_types = [Lie::Bilingual, Lie::UnknownTypes];
    let others = usize::from(may_name_types.iter().any(|lie| world.options().lies.contains(*lie)));
    let bound = streams * (world.types().len() + others);
    report.ensure(held <= streams && subscriptions <= bound, SUBSCRIPTIONS, || {
        format!("{held} streams of {streams}, {subscriptions} subscriptions of {bound}")
    });
}

/// Checks the limits on stored state.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// Maximum number of names subscribed on each stream whose end its server has not seen.
    asked: BTreeMap<LinkId, usize>,
    /// Streams whose end their servers have just seen; a restarting server drops all of its streams
    /// at once.
    ended: Vec<LinkId>,
}

impl Oracle for Bounds {
    fn rules(&self) -> &'static [Rule] {
        &[ENTRIES, SUBSCRIPTIONS, NAMES]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match *event {
            Event::Read { link, .. } => {
                let client = world.link(link).client;
                entries_are_bounded(client, world.client(client).status().count(), world, report);
            }
            Event::Opening { .. } => {
                for link in self.ended.drain(..) {
                    self.asked.remove(&link);
                }
            }
            Event::Requested { link, .. } => {
                let subscriptions = &world.link(link).asked;
                let names: usize =
                    subscriptions.iter().map(|subscription| subscription.subscribed.len()).sum();
                let most = self.asked.entry(link).or_default();
                *most = names.max(*most);
            }
            Event::EndedAtServer { link } => {
                let server = world.link(link).server;
                let Some(stats) = world.server(server).map(xds_core::server::Server::stats) else {
                    return;
                };
                streams_are_bounded(server, (stats.streams, stats.subscriptions), world, report);
                let of_server =
                    self.asked.iter().filter(|(link, _)| world.link(**link).server == server);
                let asked = of_server.map(|(_, names)| names).sum();
                // The names of a stream that is freed in parts are not asked for any more.
                if stats.unfinished_closes == 0 {
                    names_are_bounded(server, stats.names, asked, world, report);
                }
                // Each poll is a stream for its server.
                if world.options().transport == Transport::Streams {
                    self.ended.push(link);
                }
            }
            // Earlier requests have been processed, unless the server is starved or handles one in
            // parts.
            Event::Applied { server, .. }
                if !world.is_suspended(Party::Server(server))
                    && world
                        .server(server)
                        .is_some_and(|it| it.stats().unfinished_requests == 0) =>
            {
                let too_many = world.rogue_name_counts(server).find(|names| *names > MOST_NAMES);
                report.ensure(too_many.is_none(), NAMES, || format!("{too_many:?} of one stream"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::testing::{broken_rule, judgement};

    #[test]
    fn server_that_holds_more_names_than_requested_is_detected() {
        let found = judgement(|world, link, report| {
            let asked = wanted(0, world);
            assert_eq!(asked, 1, "one name is watched and asked for");
            let own = world.types().len() * names_of(world.options()) + MADE_UP;
            names_are_bounded(world.link(link).server, own + asked, asked, world, report);
            assert!(report.breach.is_none(), "{:?}", report.breach);
            names_are_bounded(world.link(link).server, own + asked + 100, asked, world, report);
        });
        assert_eq!(found, Some("IS24"));
        println!("covers: IS24");
    }

    #[test]
    fn client_that_keeps_unwatched_entries_is_detected() {
        let holds = |held: usize| {
            broken_rule(Options::default(), move |world, _, report| {
                entries_are_bounded(0, held, world, report);
            })
        };
        assert_eq!(holds(4 * (2 + MADE_UP) + 1), None);
        assert_eq!(holds(4 * (2 + MADE_UP) + 2), Some(ENTRIES));
        println!("covers: IC35");
    }

    #[test]
    fn server_that_keeps_ended_streams_or_subscriptions_is_detected() {
        let holds = |held: (usize, usize)| {
            broken_rule(Options::default(), move |world, _, report| {
                streams_are_bounded(0, held, world, report);
            })
        };
        assert_eq!(holds((2, 8)), None);
        assert_eq!(holds((3, 8)), Some(SUBSCRIPTIONS));
        assert_eq!(holds((2, 9)), Some(SUBSCRIPTIONS));
    }
}
