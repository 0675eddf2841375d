//! What a client makes of lies: answers to responses that no server should send.
//!
//! What is right after a lie depends on what was believed of it. But a response can be answered wrongly in
//! itself, and what nobody asked for is not believed.

use std::collections::BTreeSet;

use super::{Event, Oracle, Report, Rule};
use crate::{
    situations::Situation,
    world::{LinkId, World, message::Response},
};

const TWICE: Rule = Rule::new("IC17", "a response that has a wanted name twice is rejected");
const STRANGERS: Rule =
    Rule::new("IC13", "what nobody asked for is not held, whatever a response has of it");

/// Judges what becomes of lies.
#[derive(Debug, Default)]
pub(super) struct Lied {
    /// How often the client that reads had accepted and rejected something before.
    before: (u64, u64),
}

/// Names that come more than once.
fn repeated(response: &Response) -> impl Iterator<Item = &str> {
    let mut seen = BTreeSet::new();
    let names = response.resources.iter().map(|item| item.name.as_str());
    names.filter(move |name| !seen.insert(*name))
}

fn answers(link: LinkId, world: &World) -> (u64, u64) {
    let stats = world.client(world.link(link).client).stats();
    (stats.acks, stats.nacks)
}

impl Lied {
    fn read(&self, link: LinkId, response: &Response, world: &World, report: &mut Report) {
        let it = world.link(link);
        let Some(fold) = response.kind.and_then(|kind| it.asked(kind)) else { return };
        let is_wanted = |name: &&str| fold.covers(name) && world.serves(it.server, name);
        let (acks, nacks) = answers(link, world);
        if let Some(name) = repeated(response).find(is_wanted) {
            report.ensure(acks == self.before.0, TWICE, || format!("{name} comes twice"));
            if nacks > self.before.1 {
                report.note(Situation::RejectedForRepetition);
            }
        }
        let asked = world.links(it.client).flat_map(|(_, link)| &link.asked);
        let mut asked = asked.chain(&it.asked);
        let wants_all = asked.any(super::Fold::has_all);
        let mut watches = world.watches(it.client);
        if wants_all || watches.any(|(_, watch)| watch.name.is_none()) {
            return;
        }
        let is_held = |name: &str| world.client(it.client).status().any(|it| *it.name == *name);
        let mut names = response.resources.iter().map(|item| item.name.as_str());
        let stranger = names.find(|name| !is_world_name(name) && is_held(name));
        report.ensure(stranger.is_none(), STRANGERS, || format!("{stranger:?} is held"));
    }
}

/// Whether it is a name that somebody may watch.
fn is_world_name(name: &str) -> bool {
    name.starts_with('r') || name.starts_with("xdstp:")
}

impl Oracle for Lied {
    fn rules(&self) -> &'static [Rule] {
        &[TWICE, STRANGERS]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match *event {
            Event::Reading { link, .. } => self.before = answers(link, world),
            Event::Read { link, response: Some(response) } => {
                self.read(link, response, world, report);
            }
            _ => {}
        }
    }
}
