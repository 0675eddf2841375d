//! What everybody holds is bounded by what was asked of them. Lies make no difference.

use super::{Event, Oracle, Report, Rule};
use crate::{
    options::{Action, Lie, Options},
    storm::most_watched,
    world::{MOST_NAMES, Party, World},
};

const ENTRIES: Rule = Rule::new(
    "IC35",
    "what a client holds is bounded by what is watched and what its servers have, whatever these say",
);
const SUBSCRIPTIONS: Rule =
    Rule::new("IS24", "what a server holds of its clients is bounded, whatever these say");

const NAMES: Rule = Rule::new(
    "IS24",
    "who asks for more names than a stream may have is sent away, and of what others ask for no more is held",
);

/// How many names a lie makes up at most.
const MADE_UP: usize = 12;

/// How many names of a type there are to watch.
fn names_of(options: &Options) -> usize {
    let own = options.names as usize * if options.has_aliases() { 2 } else { 1 };
    own + if options.actions.contains(Action::WatchMany) { most_watched() } else { 0 }
}

/// Judges the names that a server holds: of its resources, and those that its clients have made up.
fn names_are_bounded(server: usize, held: usize, world: &World, report: &mut Report) {
    let options = world.options();
    let watched = world.types().len() * names_of(options);
    let kinds = 0..world.types().len();
    let resources: usize = kinds.map(|kind| world.known_names(server, kind)).sum();
    let of_strangers = world.names_of_strangers(server).map(|names| names + MADE_UP).sum::<usize>();
    // The stream that ends is let go of, but for the one who is told of it.
    let resources = resources * if options.has_aliases() { 2 } else { 1 };
    let bound = resources + watched * options.views.max(1) as usize + of_strangers + MADE_UP;
    report.ensure(held <= bound, NAMES, || format!("{held} names of {bound}"));
}

/// Judges what is held.
#[derive(Debug)]
pub(super) struct Bounds;

impl Oracle for Bounds {
    fn rules(&self) -> &'static [Rule] {
        &[ENTRIES, SUBSCRIPTIONS, NAMES]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match *event {
            Event::Read { link, .. } => {
                let client = world.link(link).client;
                let held = world.client(client).status().count();
                let options = world.options();
                let bound = options.types as usize * (names_of(options) + MADE_UP);
                report.ensure(held <= bound, ENTRIES, || {
                    format!("client-{client} holds {held} entries")
                });
            }
            Event::EndedAtServer { link } => {
                let server = world.link(link).server;
                let Some(stats) = world.server(server).map(xds_core::server::Server::stats) else {
                    return;
                };
                let streams = world.streams(server) + 1;
                // Whoever speaks the other variant may seem to name types.
                let others = usize::from(world.options().lies.contains(Lie::Bilingual));
                let bound = streams * (world.types().len() + others);
                report.ensure(stats.streams <= streams, SUBSCRIPTIONS, || format!("{stats:?}"));
                report.ensure(stats.subscriptions <= bound, SUBSCRIPTIONS, || format!("{stats:?}"));
                names_are_bounded(server, stats.names, world, report);
            }
            // Whatever came before was seen to, unless nobody has looked since.
            Event::Applied { server, .. } if !world.is_starved(Party::Server(server)) => {
                let too_many = world.names_of_strangers(server).find(|names| *names > MOST_NAMES);
                report.ensure(too_many.is_none(), NAMES, || format!("{too_many:?} of one stream"));
            }
            _ => {}
        }
    }
}
