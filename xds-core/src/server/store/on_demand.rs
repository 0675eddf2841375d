//! Names that are fetched on demand, and the notifications about them.

use alloc::{vec, vec::Vec};

use super::arena::Arena;
use crate::{
    server::config::OnDemand,
    slab::Slot,
    text::{ResourceName, TypeUrl},
};

/// Last notification about a name to the application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnDemandState {
    #[default]
    Idle,
    /// The name is wanted.
    Requested,
    /// The name is wanted, and the application has set the resource or an error.
    Provided,
    /// The name is no longer wanted. The application may have kept the resource; it is notified
    /// of the next subscription anyway, because it may be about to drop the resource.
    // M250
    Released,
}

impl OnDemandState {
    /// Whether the application was notified that the name is wanted, and not since that it is not.
    pub(crate) fn is_wanted(self) -> bool {
        matches!(self, Self::Requested | Self::Provided)
    }
}

/// Pending notifications to the application.
#[derive(Debug, Default)]
pub(crate) struct OnDemandNotifications {
    pub(crate) policy: OnDemand,
    pub(crate) pending: Vec<OnDemandNotification>,
}

#[derive(Debug)]
pub(crate) struct OnDemandNotification {
    pub(crate) view: Slot,
    pub(crate) type_url: TypeUrl,
    pub(crate) names: Vec<ResourceName>,
    pub(crate) kind: NotificationKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotificationKind {
    Wanted,
    Unwanted,
}

impl OnDemandNotifications {
    pub(crate) fn new(policy: OnDemand) -> Self {
        Self { policy, pending: Vec::new() }
    }

    /// Queues a notification. Consecutive names are combined, because one request may have many.
    pub(crate) fn notify(&mut self, arena: &Arena, name: ResourceName, kind: NotificationKind) {
        let Arena { view, type_url, .. } = arena;
        if let Some(last) = self.pending.last_mut()
            && (last.view, last.kind, &last.type_url) == (*view, kind, type_url)
        {
            return last.names.push(name);
        }
        let (view, type_url, names) = (*view, type_url.clone(), vec![name]);
        self.pending.push(OnDemandNotification { view, type_url, names, kind });
    }
}
