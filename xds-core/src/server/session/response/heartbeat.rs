//! Heartbeats, which renew the TTL of resources that a client has.
//!
//! A heartbeat is sent in a separate response with the version that the client accepted last, and
//! only if nothing else is due. It covers resources that the client has, but not rejected ones.
//! If a heartbeat would not work, the whole resource is sent instead:
//!
//! | Case | Reason |
//! |---|---|
//! | types in full state | absent resources are removed; a proxy treats a heartbeat as absence |
//! | late heartbeat | the client may have dropped the resource, so there is nothing to renew |
//! | the client rejected a heartbeat | it does not support them |
//! | virtual hosts | they do not exist without content |
//!
//! A resource in place of which the client was sent an error is never sent as a whole for
//! renewal, because that would end the error.
// M159-M170, M163, M167, M176

use alloc::{boxed::Box, collections::BTreeSet, vec::Vec};
use core::{mem, num::NonZeroU64, time::Duration};

use super::{draft::Draft, stated_version::ResponseScope};
use crate::{
    server::{
        event::ResponseCause,
        session::{
            CatchUp, Purpose, RenderedResponse, ResponseMode, Wildcard, context::SessionContext,
            subscription::ListKind, window::Answer,
        },
        store::{
            arena::heartbeat_schedule::{CachedHeartbeats, HeartbeatPosition},
            encode::body::{BodyBuilder, FitResult, ResponseBody, Ttls},
            revision::Revision,
            version::content::TypeVersion,
        },
    },
    slab::Slot,
    text::Nonce,
    time::Time,
    types,
};

/// Due heartbeats of a session, stored separately because there are none most of the time.
#[derive(Debug, Default)]
pub(crate) struct Renewals {
    state: RenewalState,
    /// Under the wildcard: beat up to which the client was sent all heartbeats.
    sent_to: HeartbeatPosition,
    /// Resources renewed individually: named ones, and those under the wildcard that were due
    /// before others were sent.
    individual: BTreeSet<Slot>,
    /// Time at which the oldest unsent heartbeat became due.
    since: Option<Time>,
    method: RenewalMethod,
    /// Resources renewed last by sending them again.
    resent: Vec<Slot>,
    /// Nonce of the unanswered response that was last reported to delay a heartbeat.
    reported: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RenewalState {
    #[default]
    NotDue,
    Due,
}

/// Due renewals of a session, in the order in which they are sent.
struct RenewalPlan {
    renewals: Vec<Renewal>,
    /// Whether all clients of the wildcard that have everything are sent the same.
    is_shared: bool,
}

struct Renewal {
    slot: Slot,
    /// Position of the heartbeat, if the wildcard covers the resource.
    position: Option<HeartbeatPosition>,
    /// Whether the resource is sent with its content.
    is_resent: bool,
}

/// Means by which resources are renewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RenewalMethod {
    #[default]
    Heartbeats,
    /// Renewal by complete resources, because the client rejected a heartbeat.
    Resources,
}

impl Renewals {
    pub(crate) fn are_due(&self) -> bool {
        self.state == RenewalState::Due
    }

    fn is_blank(&self) -> bool {
        self.state == RenewalState::NotDue && self.method == RenewalMethod::default()
    }

    fn fall_due(&mut self, sent_to: Option<HeartbeatPosition>, now: Option<Time>) {
        if let Some(sent_to) = sent_to.filter(|_| self.state == RenewalState::NotDue) {
            self.sent_to = sent_to;
        }
        self.state = RenewalState::Due;
        self.since = self.since.or(now);
    }

    fn settle(&mut self, sent_to: HeartbeatPosition) {
        self.state = RenewalState::NotDue;
        self.sent_to = sent_to;
        self.individual.clear();
        self.since = None;
    }
}

