//! What everybody holds is bounded by what was asked of them. Lies make no difference.

use super::{Event, Oracle, Report, Rule};
use crate::{
    options::{Action, Lie},
    storm::most_watched,
    world::World,
};

const ENTRIES: Rule = Rule::new(
    "IC35",
    "what a client holds is bounded by what is watched and what its servers have, whatever these say",
);
const SUBSCRIPTIONS: Rule =
    Rule::new("IS24", "what a server holds of its clients is bounded, whatever these say");

/// How many names a lie makes up at most.
const MADE_UP: usize = 12;

/// Judges what is held.
#[derive(Debug)]
pub(super) struct Bounds;

impl Oracle for Bounds {
    fn rules(&self) -> &'static [Rule] {
        &[ENTRIES, SUBSCRIPTIONS]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match *event {
            Event::Read { link, .. } => {
                let client = world.link(link).client;
                let held = world.client(client).status().count();
                let options = world.options();
                let many = match options.actions.contains(Action::WatchMany) {
                    true => most_watched(),
                    false => 0,
                };
                let own = options.names as usize * if options.has_aliases() { 2 } else { 1 };
                let names = own + MADE_UP + many;
                let bound = options.types as usize * names;
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
            }
            _ => {}
        }
    }
}
