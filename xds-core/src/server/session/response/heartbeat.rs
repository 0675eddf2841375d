//! Heartbeats: telling a client that it may go on using what it has (M159-M170).
//!
//! A heartbeat goes in a response of its own, under the version that the client accepted last, when there
//! is nothing else to send: a change that is due takes its place (M163). It is for resources that the
//! client has, so not for what it rejected (M167). Where it would not do, the whole resource goes instead:
//!
//! | where | why |
//! |---|---|
//! | types in full state | what is absent is deleted, and a proxy counts a heartbeat as absent |
//! | it comes so late that the client may have let go of the resource | there would be nothing to renew |
//! | the client has rejected a heartbeat | it has no use for them |
//! | virtual hosts | without content they do not exist |
//!
//! But for a resource of which the client was told an error instead: to be sent it would end that (M176).

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

/// What a session owes of heartbeats. Apart, because it is empty most of the time.
#[derive(Debug, Default)]
pub(crate) struct Renewals {
    state: Renewal,
    /// Under the wildcard: the client has heard all heartbeats up to here.
    heard: Beat,
    /// What it has by name, and what was due before other things under the wildcard were sent.
    owed: BTreeSet<Slot>,
    /// When the oldest heartbeat became due that was not sent.
    since: Option<Time>,
    /// What the client has rejected, and was not sent again since.
    refused: BTreeSet<Slot>,
    means: Means,
    /// What was renewed last by sending it again.
    resent: Vec<Slot>,
    /// The number of the nonce whose answer was last said to be in the way.
    reminded: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Renewal {
    #[default]
    NotDue,
    Due,
}

/// What renews a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Means {
    #[default]
    Heartbeats,
    /// The resource itself, since the client has rejected a heartbeat.
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
    /// A resource that the client names was due before all heartbeats after `before`.
    pub(crate) fn owe_heartbeat(&mut self, resource: Slot, before: Beat, now: Time) {
        if self.session.ttls == Ttls::Told {
            let renewals = self.session.renewals.get_or_insert_default();
            renewals.fall_due(Some(before), Some(now));
            renewals.owed.insert(resource);
        }
    }

    /// All that was due after `before`, as far as the wildcard covers it.
    pub(crate) fn owe_heartbeats(&mut self, before: Beat, now: Time) {
        if self.session.ttls == Ttls::Told {
            let renewals = self.session.renewals.get_or_insert_default();
            renewals.fall_due(Some(before), Some(now));
        }
    }

    /// The client has a resource from another stream or view, and nobody knows for how long yet: it is
    /// renewed at once.
    pub(crate) fn renew_at_once(&mut self, resource: Slot) {
        let has_ttl = self.arena.payload(resource).is_some_and(|it| it.ttl().is_some());
        if has_ttl && self.session.ttls == Ttls::Told {
            let clock = self.arena.beats.clock();
            let renewals = self.session.renewals.get_or_insert_default();
            renewals.fall_due(Some(clock), None);
            renewals.owed.insert(resource);
        }
    }

    /// The same for all of a full state.
    pub(crate) fn renew_all_at_once(&mut self) {
        if self.form().ttls == Ttls::Told {
            self.session.renewals.get_or_insert_default().fall_due(None, None);
        }
    }

    /// The response whose answer a heartbeat has been waiting for, and for how long, if that is half the
    /// shortest TTL concerned or more. Said once for each response.
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

    /// Renders the heartbeats that are due, when nothing else is.
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

    /// The state once more, if the client has accepted it.
    fn renew_full_state(&mut self, nonce: NonZeroU64, limit: usize) -> Option<(Body, TypeVersion)> {
        let renewals = self.session.renewals.take()?;
        let is_accepted = match self.session.newest {
            Some(sent) => sent.verdict == Answer::Ack && sent.answer == Answer::Ack,
            // From another view.
            None => true,
        };
        // Who is told an error instead is not sent the resource with the rest of the state (M177).
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

    /// Those of what changes, as many as fit.
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
        // What is kept is for those who have everything.
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
                    // It has it from before. To send it would end the stream (IS26).
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

    /// Whether a resource of the type may come without content and exist.
    fn takes_heartbeats(&self) -> bool {
        types::has_heartbeats(self.arena.type_url.as_str())
    }

    /// Whether the client has a resource as it is now.
    fn has_now(&self, slot: Slot) -> bool {
        let has_ttl = self.arena.payload(slot).is_some_and(|it| it.ttl().is_some());
        has_ttl && (self.has_in_full(slot) || self.session.has(self.slot, slot, self.edges))
    }

    /// Whether it has it from the wildcard, be it that everything is to be sent once more.
    fn has_in_full(&self, slot: Slot) -> bool {
        let stamp = self.arena.at(slot).map(|resource| resource.stamp);
        let had = self.session.wildcard.map(|wildcard| match wildcard.owed {
            Some(_) => wildcard.reached,
            None => wildcard.cursor,
        });
        stamp.zip(had).is_some_and(|(stamp, had)| stamp <= had)
    }

    /// A response with content was rendered: what is in it needs no heartbeat any more (M163, M164).
    /// `before` is where the wildcard was.
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
            // Some of what is due under the wildcard is not any more: from now on it is remembered one by one.
            let due = self.arena.beats.after(mem::replace(&mut renewals.heard, clock));
            renewals.owed.extend(due.map(|(_, slot)| slot));
        }
        for slot in walked {
            renewals.refused.remove(&slot);
            // What was left out of the walk since the client has it is still to be renewed.
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

    /// What the client has by name and was in the response with this nonce, which is the newest.
    fn sent_by_name(&self, nonce: NonZeroU64) -> Vec<Slot> {
        let mut named = Vec::new();
        let mut edge = self.session.edges.last();
        while let Some(it) = self.edges.at(edge).filter(|it| it.sent == nonce.get()) {
            named.push(it.resource);
            edge = self.edges.previous(Chain::Session, edge);
        }
        named
    }

    /// The newest response was rejected: what was in it is not renewed (M167).
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

    /// What was rejected goes along with what is sent now.
    pub(crate) fn forget_refused(&mut self) {
        if let Some(renewals) = self.session.renewals.as_deref_mut() {
            renewals.refused.clear();
        }
    }

    /// The session leaves its arena: what is remembered of resources there goes.
    pub(crate) fn forget_renewals(&mut self) {
        let means = self.session.renewals.take().map(|renewals| renewals.means);
        if means == Some(Means::Resources) {
            let renewals = Renewals { means: Means::Resources, ..Renewals::default() };
            self.session.renewals = Some(Box::new(renewals));
        }
    }
}
