//! Everything that one call on a session can read and change.

use alloc::vec::Vec;

use super::{
    Haste, Session,
    response::errors::Errors,
    subscription::{Due, Edges},
};
use crate::{
    server::{
        event::Cause,
        store::{
            arena::Arena,
            encode::body::{Form, Payload, Ttls},
            on_demand::Wants,
        },
    },
    slab::Slot,
    text::ResourceName,
};

/// A session with all that its rules touch.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    /// What goes into the response that is being made.
    pub(crate) errors: Errors,
    /// And what they say to be too long, in bytes.
    pub(crate) too_long: Vec<(ResourceName, usize)>,
    /// Whether it tells that something is gone in full state, where that cannot be seen.
    pub(crate) tells_deletions: bool,
    /// Whether it tells of what the client has no claim to any more (M136).
    pub(crate) tells_losses: bool,
    /// How many names it tells to be gone that the client has not been sent.
    pub(crate) absences: usize,
    /// And what went in, if that is to be known.
    pub(crate) kept: Vec<(ResourceName, Payload)>,
    pub(crate) slot: Slot,
    pub(crate) session: &'a mut Session,
    pub(crate) arena: &'a mut Arena,
    pub(crate) edges: &'a mut Edges,
    pub(crate) wants: &'a mut Wants,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(
        slot: Slot,
        session: &'a mut Session,
        arena: &'a mut Arena,
        edges: &'a mut Edges,
        wants: &'a mut Wants,
    ) -> Self {
        let (errors, too_long, kept) = (Errors::default(), Vec::new(), Vec::new());
        let (tells_deletions, tells_losses, absences) = (false, false, 0);
        Self {
            errors,
            too_long,
            tells_deletions,
            tells_losses,
            absences,
            kept,
            slot,
            session,
            arena,
            edges,
            wants,
        }
    }

    /// How resources are encoded for this client. Where none has a TTL, all clients share bytes.
    pub(crate) fn form(&self) -> Form {
        let ttls = if self.arena.has_ttls() { self.session.ttls } else { Ttls::Untold };
        Form { variant: self.session.variant, ttls }
    }

    /// The session is on its arena from now on.
    pub(crate) fn begin(&mut self) {
        self.arena.sessions += 1;
        if self.session.ttls == Ttls::Told {
            self.arena.beats.join();
        }
        if self.session.needs_ghosts(self.arena) {
            self.arena.ghosts.join();
        }
    }

    /// The client is to be sent what an edge leads to, for a reason that may be more than a change.
    pub(crate) fn make_due(&mut self, edge: Slot, cause: Cause) {
        if cause != Cause::Changed {
            self.session.haste = Haste::Urgent;
        }
        self.edges.set_due(&mut self.session.due, edge, Due::because(cause));
    }

    /// The stream is gone: all that was held for the session goes, at the cost of its own names
    /// (M13, IS23).
    pub(crate) fn end(&mut self) {
        self.leave_wildcard();
        while !self.session.edges.is_empty() {
            self.disconnect(self.session.edges.first());
        }
        self.arena.sessions -= 1;
        if self.session.ttls == Ttls::Told {
            self.arena.beats.leave();
        }
        if self.session.needs_ghosts(self.arena) {
            self.arena.ghosts.leave();
        }
    }
}
