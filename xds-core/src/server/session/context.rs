//! Session together with all state that one call on it can read and change.

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

/// Session together with all state that its rules read and change.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    /// Errors for the response being rendered.
    pub(crate) errors: Errors,
    /// Resources that the response reports as too long, with their lengths in bytes.
    pub(crate) too_long: Vec<(ResourceName, usize)>,
    /// Whether a full-state response implies removals that its contents do not show.
    pub(crate) tells_deletions: bool,
    /// Whether the response removes resources that no subscription covers any more.
    // M136
    pub(crate) tells_losses: bool,
    /// Number of names in the response that do not exist and that the client was never sent.
    pub(crate) absences: usize,
    /// Resources in the response, if the session has to remember them.
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

    /// Returns the encoding for this client. If no resource has a TTL, all clients share bytes.
    pub(crate) fn form(&self) -> Form {
        let ttls = if self.arena.has_ttls() { self.session.ttls } else { Ttls::Untold };
        Form { variant: self.session.variant, ttls }
    }

    /// Registers the session with its arena.
    pub(crate) fn begin(&mut self) {
        self.arena.sessions += 1;
        if self.session.ttls == Ttls::Told {
            self.arena.beats.join();
        }
        if self.session.needs_ghosts(self.arena) {
            self.arena.ghosts.join();
        }
    }

    /// Makes the resource of a subscription due. Any reason other than a change is urgent.
    pub(crate) fn make_due(&mut self, edge: Slot, cause: Cause) {
        if cause != Cause::Changed {
            self.session.haste = Haste::Urgent;
        }
        self.edges.set_due(&mut self.session.due, edge, Due::because(cause));
    }

    /// Releases everything held for the session after its stream has ended. Takes time
    /// proportional to its own names.
    // M13, IS23
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
