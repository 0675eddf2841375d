//! Subscriptions to globs (TP1, M138-M141).
//!
//! A client that subscribes to a glob subscribes to its name, and has an edge to each member besides: so
//! a member is sent, remembered and told to be gone as what is subscribed by name is. Of the glob itself
//! there is something to say only if it has no members (M140), or an error (M178).

use alloc::{borrow::Cow, vec::Vec};

use super::{Turn, edge::Standing};
use crate::{
    server::{event::Cause, store::arena::Arena},
    service::Variant,
    slab::Slot,
    text::ResourceName,
    xdstp::{self, XdstpName},
};

/// The name as it is filed: a structured one in its canonical form (M141). What claims to be structured
/// and is malformed is the name of nothing.
pub(super) fn canonical<'n>(name: &'n str, arena: &Arena) -> Cow<'n, str> {
    if !xdstp::is_xdstp(name) || arena.find(name).is_some() {
        return Cow::Borrowed(name);
    }
    match XdstpName::parse(name) {
        Ok(parsed) => Cow::Owned(parsed.as_str().into()),
        Err(_) => Cow::Borrowed(name),
    }
}

impl Turn<'_> {
    /// What a name stands for besides itself: the members of a glob.
    fn members_of(&self, name: Slot) -> Vec<Slot> {
        match self.arena.at(name).filter(|_| self.arena.is_glob(name)) {
            Some(glob) => self.arena.names_below(glob.name.as_str()),
            None => Vec::new(),
        }
    }

    /// Makes due what a glob stands for.
    pub(super) fn cover_members(&mut self, name: Slot, cause: Cause) {
        for member in self.members_of(name) {
            if let Some(edge) = self.cover(member) {
                self.make_due(edge, cause);
            }
        }
    }

    /// The same, for what nothing is known of yet.
    pub(super) fn cover_new_members(&mut self, name: Slot, cause: Cause) {
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
        let edge = self.connect(member)?;
        self.edges.at_mut(edge)?.standing = Standing::Covered;
        Some(edge)
    }

    /// Whether the client subscribes to a glob that stands for the name.
    pub(super) fn is_covered(&self, name: &str) -> bool {
        let globs = self.arena.globs_over(name);
        globs.into_iter().any(|glob| {
            let edge = self.edges.find(self.slot, glob).and_then(|edge| self.edges.at(edge));
            edge.is_some_and(|edge| edge.standing == Standing::Named)
        })
    }

    /// The client has dropped a name with an edge. What a glob stood for goes, unless another glob or the
    /// wildcard does too; an incremental client is told what is not covered any more (M139).
    pub(super) fn drop_named(&mut self, edge: Slot) {
        let Some(resource) = self.edges.at(edge).map(|edge| edge.resource) else { return };
        let Some(name) = self.arena.at(resource).map(|it| it.name.clone()) else { return };
        let members = match self.arena.is_glob(resource) {
            true => self.arena.names_below(name.as_str()),
            false => Vec::new(),
        };
        self.disconnect(edge);
        let is_behind = self.session.wildcard.is_some_and(|wildcard| wildcard.owed.is_some());
        let remember = is_behind && !self.sends_full_state();
        let mut gone = Vec::new();
        for member in members {
            let Some(slot) = self.edges.find(self.slot, member) else { continue };
            let Some(edge) = self.edges.at(slot) else { continue };
            let Some(name) = self.arena.at(member).map(|it| it.name.clone()) else { continue };
            if edge.standing != Standing::Covered || self.is_covered(name.as_str()) {
                continue;
            }
            match edge.sent {
                0 => {}
                // The wildcard has not got there yet.
                _ if remember => {
                    self.set_standing(slot, Standing::Remembered);
                    continue;
                }
                _ => gone.push(name),
            }
            self.disconnect(slot);
        }
        if self.session.variant == Variant::Incremental && self.session.wildcard.is_none() {
            self.add_farewell(gone);
        }
    }

    fn add_farewell(&mut self, mut names: Vec<ResourceName>) {
        if names.is_empty() {
            return;
        }
        names.extend_from_slice(self.session.farewell());
        names.sort_unstable();
        names.dedup();
        self.session.rare_mut().farewell = names.into();
    }
}
