//! NACKs: rejected resources, their re-sending, and when a rejection ends.

pub(crate) mod isolation;
pub(crate) mod rejection;

use alloc::{boxed::Box, sync::Arc, vec::Vec};

use self::rejection::Rejection;
use super::{
    Past, Sends, Wildcard,
    context::Turn,
    deferred_removal::last_accepted::Form,
    extras::{Beside, Lacks, Suspects},
    response::stated_version,
    subscription::{Chain, Edge},
    window::Sent,
};
use crate::{
    server::{
        config::{NackRecovery, ServerConfig},
        event::{Cause, status::Extent},
        store::{revision::Stamp, version::content::TypeVersion},
    },
    slab::Slot,
    text::{ResourceName, Version},
};

/// Rejected response.
#[derive(Clone, Debug)]
pub(crate) struct Rejected {
    pub(crate) version: Version,
    pub(crate) code: i32,
    pub(crate) message: Arc<str>,
    /// Names of resources that were new to the client in it, possibly truncated (see `extent`).
    pub(crate) names: Box<[ResourceName]>,
    pub(crate) extent: Extent,
    span: Span,
    /// Resources of this and earlier rejected responses that are re-sent with the next change.
    rides: Option<Span>,
}

/// Location of the resources of rejected responses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// By name: lowest nonce under which they were sent.
    first: u64,
    /// By name: highest nonce under which they were sent.
    last: u64,
    /// Under the wildcard: resources changed after this revision are included.
    from: Stamp,
    /// Under the wildcard: last included revision.
    to: Stamp,
}

/// Resources that a client rejected and has not accepted since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    /// Resources that are re-sent with the next change, or were and are unanswered.
    rides: Option<Span>,
    /// Resources that are not sent again until they change.
    rests: Vec<Span>,
}

/// Maximum number of separate spans; the oldest ones are merged.
const SPANS: usize = 8;

impl Span {
    fn has(&self, mark: Mark) -> bool {
        match mark {
            Mark::Nonce(nonce) => (self.first..=self.last).contains(&nonce),
            Mark::Stamp(stamp) => self.from < stamp && stamp <= self.to,
        }
    }

    fn with(self, later: Self) -> Self {
        let (first, from) = (self.first.min(later.first), self.from.min(later.from));
        Self { first, last: later.last, from, to: self.to.max(later.to) }
    }
}

/// Position of a resource, by which it is found in a span.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mark {
    Nonce(u64),
    Stamp(Stamp),
}

impl Held {
    /// Whether a resource is among those re-sent with a change, provided that they were re-sent.
    pub(crate) fn rode(&self, mark: Mark) -> bool {
        self.rides.is_some_and(|rides| rides.has(mark))
    }

    /// Adds another rejected response.
    pub(crate) fn add(&mut self, rejected: &Rejected) {
        let before = self.rides.take();
        self.rides = rejected.rides;
        match (before, rejected.rides) {
            (Some(before), Some(rides)) if rides.first > before.first => self.rests.push(before),
            (Some(before), None) => self.rests.push(before),
            _ => {}
        }
        if rejected.rides.is_none() {
            self.rests.push(rejected.span);
        }
        while self.rests.len() > SPANS {
            let oldest = self.rests.remove(0);
            if let Some(next) = self.rests.first_mut() {
                *next = oldest.with(*next);
            }
        }
    }

    /// Whether the rejected resources include this one. Those that were re-sent do not count.
    pub(crate) fn has(&self, mark: Mark, suspects: Suspicion) -> bool {
        let rides = self.rides.filter(|_| suspects == Suspicion::Waits);
        self.rests.iter().chain(&rides).any(|span| span.has(mark))
    }
}

/// Whether rejected resources wait for a change to be re-sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspicion {
    Waits,
    /// The resources were re-sent, or nothing is to be re-sent.
    None,
}

