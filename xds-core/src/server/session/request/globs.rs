//! Subscriptions to globs.
//!
//! A client that subscribes to a glob has a subscription to the glob's name and one to each
//! member. Members are sent, retained and removed like resources subscribed by name. The glob
//! itself is reported only if it has no members or has an error.
// TP1, M138-M141, M178

use alloc::{borrow::Cow, vec::Vec};

use crate::{
    server::{
        event::Cause,
        session::{context::Turn, subscription::Standing},
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

impl Turn<'_> {
    /// Returns the members of a glob or the resource of an alias.
    fn members_of(&self, name: Slot) -> Vec<Slot> {
        if let Some(resource) = self.meaning(name) {
            return Vec::from([resource]);
        }
        match self.arena.at(name).filter(|_| self.arena.is_glob(name)) {
            Some(glob) => self.arena.names_below(glob.name.as_str()),
            None => Vec::new(),
        }
    }

    /// Makes the members of a glob or the resource of an alias due.
    pub(crate) fn cover_members(&mut self, name: Slot, cause: Cause) {
        for member in self.members_of(name) {
            if let Some(edge) = self.cover(member) {
                self.make_due(edge, cause);
            }
        }
    }

    /// Makes the members of a glob or the resource of an alias due after a request for them. A
    /// glob that is subscribed again before a response was sent is skipped, because its members
    /// are due.
    // IS25
    pub(crate) fn owe_members(&mut self, name: Slot, cause: Cause) {
        if self.arena.is_glob(name) {
            let after = self.session.newest_nonce();
            let owed = &mut self.session.rare_mut().owed_globs;
            if owed.after != after {
                owed.globs.clear();
                owed.after = after;
            }
            if !owed.globs.insert(name) {
                return;
            }
        }
        self.cover_members(name, cause);
    }

    /// Makes those members of a glob or alias due to which the client has no subscription yet.
    pub(crate) fn cover_new_members(&mut self, name: Slot, cause: Cause) {
        for member in self.members_of(name) {
            if self.edges.find(self.slot, member).is_none()
                && let Some(edge) = self.cover(member)
            {
                self.make_due(edge, cause);
            }
        }
    }

    /// Returns the subscription to a member, if the member exists; adds it if needed.
    pub(crate) fn cover(&mut self, member: Slot) -> Option<Slot> {
        self.arena.payload(member)?;
        if let Some(edge) = self.edges.find(self.slot, member) {
            // A passing subscription must not replace one that the client made.
            if self.standing(edge) != Some(Standing::Named) {
                self.set_standing(edge, Standing::Covered);
            }
            return Some(edge);
        }
        self.connect_covered(member)
    }

    /// Adds a subscription to a resource that a glob or an alias covers.
    pub(crate) fn connect_covered(&mut self, member: Slot) -> Option<Slot> {
        let edge = self.connect(member)?;
        self.edges.at_mut(edge)?.standing = Standing::Covered;
        Some(edge)
    }

    /// Whether the client subscribes to a glob or an alias that covers the name.
    pub(crate) fn is_covered(&self, name: &str) -> bool {
        self.is_in_glob(name) || self.is_meant(name)
    }

    /// Whether the client subscribes to a glob that matches the name.
    pub(crate) fn is_in_glob(&self, name: &str) -> bool {
        self.arena.globs_over(name).into_iter().any(|glob| {
            let edge = self.edges.find(self.slot, glob).and_then(|edge| self.edges.at(edge));
            edge.is_some_and(|edge| edge.standing == Standing::Named)
        })
    }

    /// Ends the subscription to a name. Members of a glob are removed unless another glob or the
    /// wildcard covers them, and an incremental client is sent these removals.
    // M139, M140
    pub(crate) fn drop_named(&mut self, edge: Slot) {
        let Some(resource) = self.edges.at(edge).map(|edge| edge.resource) else { return };
        let Some(name) = self.arena.at(resource).map(|it| it.name.clone()) else { return };
        let members = match self.arena.is_glob(resource) {
            true => self.arena.names_below(name.as_str()),
            false => Vec::new(),
        };
        self.disconnect(edge);
        let mut gone = Vec::new();
        for member in members {
            let edge = self.edges.find(self.slot, member);
            gone.extend(edge.and_then(|edge| self.uncover(edge)));
        }
        self.add_farewell(gone);
    }

    /// Ends the subscription to a resource unless a glob or an alias still covers it. Returns the
    /// name if the subscription ended and the client was sent the resource.
    pub(crate) fn uncover(&mut self, slot: Slot) -> Option<ResourceName> {
        let edge = self.edges.at(slot)?;
        let (was_sent, resource) = (edge.sent != 0, self.arena.at(edge.resource)?);
        let name = resource.name.clone();
        if edge.standing != Standing::Covered || self.is_covered(name.as_str()) {
            return None;
        }
        let is_behind = self.session.wildcard.is_some_and(|wildcard| wildcard.owed.is_some());
        if was_sent && is_behind && !self.sends_full_state() {
            // The wildcard has not reached this resource yet.
            self.set_standing(slot, Standing::Remembered);
            return None;
        }
        self.disconnect(slot);
        was_sent.then_some(name)
    }

    /// Makes removals due for names that no subscription of an incremental client covers any
    /// more.
    pub(crate) fn add_farewell(&mut self, names: impl IntoIterator<Item = ResourceName>) {
        let is_told = self.session.variant == Variant::Incremental;
        let mut names = names.into_iter().peekable();
        if names.peek().is_none() || !is_told || self.session.wildcard.is_some() {
            return;
        }
        self.session.rare_mut().farewell.extend(names);
    }
}
