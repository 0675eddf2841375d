//! On-demand resources: notification of the application when a missing resource is requested.
//!
//! ```text
//!             requested                          set, or marked as missing
//!   unused ------------------> asked: Wanted --------------------------------> answered
//!       ^                            |                                             |
//!       +------ no client requests it any more: Unwanted -------------------------+
//! ```
//!
//! A later request makes the resource wanted again, even if it still exists. Until the application
//! has answered, an incremental client is not told that the resource does not exist.
// M254-M256

use alloc::vec::Vec;

use super::{
    Applied, Server, Transaction, TransactionError, ViewName,
    event::ServerEvent,
    store::on_demand::{NotificationKind, OnDemandNotification, OnDemandState},
};
use crate::{id::StreamId, time::Time, xdstp};

impl Server {
    /// Returns the unanswered questions to the application: the clients that wait for a view
    /// ([`ServerEvent::Authorize`]), in the order of their streams, and the wanted resources that
    /// are neither set nor marked as missing ([`ServerEvent::Wanted`]).
    ///
    /// It is for an application that restarts while the server keeps running. Takes time
    /// proportional to the number of streams and resources.
    pub fn unanswered_events(&self) -> impl Iterator<Item = ServerEvent> + '_ {
        let requires_decision = self.requires_decision();
        let waiting = self.streams.iter().filter_map(move |(slot, stream)| {
            let is_asked = requires_decision && stream.view.is_none() && stream.held_count() > 0;
            let stream_id = self.streams.key(slot).filter(|_| is_asked).map(StreamId)?;
            let node_id = stream.node().cloned().unwrap_or_default();
            Some(ServerEvent::Authorize { stream: stream_id, node_id })
        });
        let store = &self.subscriptions.store;
        let wanted = store.arenas().flat_map(move |arena| {
            let view = store.view(arena.view).map(|view| view.name.clone()).unwrap_or_default();
            let resources = arena.slots().filter_map(|slot| arena.at(slot));
            let asked = resources.filter(|it| it.on_demand_state == OnDemandState::Requested);
            let names: Vec<_> = asked.map(|it| it.name.clone()).collect();
            let type_url = arena.type_url.clone();
            (!names.is_empty()).then_some(ServerEvent::Wanted { view, type_url, names })
        });
        let confirmation = self.source.is_confirming.then_some(ServerEvent::ConfirmSource);
        waiting.chain(wanted).chain(confirmation)
    }

    /// Removes a resource of a view, unless a client requests it by name now, regardless of what the
    /// application was notified of. Returns `None` if a client does.
    ///
    /// # Errors
    ///
    /// Returns an error if a transaction with this removal is invalid ([`apply`](Self::apply)).
    pub fn remove_unless_named(
        &mut self,
        view: &ViewName,
        type_url: &str,
        name: &str,
        now: Time,
    ) -> Result<Option<Applied>, TransactionError> {
        let store = &self.subscriptions.store;
        let is_named = || {
            let name = xdstp::canonical(&name.into()).ok()?;
            let arena = store.arena(store.find_arena(store.find_view(view)?, type_url)?)?;
            Some(!arena.at(arena.find(name.as_str())?)?.subscribers.is_empty())
        };
        if is_named().unwrap_or_default() {
            return Ok(None);
        }
        let mut removal = Transaction::in_view(view.clone());
        removal.remove(type_url, name);
        self.apply(removal, now).map(Some)
    }

    /// Queues the notifications for resources that became wanted or unwanted.
    pub(crate) fn notify_wanted(&mut self) {
        if self.subscriptions.on_demand.pending.is_empty() {
            return;
        }
        for OnDemandNotification { view, type_url, names, kind } in
            core::mem::take(&mut self.subscriptions.on_demand.pending)
        {
            let Some(view) = self.subscriptions.store.view(view) else { continue };
            let view = view.name.clone();
            self.out.event(match kind {
                NotificationKind::Wanted => ServerEvent::Wanted { view, type_url, names },
                NotificationKind::Unwanted => ServerEvent::Unwanted { view, type_url, names },
            });
        }
    }
}
