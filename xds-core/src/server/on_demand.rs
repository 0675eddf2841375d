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

use alloc::{collections::BTreeSet, vec::Vec};

use super::{
    Applied, Server, Transaction, TransactionError, ViewName,
    event::ServerEvent,
    store::{
        Store,
        arena::ResourceEntry,
        on_demand::{NotificationKind, OnDemandNotification},
    },
};
use crate::{
    slab::Slot,
    text::{ResourceName, TypeUrl},
    time::Time,
    xdstp,
};

impl Server {
    /// Returns the unanswered questions to the application: the clients that wait for a view
    /// ([`ServerEvent::Authorize`]), in the order of their streams, and the wanted resources that
    /// are neither set nor marked as missing ([`ServerEvent::Wanted`]).
    ///
    /// It is for an application that restarts while the server keeps running. Takes time
    /// proportional to the number of streams and resources.
    pub fn unanswered_events(&self) -> impl Iterator<Item = ServerEvent> + '_ {
        let requires_decision = self.requires_decision();
        let waiting = self.open_streams().filter_map(move |(id, stream)| {
            let is_asked = requires_decision && stream.view.is_none() && stream.held_count() > 0;
            let node_id = stream.node().cloned().unwrap_or_default();
            is_asked.then_some(ServerEvent::Authorize { stream: id, node_id })
        });
        let store = &self.subscriptions.store;
        let wanted = store.arenas().flat_map(move |arena| {
            let stable = store.stable_view(arena.view);
            let view = store.view(stable).map(|view| view.name.clone()).unwrap_or_default();
            let type_url = arena.type_url.clone();
            let resources = arena.slots().filter_map(|slot| arena.at(slot));
            let in_stable = |name: &ResourceName| {
                store
                    .entry(stable, arena.type_url.as_str(), name.as_str())
                    .is_some_and(ResourceEntry::is_requested)
            };
            let asked = resources.filter(|it| it.is_requested());
            let asked = asked.filter(|it| stable == arena.view || !in_stable(&it.name));
            let names: Vec<_> = asked.map(|it| it.name.clone()).collect();
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
        let removal = self.removal_unless_named(view, type_url, name);
        removal.map(|removal| self.apply(removal, now)).transpose()
    }

    /// Returns the removal of a resource, unless a client of any cohort requests it by name.
    pub(crate) fn removal_unless_named(
        &self,
        view: &ViewName,
        type_url: &str,
        name: &str,
    ) -> Option<Transaction> {
        let store = &self.subscriptions.store;
        if let (Some(slot), Ok(name)) = (store.find_view(view), xdstp::canonical(&name.into())) {
            let views = store.cohort_views(slot);
            let mut entries = views.filter_map(|it| store.entry(it, type_url, name.as_str()));
            if entries.any(|it| !it.subscribers.is_empty()) {
                return None;
            }
        }
        let mut removal = Transaction::in_view(view.clone());
        removal.remove(type_url, name);
        Some(removal)
    }

    /// Queues the notifications for resources that became wanted or unwanted.
    pub(crate) fn notify_wanted(&mut self) {
        if self.subscriptions.on_demand.pending.is_empty() {
            return;
        }
        let pending = core::mem::take(&mut self.subscriptions.on_demand.pending);
        let store = &mut self.subscriptions.store;
        for released in pending.iter().filter(|it| it.kind == NotificationKind::Unwanted) {
            for name in &released.names {
                store.note_released_in(released.view, &released.type_url, name);
            }
        }
        let released = released_in_cohorts(store, &pending);
        for notification in &pending {
            let OnDemandNotification { view: seen, type_url, kind, .. } = notification;
            let stable = store.stable_view(*seen);
            let Some(view) = store.view(stable).map(|view| view.name.clone()) else { continue };
            let is_news = |name: &&ResourceName| {
                let was_released = released.contains(&(stable, type_url, *name));
                is_news(store, notification, name, was_released)
            };
            let names: Vec<_> = notification.names.iter().filter(is_news).cloned().collect();
            if names.is_empty() {
                continue;
            }
            let type_url = type_url.clone();
            self.out.event(match kind {
                NotificationKind::Wanted => ServerEvent::Wanted { view, type_url, names },
                NotificationKind::Unwanted => ServerEvent::Unwanted { view, type_url, names },
            });
        }
    }
}

/// Name of a type in a stable view.
type NameInView<'a> = (Slot, &'a TypeUrl, &'a ResourceName);

/// Returns the names that the last client of a cohort has released, for views with several cohorts.
fn released_in_cohorts<'a>(
    store: &Store,
    pending: &'a [OnDemandNotification],
) -> BTreeSet<NameInView<'a>> {
    let has_cohorts = |it: &&OnDemandNotification| {
        it.kind == NotificationKind::Unwanted && store.cohort_views(it.view).nth(1).is_some()
    };
    let names = |it: &'a OnDemandNotification| {
        let stable = store.stable_view(it.view);
        it.names.iter().map(move |name| (stable, &it.type_url, name))
    };
    pending.iter().filter(has_cohorts).flat_map(names).collect()
}

/// Whether the application has to be notified of a change in the view of one cohort. `was_released`
/// states whether another cohort has just released the name, for example because the client moved.
///
/// A name is wanted while a client of any cohort requests it. If the application was notified of
/// that already, it is notified again only if it has set the resource and this view lacks it.
fn is_news(
    store: &Store,
    notification: &OnDemandNotification,
    name: &ResourceName,
    was_released: bool,
) -> bool {
    let OnDemandNotification { view, type_url, kind, .. } = notification;
    let others = || store.in_other_cohorts(*view, type_url, name);
    if *kind == NotificationKind::Unwanted {
        return others().all(|it| it.subscribers.is_empty());
    }
    let is_known = was_released || others().any(|it| it.on_demand_state.is_wanted());
    let is_here =
        store.entry(*view, type_url.as_str(), name.as_str()).is_some_and(|it| it.is_held());
    let is_unanswered = others().any(ResourceEntry::is_requested)
        || was_released && others().all(|it| !it.is_held());
    !is_known || !is_here && !is_unanswered
}
