//! Responses: rendering of the due response when the transport has room.
//!
//! A response counts as sent when it is rendered. It includes every earlier change and excludes
//! everything unsubscribed earlier.
// M73, M67

pub(crate) mod delta;
pub(crate) mod errors;
pub(crate) mod heartbeat;
pub(crate) mod on_change;
pub(crate) mod seal;
pub(crate) mod sotw;
pub(crate) mod stated_version;

use alloc::vec::Vec;
use core::{mem, num::NonZeroU64};

use self::{errors::EncodedErrors, stated_version::ResponseScope};
use super::{
    CatchUp, FirstResponse, FullSend, Purpose, ResponseMode, Revision, UnsubscribedInFlight,
    Urgency, WarmingState, Wildcard,
    context::SessionContext,
    deferred_removal::Portion,
    subscription::{DueKind, ListKind, SubscriptionKind},
    window::{Answer, Sent},
};
use crate::{
    server::{
        config::Absence,
        event::ResponseCause,
        store::{
            encode::body::{BodyBuilder, FitResult, ResponseBody},
            version::content::TypeVersion,
        },
    },
    slab::Slot,
    text::{ResourceName, Version},
    time::Time,
    zoo::{self, Bug},
};

/// Response without its envelope.
#[derive(Clone, Debug)]
pub(crate) struct RenderedResponse {
    pub(crate) body: ResponseBody,
    pub(crate) errors: EncodedErrors,
    /// Resources reported as too long, with their lengths in bytes.
    pub(crate) too_long: Vec<(ResourceName, usize)>,
    pub(crate) version: Version,
    pub(crate) cause: ResponseCause,
}