impl SessionContext<'_> {
    /// Makes the heartbeat of a named resource due. `before` is the newest beat that precedes the
    /// due ones.
    pub(crate) fn make_heartbeat_due(
        &mut self,
        resource: Slot,
        before: HeartbeatPosition,
        now: Time,
    ) {
        if self.session.ttls == Ttls::Sent {
            let renewals = self.session.renewals.get_or_insert_default();
            renewals.fall_due(Some(before), Some(now));
            renewals.individual.insert(resource);
        }
    }

    /// Makes the heartbeats after `before` due for the resources that the wildcard covers.
    pub(crate) fn make_heartbeats_due(&mut self, before: HeartbeatPosition, now: Time) {
        if self.session.ttls == Ttls::Sent {
            let renewals = self.session.renewals.get_or_insert_default();
            renewals.fall_due(Some(before), Some(now));
        }
    }

    /// Renews a resource at once that the client has from another stream or view, because its
    /// remaining TTL is unknown.
    pub(crate) fn renew_at_once(&mut self, resource: Slot) {
        let has_ttl = self.arena.payload(resource).is_some_and(|it| it.ttl().is_some());
        if has_ttl && self.session.ttls == Ttls::Sent {
            let clock = self.arena.heartbeats.clock();
            let renewals = self.session.renewals.get_or_insert_default();
            renewals.fall_due(Some(clock), None);
            renewals.individual.insert(resource);
        }
    }

    /// Renews all resources of a full state at once, because their remaining TTL is unknown.
    pub(crate) fn renew_all_at_once(&mut self) {
        if self.encoding().ttls == Ttls::Sent {
            self.session.renewals.get_or_insert_default().fall_due(None, None);
        }
    }

    /// Returns the unanswered response that delays a heartbeat, with the delay, if that is at
    /// least half the TTL of a resource concerned. Reported once per response.
    pub(crate) fn response_delaying_heartbeat(&mut self, now: Time) -> Option<(Nonce, Duration)> {
        let sent = self.session.newest.filter(|sent| sent.answer == Answer::Pending)?;
        let renewals = self.session.renewals.as_deref_mut().filter(|it| it.are_due())?;
        let after = now.since(sent.time);
        let named = renewals.individual.iter().copied();
        let covered = self.arena.heartbeats.after(renewals.sent_to).map(|(_, slot)| slot);
        let covered = covered.filter(|_| self.session.wildcard.is_some());
        let is_late = |slot: Slot| {
            self.arena
                .payload(slot)
                .and_then(|payload| payload.ttl())
                .is_some_and(|ttl| after >= ttl / 2)
        };
        let is_new = renewals.reported != sent.nonce.get();
        if !is_new || !named.chain(covered).any(is_late) {
            return None;
        }
        renewals.reported = sent.nonce.get();
        Some((crate::server::session::request::ack::nonce_of(sent.nonce), after))
    }

    /// Renders the heartbeats that are due.
    pub(crate) fn render_heartbeats(&mut self, draft: &mut Draft) -> Option<RenderedResponse> {
        if !self.session.has_heartbeats_alone(self.arena) {
            return None;
        }
        let response_mode = self.session.response_mode(self.arena);
        let (body, content) = match response_mode {
            ResponseMode::FullState => self.renew_full_state(draft)?,
            ResponseMode::Changes | ResponseMode::ChangesAndRemovals => {
                (self.gather_heartbeats(draft.limit, draft.time)?, self.arena.version)
            }
        };
        let from = self.session.wildcard.map_or(Revision::START, |wildcard| wildcard.cursor);
        let mut sent = self.new_sent(draft, (from, from), (content, ResponseScope::Complete));
        if response_mode != ResponseMode::FullState || self.session.is_isolating() {
            sent.version = self.session.accepted.unwrap_or(sent.version);
        }
        sent.purpose = Purpose::Heartbeat;
        Some(self.send(draft, sent, self.session.reached(), body, ResponseCause::Heartbeat))
    }

    /// Renders the full state again, if the client accepted it. While rejected resources are isolated,
    /// renders the state that it accepted last.
    fn renew_full_state(&mut self, draft: &mut Draft) -> Option<(ResponseBody, TypeVersion)> {
        let renewals = self.session.renewals.take()?;
        // A resource replaced by an error is not sent with the rest of the state (M177).
        let has_it = |&resource: &Slot| {
            let subscription = self.subscriptions.of(self.slot, resource);
            subscription.is_some_and(|subscription| subscription.has_version())
                && self.error_of(resource).is_none()
        };
        let is_concerned =
            self.session.wildcard.is_some() || renewals.individual.iter().any(has_it);
        if !is_concerned || self.encoding().ttls == Ttls::Omitted {
            return None;
        }
        if self.session.is_isolating() {
            return self.render_accepted_state();
        }
        // Without a response, it has the state from another view.
        let is_accepted = self.session.newest.is_none() || self.session.has_accepted_newest();
        if !is_accepted {
            return None;
        }
        let (body, version, _) = self.take_full_state(draft);
        Some((body, version))
    }

    /// Renders heartbeats of a type that is sent as changes, as many as fit.
    fn gather_heartbeats(&mut self, limit: usize, time: Time) -> Option<ResponseBody> {
        let mut renewals = self.session.renewals.take()?;
        let body = self.fill_heartbeats(&mut renewals, limit, time);
        if !renewals.is_blank() {
            self.session.renewals = Some(renewals);
        }
        body.filter(|body| !body.is_empty())
    }

    fn fill_heartbeats(
        &mut self,
        renewals: &mut Renewals,
        limit: usize,
        time: Time,
    ) -> Option<ResponseBody> {
        let (encoding, clock) = (self.encoding(), self.arena.heartbeats.clock());
        if encoding.ttls == Ttls::Omitted {
            renewals.settle(clock);
            return None;
        }
        let plan = self.plan_renewals(renewals, time);
        let from = renewals.sent_to;
        let is_fitting = |it: &&CachedHeartbeats| {
            let has_room = it.body.bytes.len() <= limit;
            plan.is_shared && it.from == from && has_room && it.variant == encoding.variant
        };
        if let Some(cached) = self.arena.heartbeats.cached.as_ref().filter(is_fitting) {
            let CachedHeartbeats { to, body, .. } = cached.clone();
            renewals.sent_to = to;
            if to == clock {
                renewals.settle(clock);
            }
            return Some(body);
        }
        let body = self.encode_renewals(renewals, &plan.renewals, limit);
        let to = renewals.sent_to;
        if plan.is_shared && !body.is_empty() {
            let (variant, body) = (encoding.variant, body.clone());
            self.arena.heartbeats.cached = Some(CachedHeartbeats { variant, from, to, body });
        }
        Some(body)
    }

    /// Lists the due renewals: first those that the wildcard covers, oldest first.
    fn plan_renewals(&self, due: &Renewals, time: Time) -> RenewalPlan {
        let waited = due.since.map_or(Duration::ZERO, |since| time.since(since));
        let takes_heartbeats = due.method == RenewalMethod::Heartbeats
            && types::has_heartbeats(self.arena.type_url.as_str());
        let is_late = |slot: Slot| {
            let payload = self.arena.payload(slot);
            let ttl = payload.and_then(|payload| payload.ttl()).unwrap_or_default();
            let period = self.arena.heartbeats.period(slot).unwrap_or_default();
            waited >= ttl.saturating_sub(period)
        };
        let renewal = |slot, position| {
            let is_resent = !takes_heartbeats || is_late(slot);
            Renewal { slot, position, is_resent }
        };
        let is_accepted = |slot: &Slot| !self.view().has_rejected(*slot);
        let covered: Vec<(HeartbeatPosition, Slot)> = match self.session.wildcard {
            Some(_) => self.arena.heartbeats.after(due.sent_to).collect(),
            None => Vec::new(),
        };
        let had = covered.iter().filter(|(_, slot)| is_accepted(slot) && self.has_in_full(*slot));
        let mut renewals: Vec<_> =
            had.map(|&(position, slot)| renewal(slot, Some(position))).collect();
        // The shared body is for clients that have everything.
        let is_shared = self.session.wildcard.is_some()
            && due.individual.is_empty()
            && renewals.len() == covered.len()
            && !renewals.iter().any(|renewal| renewal.is_resent);
        if !due.individual.is_empty() {
            let covered: BTreeSet<Slot> = covered.iter().map(|&(_, slot)| slot).collect();
            let is_due =
                |slot: &Slot| !covered.contains(slot) && is_accepted(slot) && self.has_now(*slot);
            let individual = due.individual.iter().copied().filter(is_due);
            renewals.extend(individual.map(|slot| renewal(slot, None)));
        }
        RenewalPlan { renewals, is_shared }
    }

    /// Renders as many renewals as fit. The others stay due.
    fn encode_renewals(
        &mut self,
        renewals: &mut Renewals,
        plan: &[Renewal],
        limit: usize,
    ) -> ResponseBody {
        let mut parts = BodyBuilder::new(self.encoding(), limit);
        renewals.resent.clear();
        let mut is_complete = true;
        for &Renewal { slot, position, is_resent } in plan {
            let Some(resource) = self.arena.at(slot) else { continue };
            let Some(payload) = &resource.payload else { continue };
            let is_too_long = self.session.wildcard.is_none() && payload.value.len() > limit;
            let fit = match is_resent {
                false => parts.push_heartbeat(&resource.name, payload),
                true if self.error_of(slot).is_some() => FitResult::Added,
                true if is_too_long => {
                    // The client has it from before; sending it would end the stream (IS26).
                    if let Some(subscription) = self.subscriptions.find(self.slot, slot) {
                        self.make_due(subscription, ResponseCause::Changed);
                    }
                    FitResult::Added
                }
                true => {
                    let fit = parts.push(&resource.name, payload);
                    renewals.resent.extend((fit == FitResult::Added).then_some(slot));
                    fit
                }
            };
            if fit == FitResult::Full {
                is_complete = false;
                break;
            }
            renewals.sent_to = position.unwrap_or(renewals.sent_to);
            // Resources that the wildcard covers may be due by name, too.
            renewals.individual.remove(&slot);
        }
        if is_complete {
            renewals.settle(self.arena.heartbeats.clock());
        }
        parts.into_body()
    }

    /// Whether the client has the current version of a resource.
    fn has_now(&self, slot: Slot) -> bool {
        let has_ttl = self.arena.payload(slot).is_some_and(|it| it.ttl().is_some());
        has_ttl && (self.has_in_full(slot) || self.session.has(self.slot, slot, self.subscriptions))
    }

    /// Whether the client has the current version from the wildcard, even if everything is due
    /// again.
    fn has_in_full(&self, slot: Slot) -> bool {
        let revision = self.arena.at(slot).map(|resource| resource.revision);
        let reached = self.session.wildcard.map(|wildcard| match wildcard.full_send {
            Some(_) => wildcard.reached,
            None => wildcard.cursor,
        });
        revision.zip(reached).is_some_and(|(revision, reached)| revision <= reached)
    }

    /// Removes the heartbeats of resources that a response with content renewed. `before` is the
    /// wildcard before that response.
    // M163, M164
    pub(crate) fn note_renewed(&mut self, nonce: NonZeroU64, before: Option<Wildcard>) {
        let Some(mut renewals) = self.session.renewals.take() else { return };
        let clock = self.arena.heartbeats.clock();
        let left_out_nothing = before.is_some_and(|it| it.catch_up == CatchUp::Everything);
        let after = self.session.wildcard;
        let is_all = before.is_some_and(|it| it.cursor == Revision::START)
            && after.is_some_and(|it| it.full_send.is_none())
            && left_out_nothing;
        if self.sends_full_state() || is_all {
            renewals.settle(clock);
        }
        let walked: Vec<Slot> = match before.zip(after) {
            Some((before, after)) => {
                self.arena.slots_between(before.cursor, after.cursor).collect()
            }
            None => Vec::new(),
        };
        let was_due = |&slot: &Slot| self.arena.heartbeats.last(slot) > Some(renewals.sent_to);
        if renewals.are_due() && left_out_nothing && walked.iter().any(was_due) {
            // Only some of the due heartbeats are done, so the others are tracked individually
            // from now on.
            let due = self.arena.heartbeats.after(mem::replace(&mut renewals.sent_to, clock));
            renewals.individual.extend(due.map(|(_, slot)| slot));
        }
        // Resources omitted because the client has them still need a renewal.
        let covered = walked.into_iter().filter(|_| left_out_nothing);
        for slot in covered.chain(self.sent_by_name(nonce)) {
            renewals.individual.remove(&slot);
        }
        let has_unsent =
            after.is_some() && self.arena.heartbeats.after(renewals.sent_to).next().is_some();
        if renewals.individual.is_empty() && !has_unsent {
            renewals.settle(clock);
        }
        if !renewals.is_blank() {
            self.session.renewals = Some(renewals);
        }
    }

    /// Returns the named resources in the newest response, which has this nonce.
    fn sent_by_name(&self, nonce: NonZeroU64) -> Vec<Slot> {
        let last = self.session.subscriptions.last();
        let named = self.subscriptions.list_back(ListKind::Session, last);
        let sent = named.take_while(|(_, subscription)| subscription.last_sent() == nonce.get());
        sent.map(|(_, subscription)| subscription.resource).collect()
    }

    /// Records the rejection of heartbeats. Returns the resources that were sent whole.
    // M167
    pub(crate) fn reject_heartbeats(&mut self) -> Vec<Slot> {
        let renewals = self.session.renewals.get_or_insert_default();
        renewals.method = RenewalMethod::Resources;
        mem::take(&mut renewals.resent)
    }

    /// Forgets all due heartbeats when the session leaves its arena.
    pub(crate) fn forget_renewals(&mut self) {
        let method = self.session.renewals.take().map(|renewals| renewals.method);
        if method == Some(RenewalMethod::Resources) {
            let renewals = Renewals { method: RenewalMethod::Resources, ..Renewals::default() };
            self.session.renewals = Some(Box::new(renewals));
        }
    }
}
