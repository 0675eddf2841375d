//! Subscriptions to globs (TP1, M138-M141).
//!
//! A client that subscribes to a glob subscribes to its name, and has an edge to each member besides: so
//! a member is sent, remembered and told to be gone as what is subscribed by name is. Of the glob itself
//! there is something to say only if it has no members (M140), or an error (M178).

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

/// The name as it is filed: a structured one in its canonical form (M141). What claims to be structured
/// and is malformed is the name of nothing.
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
    /// What a name stands for besides itself: the members of a glob, or the resource of an alias.
    fn members_of(&self, name: Slot) -> Vec<Slot> {
        if let Some(resource) = self.meaning(name) {
            return Vec::from([resource]);
        }
        match self.arena.at(name).filter(|_| self.arena.is_glob(name)) {
            Some(glob) => self.arena.names_below(glob.name.as_str()),
            None => Vec::new(),
        }
    }

    /// Makes due what a glob or an alias stands for.
    pub(crate) fn cover_members(&mut self, name: Slot, cause: Cause) {
        for member in self.members_of(name) {
            if let Some(edge) = self.cover(member) {
                self.make_due(edge, cause);
            }
        }
    }

    /// The same for who asks for them, perhaps once more before any were sent: then they are due already, which
    /// need not be found out for each (IS25).
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

    /// The same, for what nothing is known of yet.
    pub(crate) fn cover_new_members(&mut self, name: Slot, cause: Cause) {
        for member in self.members_of(name) {
            if self.edges.find(self.slot, member).is_none()
                && let Some(edge) = self.cover(member)
            {
                self.make_due(edge, cause);
            }
        }
    }

    /// The edge to a member that exists.
    pub(crate) fn cover(&mut self, member: Slot) -> Option<Slot> {
        self.arena.payload(member)?;
        if let Some(edge) = self.edges.find(self.slot, member) {
            // What is passing must not end what the client subscribes to.
            if self.standing(edge) != Some(Standing::Named) {
                self.set_standing(edge, Standing::Covered);
            }
            return Some(edge);
        }
        self.connect_covered(member)
    }

    /// An edge to what something else stands for.
    pub(crate) fn connect_covered(&mut self, member: Slot) -> Option<Slot> {
        let edge = self.connect(member)?;
        self.edges.at_mut(edge)?.standing = Standing::Covered;
        Some(edge)
    }

    /// Whether the client subscribes to a glob or an alias that stands for the name.
    pub(crate) fn is_covered(&self, name: &str) -> bool {
        self.is_in_glob(name) || self.is_meant(name)
    }

    /// Whether the client subscribes to a glob that the name is below.
    pub(crate) fn is_in_glob(&self, name: &str) -> bool {
        self.arena.globs_over(name).into_iter().any(|glob| {
            let edge = self.edges.find(self.slot, glob).and_then(|edge| self.edges.at(edge));
            edge.is_some_and(|edge| edge.standing == Standing::Named)
        })
    }

    /// The client has dropped a name with an edge. What a glob stood for goes, unless another glob or the
    /// wildcard does too; an incremental client is told what is not covered any more (M139).
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

    /// Something does not stand for a name any more. If nothing else does, its edge goes; gives the name
    /// then, if the client was sent the resource.
    pub(crate) fn uncover(&mut self, slot: Slot) -> Option<ResourceName> {
        let edge = self.edges.at(slot)?;
        let (was_sent, resource) = (edge.sent != 0, self.arena.at(edge.resource)?);
        let name = resource.name.clone();
        if edge.standing != Standing::Covered || self.is_covered(name.as_str()) {
            return None;
        }
        let is_behind = self.session.wildcard.is_some_and(|wildcard| wildcard.owed.is_some());
        if was_sent && is_behind && !self.sends_full_state() {
            // The wildcard has not got there yet.
            self.set_standing(slot, Standing::Remembered);
            return None;
        }
        self.disconnect(slot);
        was_sent.then_some(name)
    }

    /// An incremental client is told that it has no claim to these any more, unless the wildcard covers
    /// them.
    pub(crate) fn add_farewell(&mut self, names: impl IntoIterator<Item = ResourceName>) {
        let is_told = self.session.variant == Variant::Incremental;
        let mut names = names.into_iter().peekable();
        if names.peek().is_none() || !is_told || self.session.wildcard.is_some() {
            return;
        }
        self.session.rare_mut().farewell.extend(names);
    }
}