impl Turn<'_> {
    /// Collects the details of a response that was just rejected. Takes time proportional to its
    /// contents.
    pub(crate) fn rejected(
        &self,
        sent: Sent,
        version: Version,
        rejection: &Rejection,
        config: &ServerConfig,
    ) -> Rejected {
        let span = self.span(sent);
        let limit = config.limits.rejected_names;
        let mut names: Vec<_> = self.named_in(span).take(limit + 1).cloned().collect();
        if self.session.wildcard.is_some() {
            let covered = self.arena.names_between(span.from, span.to);
            let is_named = |name: &&ResourceName| !names.contains(name);
            let room = (limit + 1).saturating_sub(names.len());
            let covered: Vec<_> = covered.filter(is_named).take(room).cloned().collect();
            names.extend(covered);
        }
        let extent = if names.len() > limit { Extent::Part } else { Extent::All };
        names.truncate(limit);
        Rejected {
            version,
            code: rejection.code,
            message: rejection.message.clone(),
            names: names.into(),
            extent,
            span,
            rides: self.session.suspects().map(|suspects| Span {
                first: suspects.first.get(),
                from: suspects.from,
                ..span
            }),
        }
    }

    /// Returns whether any rejected resource is still unchanged after a response was accepted.
    /// Takes time proportional to the resources sent since the rejection.
    pub(crate) fn still_rejects(&self, held: &mut Held) -> bool {
        if self.sends_full_state() {
            // The accepted response contained everything.
            return false;
        }
        if self.isolates() {
            return self.session.has_suspects_or_culprits();
        }
        if self.session.suspects().is_none() {
            held.rides = None;
        }
        held.rests.retain(|span| {
            let covered = self.session.wildcard.is_some()
                && self.arena.names_between(span.from, span.to).next().is_some();
            covered || self.named_in(*span).next().is_some()
        });
        held.rides.is_some() || !held.rests.is_empty()
    }

    /// Clears rejections of resources to which the client no longer subscribes or that were
    /// removed silently, so that nothing waits for their acceptance. Takes time proportional to
    /// the resources sent since the last ACK.
    // M148
    pub(crate) fn forgive(&mut self) {
        let is_over = !self.session.is_held_to_answers() || !self.session.is_rejected();
        if is_over || self.session.is_waiting() {
            return;
        }
        self.release_what_was_never_accepted();
        self.serve_as_accepted();
        // Contents that are still due will be answered.
        if self.session.has_additions(self.arena) {
            return;
        }
        self.forgive_suspects();
        let may_have_what_is_gone = match self.session.wildcard {
            Some(_) if self.session.needs_ghosts(self.arena) => {
                self.rejected_beside() == Beside::Deletions
            }
            Some(_) if self.sends_full_state() => !self.has_accepted_everything(),
            _ => {
                let suspects = self.session.suspects();
                self.rejected_beside() == Beside::Deletions
                    || suspects.is_some_and(|it| it.beside == Beside::Deletions)
            }
        };
        if self.lacks_what_was_rejected() {
            return;
        }
        if may_have_what_is_gone {
            self.session.rare_mut().lacks = Lacks::News;
        } else {
            self.session.with_rare(|rare| rare.suspects = None);
            self.session.forget_verdict();
        }
    }

    /// Whether resources rejected together with a bad one are re-sent once.
    pub(crate) fn resends_batches(&self) -> bool {
        self.arena.config.nack_recovery == NackRecovery::ResendBatch
    }

    /// Records the rejection of a response, which may have been a full state.
    pub(crate) fn note_rejected_state(&mut self, sent: Sent) {
        if !self.sends_full_state() {
            return;
        }
        self.session.due.let_the_rest_wait();
        if self.resends_batches() {
            self.session.rare_mut().rejected_state = Some(sent.content);
        }
    }

    /// Re-sends the full state if the resource that caused its rejection may have been removed
    /// silently.
    pub(crate) fn recover_from_silence(&mut self) {
        if !self.arena.absence_deletes() {
            self.recover_full_state();
        }
    }

    /// Re-sends the full state after a NACK if the client unsubscribed from the resource that
    /// caused it and lacks other resources. Otherwise nothing might ever become due. Takes time
    /// proportional to the names of the client.
    // M107
    pub(crate) fn recover_full_state(&mut self) {
        let is_full = self.sends_full_state() && self.session.wildcard.is_none();
        let is_done = !self.session.is_refused() || self.session.due.is_ready();
        if !is_full || is_done || !self.resends_batches() {
            return;
        }
        let rejected = self.session.rare.as_deref().and_then(|rare| rare.rejected_state);
        let lacks_something =
            self.lacks_what_was_rejected() || self.rejected_beside() == Beside::Deletions;
        let current = self.named_version();
        if !lacks_something || rejected == Some(current.stated()) {
            return;
        }
        // If this resource is removed, nothing is due any more, so an existing one is preferred.
        let slots = || {
            let first = Some(self.session.edges.first()).filter(|slot| !slot.is_none());
            let next = |&slot: &Slot| {
                Some(self.edges.next(Chain::Session, slot)).filter(|slot| !slot.is_none())
            };
            core::iter::successors(first, next)
        };
        let exists = |slot: &Slot| {
            let edge = self.edges.at(*slot);
            edge.is_some_and(|edge| self.arena.payload(edge.resource).is_some())
        };
        let may_be_told = |slot: &Slot| !self.edges.at(*slot).is_some_and(Edge::is_withheld);
        if let Some(slot) = slots().find(exists).or_else(|| slots().find(may_be_told)) {
            self.make_due(slot, Cause::Recovery);
        }
    }

    /// Releases withheld removals of resources that the client never accepted. They came after
    /// the last accepted response, so nothing that the client accepted references them. One of
    /// them may be the bad resource for which everything else would wait forever. Takes time
    /// proportional to the deferred removals and to the tombstones since the last removals were
    /// sent.
    // M147
    fn release_what_was_never_accepted(&mut self) {
        if !self.session.lets_linger(self.arena) {
            return;
        }
        let accepted = self.accepted_here();
        let never_accepted = |resource: Slot| match accepted {
            Some(accepted) => self.came_and_went_after(resource, accepted),
            None => matches!(self.last_accepted(resource, None), Form::Nothing),
        };
        let mut due = Vec::new();
        let mut slot = self.session.due.withheld().first();
        while let Some(edge) = self.edges.at(slot) {
            // The resource may have existed for long when the client named it.
            let is_new = accepted.is_some_and(|(nonce, _)| edge.was_first_sent_after(nonce));
            if is_new || never_accepted(edge.resource) || self.was_brought_in_vain(edge.resource) {
                due.push(slot);
            }
            slot = self.edges.next(Chain::Due, slot);
        }
        let lost: Vec<Slot> = match self.session.wildcard {
            Some(wildcard) => {
                let knows = self.session.knows(&wildcard);
                let lost = self.arena.lost(knows, wildcard.reached).map(|(resource, _)| resource);
                lost.filter(|&resource| never_accepted(resource)).collect()
            }
            None => Vec::new(),
        };
        let nonce = self.session.newest_nonce();
        for resource in lost {
            if self.edges.find(self.slot, resource).is_none()
                && let Some(edge) = self.connect_parting(resource)
            {
                self.edges.set_sent(&mut self.session.edges, edge, nonce);
                due.push(edge);
            }
        }
        for edge in due {
            self.make_due(edge, Cause::Changed);
        }
    }

    /// Returns nonce and revision of the last response accepted on this view, zeros if there was
    /// none. `None` if the client may have something from before.
    pub(crate) fn accepted_here(&self) -> Option<(u64, Stamp)> {
        let accepted = self.session.accepted_response(self.arena, Stamp::START);
        match (accepted, self.session.past) {
            (Some(accepted), Past::Before(next)) if accepted.nonce < next => None,
            (None, Past::Before(_)) => None,
            (Some(accepted), _) => Some((accepted.nonce.get(), accepted.at)),
            (None, Past::None) => Some((0, Stamp::START)),
        }
    }

    /// Whether a missing resource was also missing, or not requested, when the client last
    /// accepted a response, the one with this nonce at revision `accepted`.
    fn came_and_went_after(&self, slot: Slot, (nonce, accepted): (u64, Stamp)) -> bool {
        let name = self.arena.at(slot).map(|resource| &resource.name);
        let entered = self.session.entered(nonce).zip(name);
        let is_new = entered.is_some_and(|(entered, name)| !entered.had.contains(name));
        self.arena.came_and_went_after(slot, if is_new { Stamp::START } else { accepted })
    }

    /// Returns whether the responses since the last accepted one contained removals.
    pub(crate) fn rejected_beside(&self) -> Beside {
        let accepted = self.session.accepted_response(self.arena, Stamp::START);
        match self.session.may_have_what_is_gone(accepted) {
            true => Beside::Deletions,
            false => Beside::Nothing,
        }
    }

    /// Whether the full state of the wildcard is the one that the client accepted last.
    fn has_accepted_everything(&mut self) -> bool {
        let current = self.version_of_everything();
        match self.session.accepted_version() {
            Some(accepted) => accepted == self.state(current, stated_version::Extent::Subscribed),
            None => current == TypeVersion::default(),
        }
    }

    /// Ends the pending re-send if an accepted response contained its resources for another
    /// reason, for example because the client warms clusters.
    pub(crate) fn settle_suspects(&mut self, sent: Sent) {
        let suspects = self.session.suspects().filter(|it| sent.nonce > it.last);
        // Removals are not repeated to a client without a wildcard. After a change they count as
        // accepted with the next accepted response, even if that only answers a request.
        let is_settled = |it: &Suspects| {
            let is_after_change = sent.at > it.until && self.session.wildcard.is_none();
            it.beside == Beside::Nothing || is_after_change
        };
        let Some(suspects) = suspects.filter(is_settled) else { return };
        let is_left_out = |from, to| self.arena.slots_between(from, to).next().is_some();
        let is_part_left = self.session.wildcard.is_some()
            && (is_left_out(suspects.from, sent.from.min(suspects.to))
                || is_left_out(sent.to.max(suspects.from), suspects.to));
        let (first, last) = (suspects.first.get(), suspects.last.get());
        let span = Span { first, last, from: suspects.from, to: suspects.to };
        if !is_part_left && self.named_in(span).next().is_none() {
            self.session.with_rare(|rare| rare.suspects = None);
        }
    }

    /// Whether anything exists that was sent since the client last accepted a response.
    fn lacks_what_was_rejected(&self) -> bool {
        let accepted = self.session.accepted_response(self.arena, Stamp::START);
        let (first, from) = accepted.map_or((1, Stamp::START), |it| (it.nonce.get() + 1, it.to));
        let since = Span { first, last: u64::MAX, from, to: Stamp::MAX };
        let span = match self.session.suspects() {
            Some(suspects) => Span {
                first: first.min(suspects.first.get()),
                from: from.min(suspects.from),
                ..since
            },
            None => since,
        };
        // The client accepted nothing of the wildcard yet, but perhaps some resources by name.
        let entered = self.session.entered(first - 1);
        let from = if entered.is_some() { Stamp::START } else { span.from };
        let accepted_by_name = |slot: Slot| {
            let resource = self.arena.at(slot).zip(entered).zip(accepted);
            resource.is_some_and(|((it, entered), accepted)| {
                it.stamp <= accepted.at && entered.had.contains(&it.name)
            })
        };
        let is_covered = |wildcard: Wildcard| {
            let mut sent = self.arena.slots_back(from, wildcard.cursor);
            sent.any(|slot| !accepted_by_name(slot))
        };
        self.session.wildcard.is_some_and(is_covered) || self.named_in(span).next().is_some()
    }

    /// Whether the client still subscribes to a name in any way.
    pub(crate) fn subscribes_to(&self, name: &ResourceName) -> bool {
        let slot = self.arena.find(name.as_str());
        let edge = slot.and_then(|slot| self.edges.find(self.slot, slot));
        self.session.wildcard.is_some() || edge.is_some()
    }

    /// Whether the client has no subscriptions.
    pub(crate) fn subscribes_to_nothing(&self) -> bool {
        self.session.wildcard.is_none() && self.session.edges.is_empty()
    }

    fn span(&self, sent: Sent) -> Span {
        let (from, to) = match (self.session.sends(self.arena), self.session.wildcard) {
            (_, None) => (Stamp::MAX, Stamp::START),
            (Sends::FullState, Some(_)) => {
                let accepted = self.session.accepted_response(self.arena, Stamp::START);
                (accepted.map_or(Stamp::START, |accepted| accepted.to), sent.at)
            }
            (_, Some(wildcard)) => (sent.from.max(wildcard.rode), sent.to),
        };
        Span { first: sent.nonce.get(), last: sent.nonce.get(), from, to }
    }

    /// Returns the resources last sent by name in these responses and unchanged since.
    /// Subscriptions are in the order in which they were last sent, except in full state, where
    /// the order does not matter because everything was sent.
    fn named_in(&self, span: Span) -> impl Iterator<Item = &ResourceName> {
        let is_full_state = self.sends_full_state();
        let mut slot = self.session.edges.last();
        let next = move || -> Option<Option<&ResourceName>> {
            let in_order = |edge: &&Edge| is_full_state || edge.sent >= span.first;
            let edge = self.edges.at(slot).filter(in_order)?;
            slot = self.edges.previous(Chain::Session, slot);
            let suspect = span.has(Mark::Nonce(edge.sent)) && edge.standing.is_subscribed();
            let resource = self.arena.at(edge.resource).filter(|it| it.payload.is_some());
            Some(resource.filter(|_| suspect).map(|resource| &resource.name))
        };
        core::iter::from_fn(next).flatten()
    }
}