impl SessionContext<'_> {
    /// Renders the due contents under the nonce `nonce`. Returns `None` if the client turns out
    /// to have everything.
    pub(crate) fn render(
        &mut self,
        nonce: NonZeroU64,
        limit: usize,
        time: Time,
        portion: Portion,
    ) -> Option<RenderedResponse> {
        if !self.session.is_due(self.arena) {
            return None;
        }
        let content = match portion {
            Portion::Heartbeats => None,
            Portion::Everything | Portion::Additions | Portion::Unanswered => {
                self.render_content(nonce, limit, time, portion)
            }
        };
        let content = content.or_else(|| self.render_heartbeats(nonce, limit, time));
        content.or_else(|| self.recover(nonce, time))
    }

    fn render_content(
        &mut self,
        nonce: NonZeroU64,
        limit: usize,
        time: Time,
        portion: Portion,
    ) -> Option<RenderedResponse> {
        if !self.session.has_pending_content(self.arena) {
            return None;
        }
        match portion {
            Portion::Everything => {
                if self.session.follows_removals() {
                    self.defer_wildcard_removals();
                }
                self.subscriptions.release_withheld(&mut self.session.due);
                self.release_without_subscription();
            }
            Portion::Additions | Portion::Unanswered | Portion::Heartbeats => {
                self.defer_wildcard_removals();
                if !self.session.has_additions(self.arena) {
                    // Withheld removals are no reason for a response, whatever heartbeats are
                    // sent.
                    return None;
                }
            }
        }
        if self.session.warming == WarmingState::Armed {
            // A response after clusters for another reason also completes warming.
            self.session.warming = WarmingState::Off;
            self.make_everything_due(ResponseCause::Warming);
        }
        // Resources that a wildcard also covers would be sent twice.
        let is_apart = self.session.response_mode(self.arena) != ResponseMode::FullState
            && self.session.wildcard.is_none();
        let portion = match portion {
            Portion::Unanswered if !is_apart => Portion::Additions,
            portion => portion,
        };
        if portion != Portion::Unanswered {
            self.piggyback_retry_batch();
            self.send_removals_again(portion);
            self.piggyback_alias_targets();
        }
        let before = self.session.wildcard;
        let from = before.map_or(Revision::START, |wildcard| wildcard.cursor);
        let reached = self.session.reached();
        let (body, version, cause) = match self.session.response_mode(self.arena) {
            ResponseMode::FullState => self.render_full_state(nonce.get(), limit)?,
            ResponseMode::Changes => {
                let (body, cause) = self.render_changes(nonce.get(), limit, portion)?;
                (body, self.arena.version, cause)
            }
            ResponseMode::ChangesAndRemovals => {
                let (body, cause) = self.render_incremental(nonce.get(), limit, portion)?;
                (body, self.arena.version, cause)
            }
        };
        let cause = match self.session.first_response {
            FirstResponse::NotSent | FirstResponse::Pending => ResponseCause::First,
            FirstResponse::Done => cause,
        };
        self.note_state(nonce);
        self.session.first_response = FirstResponse::Done;
        self.session.unsubscribed_in_flight = UnsubscribedInFlight::No;
        if self.session.due.is_empty() {
            self.session.urgency = Urgency::CanWait;
        }
        let to = self.session.wildcard.map_or(from, |wildcard| wildcard.cursor);
        let sent = self.new_sent(nonce, (from, to), time, (version, ResponseScope::Complete));
        let rendered = self.send(sent, reached, body, cause);
        self.note_renewed(nonce, before);
        Some(rendered)
    }

    /// Renders one of the resources that the client rejected together.
    fn recover(&mut self, nonce: NonZeroU64, time: Time) -> Option<RenderedResponse> {
        if !self.session.has_probe() {
            return None;
        }
        let (body, version, revision) = self.render_probe(nonce)?;
        let part = match self.session.wildcard {
            Some(_) => (revision.before(), revision),
            None => (Revision::START, Revision::START),
        };
        let sent = self.new_sent(nonce, part, time, (version, ResponseScope::Partial));
        Some(self.send(sent, self.session.reached(), body, ResponseCause::Recovery))
    }

    /// Describes a response that advances the wildcard cursor from `from` to `to`.
    pub(crate) fn new_sent(
        &mut self,
        nonce: NonZeroU64,
        (from, to): (Revision, Revision),
        time: Time,
        (content, coverage): (TypeVersion, ResponseScope),
    ) -> Sent {
        Sent {
            nonce,
            version: self.stated_version(content, coverage),
            content: content.stated(),
            from,
            to,
            at: self.arena.clock(),
            time,
            timer: Slot::NONE,
            answer: Answer::Pending,
            purpose: Purpose::Content,
        }
    }

    /// Records a rendered response as sent. The wildcard cursor had been as far as `reached`.
    pub(crate) fn send(
        &mut self,
        sent: Sent,
        reached: Revision,
        body: ResponseBody,
        cause: ResponseCause,
    ) -> RenderedResponse {
        self.session.note_sent(self.arena, reached);
        let is_content = sent.purpose == Purpose::Content;
        if is_content && (self.implies_removals || body.removed > self.absences) {
            self.session.note_removal_sent(sent.nonce);
        }
        self.session.record_sent(sent, self.arena);
        self.hold_sent();
        self.session.counters.responses.add_one();
        let (errors, too_long) = (mem::take(&mut self.errors), mem::take(&mut self.too_long));
        let version = self.version_text(sent.version);
        RenderedResponse { body, errors, too_long, version, cause }
    }

    /// Adds resources changed after the wildcard's cursor, as many as fit. Returns the new
    /// cursor.
    pub(crate) fn gather(&mut self, wildcard: Wildcard, parts: &mut BodyBuilder) -> Revision {
        let (subscriptions, session, own) = (&*self.subscriptions, &*self.session, self.slot);
        self.arena.gather(wildcard.cursor, parts, |slot, resource| {
            // A client that was sent an error by name may have dropped the resource (M178).
            wildcard.catch_up == CatchUp::Everything
                || resource.error.is_some()
                || !session.has(own, slot, subscriptions)
        })
    }

    /// Adds the resources of due subscriptions, all of them or the unanswered ones, as many as
    /// fit. Returns the strongest reason for one. Resources in the part `walked` of the wildcard
    /// are included already.
    pub(crate) fn take_due(
        &mut self,
        parts: &mut BodyBuilder,
        nonce: u64,
        walked: Option<(Revision, Revision)>,
        portion: Portion,
    ) -> Option<ResponseCause> {
        let sends_removals =
            self.session.response_mode(self.arena) == ResponseMode::ChangesAndRemovals;
        // The walk may cover further subscriptions after one that does not fit.
        let is_walk_empty = walked.is_none_or(|(from, to)| from == to);
        let mut cause = None;
        let mut slot = self.session.due.first();
        while let Some(subscription) = self.subscriptions.at(slot) {
            let next = self.subscriptions.next(ListKind::Due, slot);
            if portion == Portion::Unanswered && !subscription.is_unanswered() {
                slot = next;
                continue;
            }
            let (at, kind) = (subscription.resource, subscription.kind);
            let is_passing = kind.is_passing();
            let was_sent = subscription.sent != 0;
            // Only a client that names the resource is sent its error, not one that is due a
            // removal (M178).
            let error = match kind.is_subscribed() {
                true => self.push_error_into(at, parts),
                false => None,
            };
            if error == Some(FitResult::Full) {
                if is_walk_empty {
                    break;
                }
                slot = next;
                continue;
            }
            if error == Some(FitResult::Added) {
                let due = self.subscriptions.clear_due(&mut self.session.due, slot);
                cause = cause.min_some(due.map(|due| due.cause));
                if self.arena.payload(at).is_none() || self.session.is_reported_too_long(at) {
                    // When the error ends, the client must be sent that.
                    self.subscriptions.set_sent(&mut self.session.subscriptions, slot, nonce);
                }
                slot = next;
                continue;
            }
            let Some(resource) = self.arena.at(at) else { break };
            let revision = resource.revision;
            let covered = walked.is_some_and(|(from, to)| revision > from && revision <= to);
            let beyond = walked.is_some_and(|(_, to)| revision > to);
            let exists = resource.payload.is_some();
            match &resource.payload {
                // The wildcard sends it in the next response.
                Some(_) if beyond => {}
                // No room for this one. Resources covered by the walk still have to leave the
                // list.
                Some(payload)
                    if !covered && parts.push(&resource.name, payload) == FitResult::Full =>
                {
                    if is_walk_empty {
                        break;
                    }
                }
                payload => {
                    // A glob is represented by its members, if any, and an alias by its resource.
                    let is_alias = !was_sent && self.alias_target(at).is_some();
                    let is_represented =
                        payload.is_none() && (is_alias || self.arena.has_members(at));
                    if payload.is_none() && sends_removals && !is_represented {
                        let room = match self.arena.config.absence {
                            Absence::EmptyResource if !was_sent => {
                                parts.push_absence(&resource.name)
                            }
                            _ => parts.remove(&resource.name, self.session.name_form),
                        };
                        if room == FitResult::Full {
                            if is_walk_empty {
                                break;
                            }
                            slot = next;
                            continue;
                        }
                        self.absences += usize::from(!was_sent);
                    }
                    let due = self.subscriptions.clear_due(&mut self.session.due, slot);
                    if !is_represented {
                        cause = cause.min_some(due.map(|due| due.cause));
                    }
                    let is_followed = !kind.is_subscribed()
                        && (exists || was_sent)
                        && self.session.follows_removals();
                    if is_followed {
                        self.note_in_response(slot, nonce);
                        let sent = if exists { nonce } else { 0 };
                        self.subscriptions.set_sent(&mut self.session.subscriptions, slot, sent);
                        self.set_kind(slot, SubscriptionKind::DeferredRemoval);
                    } else if is_passing || kind == SubscriptionKind::ViaGlobOrAlias && !exists {
                        self.disconnect(slot);
                    } else if due.is_some_and(|due| due.kind != DueKind::Piggyback) {
                        let sent = if exists { nonce } else { 0 };
                        self.note_in_response(slot, nonce);
                        self.subscriptions.set_sent(&mut self.session.subscriptions, slot, sent);
                    }
                }
            }
            slot = next;
        }
        cause
    }

    /// Records in a subscription that the response with this nonce contains the resource or its
    /// removal.
    pub(crate) fn note_in_response(&mut self, slot: Slot, nonce: u64) {
        let accepted = self.session.accepted_response(self.arena, Revision::START);
        let is_covered = self.session.wildcard.is_some();
        let Some(subscription) = self.subscriptions.at_mut(slot) else { return };
        match self.arena.payload(subscription.resource) {
            None => subscription.note_removed_in(nonce),
            Some(_) if is_covered => subscription.note_sent_under_wildcard(),
            Some(_) => subscription.note_sent_in(nonce, accepted.map_or(0, |it| it.nonce.get())),
        }
    }

    /// Records that the wildcard was sent up to `to`.
    pub(crate) fn advance(&mut self, to: Revision) {
        let (newest, clock) = (self.arena.newest(), self.arena.clock());
        if let Some(wildcard) = &mut self.session.wildcard {
            wildcard.cursor = to;
            wildcard.reached = wildcard.reached.max(to);
            if !zoo::is(Bug::DeletionSentTwice) {
                wildcard.removals_to = clock;
            }
            if to >= newest {
                wildcard.full_send = None;
                wildcard.catch_up = CatchUp::Everything;
                self.end_retained();
            }
        }
    }
}

impl Wildcard {
    /// Returns the reason for a response that advances the wildcard to `to`.
    pub(crate) fn reason(&self, to: Revision) -> ResponseCause {
        match self.full_send {
            Some(FullSend { cause, at, .. }) if to <= at => cause,
            Some(FullSend { cause, .. }) => cause.min(ResponseCause::Changed),
            None => ResponseCause::Changed,
        }
    }
}

/// Minimum of two optional reasons, that is, the stronger one.
pub(crate) trait MinSome {
    fn min_some(self, other: Self) -> Self;
}

impl MinSome for Option<ResponseCause> {
    fn min_some(self, other: Self) -> Self {
        match (self, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }
}
