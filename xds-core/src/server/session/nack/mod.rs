//! What a client rejected: which resources it cannot have liked, and whether it still is that way.

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

/// A rejected response.
#[derive(Clone, Debug)]
pub(crate) struct Rejected {
    pub(crate) version: Version,
    pub(crate) code: i32,
    pub(crate) message: Arc<str>,
    /// Those that were new to the client in it, or a part of them.
    pub(crate) names: Box<[ResourceName]>,
    pub(crate) extent: Extent,
    span: Span,
    /// What of this and earlier ones goes along with the next change.
    rides: Option<Span>,
}

/// Where the resources of rejected responses are found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// By name: sent under the nonces from this one.
    first: u64,
    /// To this one.
    last: u64,
    /// Under the wildcard: what was set after this.
    from: Stamp,
    /// And up to here.
    to: Stamp,
}

/// What a client rejected and has not accepted since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    /// What goes along with the next change, or is on its way with one.
    rides: Option<Span>,
    /// What is not sent again before it changes.
    rests: Vec<Span>,
}

/// How many spans are told apart; of more, the oldest ones are taken for one.
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

/// By what a resource is found in a span.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mark {
    Nonce(u64),
    Stamp(Stamp),
}

impl Held {
    /// Whether a resource is among those that went along with a change, if they did.
    pub(crate) fn rode(&self, mark: Mark) -> bool {
        self.rides.is_some_and(|rides| rides.has(mark))
    }

    /// Another response was rejected.
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

    /// Whether a resource is among them; those that are on their way again are not.
    pub(crate) fn has(&self, mark: Mark, suspects: Suspicion) -> bool {
        let rides = self.rides.filter(|_| suspects == Suspicion::Waits);
        self.rests.iter().chain(&rides).any(|span| span.has(mark))
    }
}

/// Whether what was rejected waits for a change to go along with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspicion {
    Waits,
    /// It is on its way, or nothing is to be sent again.
    None,
}

impl Turn<'_> {
    /// What is known of a response that was rejected just now. Costs what it had.
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

    /// A response was accepted: whether anything is left, as it was, of what the client rejected before.
    /// Costs what was sent since.
    pub(crate) fn still_rejects(&self, held: &mut Held) -> bool {
        if self.sends_full_state() {
            // Everything was in the response that was accepted.
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

    /// Nobody rejects what he no longer subscribes to, nor what has gone without a word: nothing waits any
    /// longer for that to be accepted (M148). Costs what was sent since the client last accepted something.
    pub(crate) fn forgive(&mut self) {
        let is_over = !self.session.is_held_to_answers() || !self.session.is_rejected();
        if is_over || self.session.is_waiting() {
            return;
        }
        self.release_what_was_never_accepted();
        self.serve_as_accepted();
        // What is to be sent yet will be answered.
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

    /// Whether what came beside a bad resource is sent once more.
    pub(crate) fn resends_batches(&self) -> bool {
        self.arena.config.nack_recovery == NackRecovery::ResendBatch
    }

    /// The client has rejected a response, which may have been a full state.
    pub(crate) fn note_rejected_state(&mut self, sent: Sent) {
        if !self.sends_full_state() {
            return;
        }
        self.session.due.let_the_rest_wait();
        if self.resends_batches() {
            self.session.rare_mut().rejected_state = Some(sent.content);
        }
    }

    /// What was bad in the full state that the client rejected may have gone without a word.
    pub(crate) fn recover_from_silence(&mut self) {
        if !self.arena.absence_deletes() {
            self.recover_full_state();
        }
    }

    /// The client may have dropped what was bad in the full state that it rejected. Without that it is another
    /// state, which is sent if the client lacks anything of it (M107): nothing else may ever be due. Costs what
    /// the client names.
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
        // Should it go, nothing is due any more; what is there is best.
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

    /// What came after the last response that the client accepted, or was first sent after that, and has gone again,
    /// nothing refers to that the client has accepted: that it is gone need not wait for anything (M147). It may
    /// well be what was bad, so that everything else would wait for ever. Costs what lingers and was deleted since
    /// that was last told.
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
            // It may have been there for long when the client named it.
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

    /// The response that the client accepted last, and the position of that; none was before all of them. Unless it
    /// may have something from before.
    pub(crate) fn accepted_here(&self) -> Option<(u64, Stamp)> {
        let accepted = self.session.accepted_response(self.arena, Stamp::START);
        match (accepted, self.session.past) {
            (Some(accepted), Past::Before(next)) if accepted.nonce < next => None,
            (None, Past::Before(_)) => None,
            (Some(accepted), _) => Some((accepted.nonce.get(), accepted.at)),
            (None, Past::None) => Some((0, Stamp::START)),
        }
    }

    /// Whether a name that has no resource had none either when the client last accepted something, the response of
    /// this nonce at `accepted`, or was not asked for then.
    fn came_and_went_after(&self, slot: Slot, (nonce, accepted): (u64, Stamp)) -> bool {
        let name = self.arena.at(slot).map(|resource| &resource.name);
        let entered = self.session.entered(nonce).zip(name);
        let is_new = entered.is_some_and(|(entered, name)| !entered.had.contains(name));
        self.arena.came_and_went_after(slot, if is_new { Stamp::START } else { accepted })
    }

    /// What the responses since the one that was accepted last had beside resources.
    pub(crate) fn rejected_beside(&self) -> Beside {
        let accepted = self.session.accepted_response(self.arena, Stamp::START);
        match self.session.may_have_what_is_gone(accepted) {
            true => Beside::Deletions,
            false => Beside::Nothing,
        }
    }

    /// Whether the full state of everything is the one that the client accepted last.
    fn has_accepted_everything(&mut self) -> bool {
        let current = self.version_of_everything();
        match self.session.accepted_version() {
            Some(accepted) => accepted == self.state(current, stated_version::Extent::Subscribed),
            None => current == TypeVersion::default(),
        }
    }

    /// A response was accepted. What waited to go along with a change may have been in it for another reason,
    /// such as that the client warms clusters.
    pub(crate) fn settle_suspects(&mut self, sent: Sent) {
        let suspects = self.session.suspects().filter(|it| sent.nonce > it.last);
        // To a client of names deletions are not told again: after a change they count as accepted with what it accepts,
        // be that an answer to what it asks for.
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

    /// Whether there is anything that was sent since the client last accepted something.
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
        // Of everything it has accepted nothing yet, but perhaps some of it by name.
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

    /// Whether the client still subscribes to a name, in whatever way.
    pub(crate) fn subscribes_to(&self, name: &ResourceName) -> bool {
        let slot = self.arena.find(name.as_str());
        let edge = slot.and_then(|slot| self.edges.find(self.slot, slot));
        self.session.wildcard.is_some() || edge.is_some()
    }

    /// Whether the client subscribes to nothing any more.
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

    /// The resources that were last sent by name in these responses, and are still as they were then. What
    /// was sent last is last, except in full state, where it does not matter: all of it was sent.
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
