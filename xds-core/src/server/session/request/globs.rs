//! Subscriptions to globs.
//!
//! A client that subscribes to a glob has a subscription to the glob's name and one to each
//! member. Members are sent, retained and removed like resources subscribed by name. The glob
//! itself is reported only if it has no members or has an error.
// TP1, M138-M141, M178

use alloc::{borrow::Cow, vec::Vec};

use crate::{
    server::{
        event::ResponseCause,
        session::{context::SessionContext, subscription::SubscriptionKind},
        store::arena::Arena,
    },
    service::Variant,
    slab::Slot,
    text::ResourceName,
    xdstp::{self, XdstpName},
};

/// Returns the name under which resources are stored: an `xdstp:` name in canonical form, any
/// other name unchanged. A malformed `xdstp:` name is unchanged and matches no resource.
// M141
pub(crate) fn canonical<'n>(name: &'n str, arena: &Arena) -> Cow<'n, str> {
    if !xdstp::is_xdstp(name) || arena.find(name).is_some() {
        return Cow::Borrowed(name);
    }
    match XdstpName::parse(name) {
        Ok(parsed) => Cow::Owned(parsed.as_str().into()),
        Err(_) => Cow::Borrowed(name),
    }
}

impl SessionContext<'_> {
    /// Returns the members of a glob or the resource of an alias.
    fn members_of(&self, name: Slot) -> Vec<Slot> {
        if let Some(resource) = self.alias_target(name) {
            return Vec::from([resource]);
        }
        match self.arena.at(name).filter(|_| self.arena.is_glob(name)) {
            Some(glob) => self.arena.names_below(glob.name.as_str()),
            None => Vec::new(),
        }
    }

    /// Makes the members of a glob or the resource of an alias due.
    pub(crate) fn cover_members(&mut self, name: Slot, cause: ResponseCause) {
        for member in self.members_of(name) {
            if let Some(subscription) = self.cover(member) {
                self.make_due(subscription, cause);
            }
        }
    }

    /// Makes the members of a glob or the resource of an alias due after a request for them. A
    /// glob that is subscribed again before a response was sent is skipped, because its members
    /// are due.
    // IS25
    pub(crate) fn make_members_due(&mut self, name: Slot, cause: ResponseCause) {
        if self.arena.is_glob(name) {
            let after = self.session.newest_nonce();
            let due = &mut self.session.extras_mut().due_globs;
            if due.after != after {
                due.globs.clear();
                due.after = after;
            }
            if !due.globs.insert(name) {
                return;
            }
        }
        self.cover_members(name, cause);
    }

    /// Makes those members of a glob or alias due to which the client has no subscription yet.
    pub(crate) fn cover_new_members(&mut self, name: Slot, cause: ResponseCause) {
        for member in self.members_of(name) {
            if self.subscriptions.find(self.slot, member).is_none()
                && let Some(subscription) = self.cover(member)
            {
                self.make_due(subscription, cause);
            }
        }
    }

    /// Returns the subscription to a member, if the member exists; adds it if needed.
    pub(crate) fn cover(&mut self, member: Slot) -> Option<Slot> {
        self.arena.payload(member)?;
        if let Some(subscription) = self.subscriptions.find(self.slot, member) {
            // An implicit subscription must not replace one that the client made.
            if self.kind_of(subscription) != Some(SubscriptionKind::Named) {
                self.set_kind(subscription, SubscriptionKind::ViaGlobOrAlias);
            }
            return Some(subscription);
        }
        self.add_covered(member)
    }

    /// Adds a subscription to a resource that a glob or an alias covers.
    pub(crate) fn add_covered(&mut self, member: Slot) -> Option<Slot> {
        let subscription = self.connect(member)?;
        self.set_kind(subscription, SubscriptionKind::ViaGlobOrAlias);
        Some(subscription)
    }

    /// Whether the client subscribes to a glob or an alias that covers the name.
    pub(crate) fn is_covered(&self, name: &str) -> bool {
        self.is_in_glob(name) || self.is_subscribed_by_alias(name)
    }

    /// Whether the client subscribes to a glob that matches the name.
    pub(crate) fn is_in_glob(&self, name: &str) -> bool {
        self.arena.globs_over(name).into_iter().any(|glob| {
            let subscription = self.subscriptions.of(self.slot, glob);
            subscription.is_some_and(|subscription| subscription.kind == SubscriptionKind::Named)
        })
    }

    /// Ends the subscription to a name. Members of a glob are removed unless another glob or the
    /// wildcard covers them, and an incremental client is sent these removals.
    // M139, M140
    pub(crate) fn drop_named(&mut self, subscription: Slot) {
        let Some(resource) =
            self.subscriptions.at(subscription).map(|subscription| subscription.resource)
        else {
            return;
        };
        let Some(name) = self.arena.at(resource).map(|it| it.name.clone()) else { return };
        let members = match self.arena.is_glob(resource) {
            true => self.arena.names_below(name.as_str()),
            false => Vec::new(),
        };
        self.disconnect(subscription);
        let mut gone = Vec::new();
        for member in members {
            let subscription = self.subscriptions.find(self.slot, member);
            gone.extend(subscription.and_then(|subscription| self.uncover(subscription)));
        }
        self.add_unsubscribe_removals(gone);
    }

    /// Ends the subscription to a resource unless a glob or an alias still covers it. Returns the
    /// name if the subscription ended and the client was sent the resource.
    pub(crate) fn uncover(&mut self, slot: Slot) -> Option<ResourceName> {
        let subscription = self.subscriptions.at(slot)?;
        let (was_sent, resource) =
            (subscription.has_version(), self.arena.at(subscription.resource)?);
        let name = resource.name.clone();
        if subscription.kind != SubscriptionKind::ViaGlobOrAlias || self.is_covered(name.as_str()) {
            return None;
        }
        let is_behind = self.session.wildcard.is_some_and(|wildcard| wildcard.full_send.is_some());
        if was_sent && is_behind && !self.sends_full_state() {
            // The wildcard has not reached this resource yet.
            self.set_kind(slot, SubscriptionKind::Retained);
            return None;
        }
        self.disconnect(slot);
        was_sent.then_some(name)
    }

    /// Makes removals due for names that no subscription of an incremental client covers any
    /// more.
    pub(crate) fn add_unsubscribe_removals(
        &mut self,
        names: impl IntoIterator<Item = ResourceName>,
    ) {
        let is_incremental = self.session.variant == Variant::Incremental;
        let mut names = names.into_iter().peekable();
        if names.peek().is_none() || !is_incremental || self.session.wildcard.is_some() {
            return;
        }
        self.session.extras_mut().unsubscribe_removals.extend(names);
    }
}
