//! Reasons for which a client may fall back to the next server.

use std::collections::BTreeSet;

use xds_core::client::ResourceState;

use super::{Event, Oracle, Report, Rule, StreamEnd};
use crate::{
    options::ProfileName,
    world::{LinkId, World},
};

const FOR_WHAT_IS_UNKNOWN: Rule = Rule::new(
    "IC29",
    "a client falls back to the next server only while the state of a watched resource is unknown",
);

/// Checks the reasons for fallback. The Envoy profile has other reasons and is not checked.
#[derive(Debug, Default)]
pub(super) struct Fallback {
    /// Clients and types that lacked a resource when the first server failed after its last
    /// response, or later.
    lacked: BTreeSet<(usize, usize)>,
    /// Streams on which a first server has responded.
    answered: BTreeSet<LinkId>,
    /// Clients that have fallen back and not returned, with the type that the stream carries.
    turned: BTreeSet<(usize, Option<usize>)>,
}

impl Fallback {
    fn check(&mut self, client: usize, world: &World) {
        let lacking = (0..world.types().len()).filter(|kind| {
            let mut known = world.status_of_type(client, *kind);
            // For a wildcard, the client's status does not show whether anything is known.
            world.watched(client, *kind).has_all()
                || known.any(|it| {
                    it.state == ResourceState::Requested && world.serves(0, it.name.as_str())
                })
        });
        self.lacked.extend(lacking.map(|kind| (client, kind)));
    }
}

impl Oracle for Fallback {
    fn rules(&self) -> &'static [Rule] {
        &[FOR_WHAT_IS_UNKNOWN]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        if world.server_count() == 1 || world.options().profile != ProfileName::Grpc {
            return;
        }
        match *event {
            Event::EndedAtClient { link, end } => {
                let it = world.link(link);
                if it.server == 1 && end == StreamEnd::ByClient {
                    self.turned.remove(&(it.client, it.only));
                }
                // A client that has fallen back stays there until the first server responds.
                if self.answered.remove(&link) {
                    let is_carried = |kind| it.only.is_none_or(|only| only == kind);
                    self.lacked.retain(|(client, kind)| *client != it.client || !is_carried(*kind));
                }
                self.check(it.client, world);
            }
            Event::ClientWoken { client } => self.check(client, world),
            Event::Watched { client, kind, .. } => drop(self.lacked.insert((client, kind))),
            Event::Unreadable { link } => self.check(world.link(link).client, world),
            Event::Reading { link, .. } | Event::Unchanged { link } => {
                let it = world.link(link);
                if it.server == 0 {
                    self.answered.insert(link);
                    self.turned.remove(&(it.client, it.only));
                }
            }
            Event::Opening { link } if world.link(link).server == 1 => {
                let it = world.link(link);
                let lacks = |&(client, kind): &(usize, usize)| {
                    client == it.client && it.only.is_none_or(|only| only == kind)
                };
                let is_right = self.lacked.iter().any(lacks);
                let is_new = self.turned.insert((it.client, it.only));
                report.ensure(is_right || !is_new, FOR_WHAT_IS_UNKNOWN, || {
                    format!("client-{} turns to server-1 and knows all", it.client)
                });
            }
            Event::ClientRestarted { client } => {
                self.lacked.retain(|(it, _)| *it != client);
                self.turned.retain(|(it, _)| *it != client);
            }
            _ => {}
        }
    }
}
