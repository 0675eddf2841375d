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

use super::{errors::Errors, stated_version::Extent};
use crate::{
    server::{
        event::Cause,
        session::{
            CatchUp, Purpose, Rendered, Sends, Wildcard,
            context::Turn,
            subscription::Chain,
            window::{Answer, Sent},
        },
        store::{
            arena::heartbeat_schedule::{Beat, Kept},
            encode::body::{Body, Parts, Room, Ttls},
            revision::Stamp,
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
    state: Renewal,
    /// Under the wildcard: beat up to which the client was sent all heartbeats.
    heard: Beat,
    /// Resources renewed individually: named ones, and those under the wildcard that were due
    /// before others were sent.
    owed: BTreeSet<Slot>,
    /// Time at which the oldest unsent heartbeat became due.
    since: Option<Time>,
    /// Resources that the client rejected and was not sent again since.
    refused: BTreeSet<Slot>,
    means: Means,
    /// Resources renewed last by sending them again.
    resent: Vec<Slot>,
    /// Nonce of the unanswered response that was last reported to delay a heartbeat.
    reminded: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Renewal {
    #[default]
    NotDue,
    Due,
}

/// Means by which resources are renewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Means {
    #[default]
    Heartbeats,
    /// Renewal by complete resources, because the client rejected a heartbeat.
    Resources,
}

impl Renewals {
    pub(crate) fn are_due(&self) -> bool {
        self.state == Renewal::Due
    }

    fn is_blank(&self) -> bool {
        self.state == Renewal::NotDue && self.refused.is_empty() && self.means == Means::default()
    }

    fn fall_due(&mut self, heard: Option<Beat>, now: Option<Time>) {
        if let Some(heard) = heard.filter(|_| self.state == Renewal::NotDue) {
            self.heard = heard;
        }
        self.state = Renewal::Due;
        self.since = self.since.or(now);
    }

    fn settle(&mut self, heard: Beat) {
        self.state = Renewal::NotDue;
        self.heard = heard;
        self.owed.clear();
        self.since = None;
    }
}

impl Turn<'_> {
    /// Makes the heartbeat of a named resource due. `before` is the newest beat that precedes the
    /// due ones.
    pub(crate) fn owe_heartbeat(&mut self, resource: Slot, before: Beat, now: Time) {
        if self.session.ttls == Ttls::Told {
            let renewals = self.session.renewals.get_or_insert_default();
            renewals.fall_due(Some(before), Some(now));
            renewals.owed.insert(resource);
        }
    }

    /// Makes the heartbeats after `before` due for the resources that the wildcard covers.
    pub(crate) fn owe_heartbeats(&mut self, before: Beat, now: Time) {
        if self.session.ttls == Ttls::Told {
            let renewals = self.session.renewals.get_or_insert_default();
            renewals.fall_due(Some(before), Some(now));
        }
    }

    /// Renews a resource at once that the client has from another stream or view, because its
    /// remaining TTL is unknown.
    pub(crate) fn renew_at_once(&mut self, resource: Slot) {
        let has_ttl = self.arena.payload(resource).is_some_and(|it| it.ttl().is_some());
        if has_ttl && self.session.ttls == Ttls::Told {
            let clock = self.arena.beats.clock();
            let renewals = self.session.renewals.get_or_insert_default();
            renewals.fall_due(Some(clock), None);
            renewals.owed.insert(resource);
        }
    }

    /// Renews all resources of a full state at once, because their remaining TTL is unknown.
    pub(crate) fn renew_all_at_once(&mut self) {
        if self.form().ttls == Ttls::Told {
            self.session.renewals.get_or_insert_default().fall_due(None, None);
        }
    }

    /// Returns the unanswered response that delays a heartbeat, with the delay, if that is at
    /// least half the TTL of a resource concerned. Reported once per response.
    pub(crate) fn silence_in_the_way(&mut self, now: Time) -> Option<(Nonce, Duration)> {
        let sent = self.session.newest.filter(|sent| sent.answer == Answer::Pending)?;
        let renewals = self.session.renewals.as_deref_mut().filter(|it| it.are_due())?;
        let after = now.since(sent.time);
        let named = renewals.owed.iter().copied();
        let covered = self.arena.beats.after(renewals.heard).map(|(_, slot)| slot);
        let covered = covered.filter(|_| self.session.wildcard.is_some());
        let is_late = |slot: Slot| {
            self.arena
                .payload(slot)
                .and_then(|payload| payload.ttl())
                .is_some_and(|ttl| after >= ttl / 2)
        };
        let is_new = renewals.reminded != sent.nonce.get();
        if !is_new || !named.chain(covered).any(is_late) {
            return None;
        }
        renewals.reminded = sent.nonce.get();
        Some((crate::server::session::request::ack::nonce_of(sent.nonce), after))
    }

    /// Renders the heartbeats that are due.
    pub(crate) fn render_heartbeats(
        &mut self,
        nonce: NonZeroU64,
        limit: usize,
        time: Time,
    ) -> Option<Rendered> {
        let is_waiting = self.session.is_waiting();
        self.session.renewals.as_deref().filter(|it| it.are_due() && !is_waiting)?;
        let current = self.arena.version;
        let (body, version, content) = match self.session.sends(self.arena) {
            Sends::FullState => {
                let (body, content) = self.renew_full_state(nonce, limit)?;
                (body, self.state(content, Extent::Subscribed), content)
            }
            Sends::Changes | Sends::ChangesAndRemovals => {
                let version = match self.session.accepted {
                    Some(accepted) => accepted,
                    None => self.state(current, Extent::Subscribed),
                };
                (self.gather_heartbeats(limit, time)?, version, current)
            }
        };
        let reached = self.session.reached();
        self.session.note_sent(self.arena, reached);
        let verdict = self.session.newest.map_or(Answer::Ack, |sent| sent.verdict);
        let from = self.session.wildcard.map_or(Stamp::START, |wildcard| wildcard.cursor);
        let (at, answer, purpose) = (self.arena.clock(), Answer::Pending, Purpose::Heartbeat);
        let (to, alarm) = (from, Slot::NONE);
        let sent = Sent {
            nonce,
            version,
            content: content.stated(),
            from,
            to,
            at,
            time,
            alarm,
            answer,
            purpose,
            verdict,
        };
        self.session.put_on_way(sent, self.arena);
        self.session.counts.responses.add_one();
        let version = self.print(version);
        let (errors, too_long) = (Errors::default(), Vec::new());
        Some(Rendered { body, errors, too_long, version, cause: Cause::Heartbeat })
    }

    /// Renders the full state again, if the client accepted it.
    fn renew_full_state(&mut self, nonce: NonZeroU64, limit: usize) -> Option<(Body, TypeVersion)> {
        let renewals = self.session.renewals.take()?;
        let is_accepted = match self.session.newest {
            Some(sent) => sent.verdict == Answer::Ack && sent.answer == Answer::Ack,
            // From another view.
            None => true,
        };
        // A resource replaced by an error is not sent with the rest of the state (M177).
        let has_it = |&resource: &Slot| {
            let edge = self.edges.find(self.slot, resource).and_then(|it| self.edges.at(it));
            edge.is_some_and(|edge| edge.sent != 0) && self.error_of(resource).is_none()
        };
        let is_concerned = self.session.wildcard.is_some() || renewals.owed.iter().any(has_it);
        if !is_accepted || !is_concerned || self.form().ttls == Ttls::Untold {
            return None;
        }
        let (body, version, _) = self.take_full_state(nonce.get(), limit);
        Some((body, version))
    }

    /// Renders heartbeats of a type that is sent as changes, as many as fit.
    fn gather_heartbeats(&mut self, limit: usize, time: Time) -> Option<Body> {
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
    ) -> Option<Body> {
        let (form, clock) = (self.form(), self.arena.beats.clock());
        if form.ttls == Ttls::Untold {
            renewals.settle(clock);
            return None;
        }
        let waited = renewals.since.map_or(Duration::ZERO, |since| time.since(since));
        let heard = renewals.heard;
        let covered: Vec<(Beat, Slot)> = match self.session.wildcard {
            Some(_) => self.arena.beats.after(heard).collect(),
            None => Vec::new(),
        };
        let is_late = |&slot: &Slot| {
            let payload = self.arena.payload(slot);
            let ttl = payload.and_then(|payload| payload.ttl()).unwrap_or_default();
            let period = self.arena.beats.period(slot).unwrap_or_default();
            waited >= ttl.saturating_sub(period)
        };
        // The cached body is for clients that have everything.
        let is_usual = self.session.wildcard.is_some()
            && renewals.owed.is_empty()
            && renewals.refused.is_empty()
            && renewals.means == Means::Heartbeats
            && self.takes_heartbeats()
            && !covered.iter().any(|(_, slot)| is_late(slot) || !self.has_in_full(*slot));
        let is_fitting = |it: &&Kept| is_usual && it.from == heard && it.body.bytes.len() <= limit;
        if let Some(kept) = self.arena.beats.kept.as_ref().filter(is_fitting)
            && kept.variant == form.variant
        {
            let Kept { to, body, .. } = kept.clone();
            renewals.heard = to;
            if to == clock {
                renewals.settle(clock);
            }
            return Some(body);
        }

        let mut parts = Parts::new(form, limit);
        let (mut to, mut is_full) = (heard, false);
        let takes_heartbeats = renewals.means == Means::Heartbeats && self.takes_heartbeats();
        renewals.resent.clear();
        let mut too_long = Vec::new();
        let is_named = self.session.wildcard.is_none();
        let mut push = |slot: Slot, resent: &mut Vec<Slot>| {
            let Some(resource) = self.arena.at(slot) else { return Room::Taken };
            let Some(payload) = &resource.payload else { return Room::Taken };
            if !takes_heartbeats || is_late(&slot) {
                if self.error_of(slot).is_some() {
                    return Room::Taken;
                }
                if is_named && payload.value.len() > limit {
                    // The client has it from before; sending it would end the stream (IS26).
                    too_long.push(slot);
                    return Room::Taken;
                }
                let room = parts.push(&resource.name, payload);
                if room == Room::Taken {
                    resent.push(slot);
                }
                return room;
            }
            parts.push_heartbeat(&resource.name, payload)
        };
        for &(beat, slot) in &covered {
            if !renewals.refused.contains(&slot)
                && self.has_in_full(slot)
                && push(slot, &mut renewals.resent) == Room::Full
            {
                is_full = true;
                break;
            }
            to = beat;
        }
        let sent = covered.iter().filter(|(beat, _)| *beat <= to).map(|&(_, slot)| slot);
        let sent: BTreeSet<Slot> = sent.collect();
        while let Some(&slot) = renewals.owed.first().filter(|_| !is_full) {
            if !sent.contains(&slot)
                && !renewals.refused.contains(&slot)
                && self.has_now(slot)
                && push(slot, &mut renewals.resent) == Room::Full
            {
                is_full = true;
                break;
            }
            renewals.owed.pop_first();
        }
        for slot in too_long {
            if let Some(edge) = self.edges.find(self.slot, slot) {
                self.make_due(edge, Cause::Changed);
            }
        }
        renewals.heard = to;
        if !is_full {
            renewals.settle(clock);
        }
        let body = parts.into_body();
        if is_usual && !body.is_empty() {
            let variant = form.variant;
            self.arena.beats.kept = Some(Kept { variant, from: heard, to, body: body.clone() });
        }
        Some(body)
    }

    /// Whether a resource of the type may be sent without content.
    fn takes_heartbeats(&self) -> bool {
        types::has_heartbeats(self.arena.type_url.as_str())
    }

    /// Whether the client has the current version of a resource.
    fn has_now(&self, slot: Slot) -> bool {
        let has_ttl = self.arena.payload(slot).is_some_and(|it| it.ttl().is_some());
        has_ttl && (self.has_in_full(slot) || self.session.has(self.slot, slot, self.edges))
    }

    /// Whether the client has the current version from the wildcard, even if everything is due
    /// again.
    fn has_in_full(&self, slot: Slot) -> bool {
        let stamp = self.arena.at(slot).map(|resource| resource.stamp);
        let had = self.session.wildcard.map(|wildcard| match wildcard.owed {
            Some(_) => wildcard.reached,
            None => wildcard.cursor,
        });
        stamp.zip(had).is_some_and(|(stamp, had)| stamp <= had)
    }

    /// Removes the heartbeats of resources that a response with content renewed. `before` is the
    /// wildcard before that response.
    // M163, M164
    pub(crate) fn note_renewed(&mut self, nonce: NonZeroU64, before: Option<Wildcard>) {
        let Some(mut renewals) = self.session.renewals.take() else { return };
        let clock = self.arena.beats.clock();
        let left_out_nothing = before.is_some_and(|it| it.catch_up == CatchUp::Everything);
        let after = self.session.wildcard;
        let is_all = before.is_some_and(|it| it.cursor == Stamp::START)
            && after.is_some_and(|it| it.owed.is_none())
            && left_out_nothing;
        if self.sends_full_state() || is_all {
            renewals.settle(clock);
            renewals.refused.clear();
        }
        let walked: Vec<Slot> = match before.zip(after) {
            Some((before, after)) => {
                self.arena.slots_between(before.cursor, after.cursor).collect()
            }
            None => Vec::new(),
        };
        let was_due = |&slot: &Slot| self.arena.beats.last(slot) > Some(renewals.heard);
        if renewals.are_due() && left_out_nothing && walked.iter().any(was_due) {
            // Only some of the due heartbeats are done, so the others are tracked individually
            // from now on.
            let due = self.arena.beats.after(mem::replace(&mut renewals.heard, clock));
            renewals.owed.extend(due.map(|(_, slot)| slot));
        }
        for slot in walked {
            renewals.refused.remove(&slot);
            // Resources omitted because the client has them still need a renewal.
            if left_out_nothing {
                renewals.owed.remove(&slot);
            }
        }
        for slot in self.sent_by_name(nonce) {
            renewals.refused.remove(&slot);
            renewals.owed.remove(&slot);
        }
        let hears_all = after.is_some() && self.arena.beats.after(renewals.heard).next().is_some();
        if renewals.owed.is_empty() && !hears_all {
            renewals.settle(clock);
        }
        if !renewals.is_blank() {
            self.session.renewals = Some(renewals);
        }
    }

    /// Returns the named resources in the newest response, which has this nonce.
    fn sent_by_name(&self, nonce: NonZeroU64) -> Vec<Slot> {
        let mut named = Vec::new();
        let mut edge = self.session.edges.last();
        while let Some(it) = self.edges.at(edge).filter(|it| it.sent == nonce.get()) {
            named.push(it.resource);
            edge = self.edges.previous(Chain::Session, edge);
        }
        named
    }

    /// Records the rejection of the newest response, whose resources are no longer renewed.
    // M167
    pub(crate) fn note_refused(&mut self, sent: Sent) {
        if self.session.ttls == Ttls::Untold || self.sends_full_state() {
            return;
        }
        if sent.purpose == Purpose::Heartbeat {
            let renewals = self.session.renewals.get_or_insert_default();
            let resent = mem::take(&mut renewals.resent);
            renewals.means = Means::Resources;
            renewals.refused.extend(resent);
            return;
        }
        if !self.arena.has_ttls() {
            return;
        }
        let mut refused = Vec::new();
        if self.session.wildcard.is_some() {
            refused = self.arena.slots_between(sent.from, sent.to).collect();
        }
        refused.extend(self.sent_by_name(sent.nonce));
        let has_ttl = |slot: &Slot| self.arena.payload(*slot).is_some_and(|it| it.ttl().is_some());
        refused.retain(has_ttl);
        if !refused.is_empty() {
            self.session.renewals.get_or_insert_default().refused.extend(refused);
        }
    }

    /// Forgets rejected resources, because they are re-sent now.
    pub(crate) fn forget_refused(&mut self) {
        if let Some(renewals) = self.session.renewals.as_deref_mut() {
            renewals.refused.clear();
        }
    }

    /// Forgets all due heartbeats when the session leaves its arena.
    pub(crate) fn forget_renewals(&mut self) {
        let means = self.session.renewals.take().map(|renewals| renewals.means);
        if means == Some(Means::Resources) {
            let renewals = Renewals { means: Means::Resources, ..Renewals::default() };
            self.session.renewals = Some(Box::new(renewals));
        }
    }
}
