//! Head and tail of an intrusive list of subscriptions.

use crate::slab::Slot;

/// Head and tail of an intrusive list of subscriptions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SubscriptionList {
    pub(crate) head: Slot,
    pub(crate) tail: Slot,
}

impl SubscriptionList {
    pub(crate) fn is_empty(self) -> bool {
        self.head.is_none()
    }

    pub(crate) fn first(self) -> Slot {
        self.head
    }

    pub(crate) fn last(self) -> Slot {
        self.tail
    }
}
