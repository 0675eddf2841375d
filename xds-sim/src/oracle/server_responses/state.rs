//! State of one type on one stream: resources sent, and subscriptions since.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use xds_core::{Time, server::SyncState};

use super::{
    acceptance::Answers,
    rules::{
        ANSWERED, COUNTED, EXACT, FULL_STATE, HEARTBEATS, NEWLY_NAMED, NEWS, NO_REPETITION,
        NONE_IS_TOLD, REMEMBERED, STALE, WHOLE,
    },
    warming::Warms,
};
use crate::{
    oracle::{Report, Rule},
    situations::Situation,
    world::{
        ResourceExtras, glob_covers, is_alias, is_glob, meaning_of,
        message::{Names, Request, Response, ResponseItem, Text},
        subscription::{ALL, SubscriptionState},
    },
};

/// One type on one stream.
#[derive(Debug, Default)]
pub(super) struct TypeState {
    pub(super) subscription: SubscriptionState,
    /// Resources that the client is assumed to have.
    pub(super) sent: BTreeMap<Text, Bytes>,
    /// Resources sent that are no longer subscribed.
    pub(super) left: BTreeSet<Text>,
    /// Removals in a rejected response, which are repeated with the next change.
    pub(super) repeated_removals: BTreeSet<Text>,
    /// Resources created or deleted since they were last sent. They may have been restored in
    /// between.
    pub(super) touched: BTreeSet<Text>,
    /// Resource errors sent, by name.
    pub(super) reported: BTreeMap<Text, i32>,
    /// Names about which a response is due.
    pub(super) unanswered: BTreeSet<Text>,
    pub(super) newest: Text,
    /// Version of the newest response, and of the last accepted one.
    pub(super) versions: (Text, Text),
    /// Number of changes that the server had received when it made the newest response, except
    /// heartbeats, and the last accepted one.
    pub(super) made: (u64, u64),
    /// Resources that the client has accepted, if other types wait for that.
    pub(super) accepted: BTreeMap<Text, Bytes>,
    pub(super) is_answered: bool,
    pub(super) is_rejected: bool,
    /// Whether any response was rejected.
    pub(super) was_rejected: bool,
    /// Whether the client has unsubscribed a resource that was sent in or before the newest
    /// response.
    pub(super) is_narrowed: bool,
    /// Removals in the newest response.
    pub(super) gone: Vec<Text>,
    /// Resources renewed by the newest response, if it is a heartbeat. Heartbeats continue forever.
    pub(super) beating: Vec<Text>,
    /// Whether the versions in the first request may be complete.
    pub(super) states_version: bool,
    pub(super) has_responded: bool,
    /// Whether something has changed since the last check that everything was sent.
    pub(super) is_unsettled: bool,
    /// ACKs and NACKs.
    pub(super) answers: Answers,
    /// Rejected resources that are sent again with the newest change, and did not fit into one
    /// response with it.
    pub(super) resent: BTreeSet<Text>,
    /// Endpoints that may be sent again unchanged, because clusters that wait for them were sent.
    pub(super) awaited: BTreeSet<Text>,
    /// State of the world, endpoints only: whether the client may wait for them, because clusters
    /// were sent.
    pub(super) warms: Warms,
    /// Heartbeats sent, by resource.
    renewals: BTreeMap<Text, Renewals>,
    /// Whether a stale request has come since the newest response.
    is_crossed: bool,
    /// Names subscribed after the first response that have not changed since.
    pub(super) named_late: BTreeSet<Text>,
    /// Incremental: names subscribed or unsubscribed by stale requests.
    changed_late: BTreeSet<Text>,
    /// Incremental: names that were unsubscribed, but are still covered by a wildcard.
    kept: BTreeSet<Text>,
    /// Change of the wildcard subscription.
    pub(super) whole: Whole,
    /// Resources stated by the client in its first request that have not changed since.
    pub(super) stated: BTreeSet<Text>,
}

/// Change of a wildcard subscription since the newest response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Whole {
    /// No change.
    #[default]
    AsItWas,
    /// Begun after the first request.
    Began,
    /// Ended, now or earlier.
    Ended,
}

/// Heartbeats of a resource with its current TTL.
#[derive(Clone, Copy, Debug)]
struct Renewals {
    since: Time,
    ttl: Duration,
    count: u32,
}

impl TypeState {
    /// Returns the state of the newest response, if there is one.
    pub(super) fn state(&self) -> Option<SyncState> {
        self.has_responded.then_some(match (self.is_answered, self.is_rejected) {
            (false, _) => SyncState::Sent,
            (true, false) => SyncState::Acked,
            (true, true) => SyncState::Nacked,
        })
    }

    /// Whether a server may expose this state. It must be that of the newest response, except that
    /// the ACK of a heartbeat may leave an earlier NACK in place.
    pub(super) fn may_show(&self, shown: SyncState) -> bool {
        let is_of_before = self.was_rejected && !self.beating.is_empty();
        self.state().is_none_or(|it| {
            it == shown || (is_of_before && (it, shown) == (SyncState::Acked, SyncState::Nacked))
        })
    }

    /// Notes a change.
    pub(super) fn stir(&mut self) {
        self.is_unsettled = true;
        self.answers.stir();
    }

    /// Handles a request of a client that states these resources.
    pub(super) fn requested(&mut self, request: &Request, held: Vec<(Text, Bytes)>) {
        let is_whole = matches!(request.names, Names::Whole(_));
        let is_newest = request.nonce == self.newest;
        self.stir();
        if is_whole && !request.nonce.is_empty() && self.has_responded && !is_newest {
            self.is_crossed = true;
            return; // Stale (IS2): the request is dropped.
        }
        if is_newest && self.has_responded && !request.nonce.is_empty() && !self.is_answered {
            (self.is_answered, self.is_rejected) = (true, request.error.is_some());
            self.was_rejected |= self.is_rejected;
            if !self.is_rejected {
                self.versions.1.clone_from(&self.versions.0);
                self.made.1 = self.made.0;
                self.answers.accepts();
            }
            if self.is_rejected {
                self.answers.rejects();
                // A rejected heartbeat may be followed by the resource,
                self.touched.extend(self.beating.iter().cloned());
                // and rejected removals are repeated.
                self.repeated_removals.extend(self.gone.iter().cloned());
            }
        }
        self.ask_anew(request);
        self.subscription.take(request);
        self.answers.may_resend |=
            !self.subscription.gained.is_empty() || !self.subscription.lost.is_empty();
        let is_first = self.subscription.is_first;
        self.states_version |= is_first && !request.version.is_empty();
        if is_whole {
            self.unanswered.extend(self.subscription.gained.iter().cloned());
            if self.has_responded {
                self.named_late.extend(self.subscription.gained.iter().cloned());
            }
        }
        if self.subscription.gained.contains(ALL) && !is_first {
            self.whole = Whole::Began;
        } else if self.subscription.lost.contains(ALL) {
            self.whole = Whole::Ended;
        }
        self.stated.extend(held.iter().map(|(name, _)| name.clone()));
        if let Names::Change { subscribe, unsubscribe, .. } = &request.names {
            if !is_newest && !request.nonce.is_empty() {
                self.changed_late.extend(subscribe.iter().chain(unsubscribe).cloned());
            }
            self.unanswered.extend(subscribe.iter().cloned());
            if !is_first && subscribe.iter().any(|name| name == ALL) {
                // A new wildcard subscription is sent everything again, regardless of stated
                // versions (M97).
                self.stated.clear();
            }
            // A client that keeps a resource by its wildcard is sent the current state (IS14).
            for name in unsubscribe {
                let Self { subscription, unanswered, touched, sent, reported, kept, .. } = self;
                if is_glob(name) && unanswered.remove(name) {
                    // Members due by the glob may be sent to clients that name them.
                    let members = sent.keys().chain(reported.keys());
                    let is_kept = |own: &&Text| glob_covers(name, own) && subscription.covers(own);
                    touched.extend(members.filter(is_kept).cloned());
                } else if is_alias(name) || subscription.other_name(name).is_some() {
                    // A client that has the resource by its other name may be sent an update.
                    unanswered.remove(name);
                    touched.extend([name.clone(), meaning_of(name)]);
                } else if subscription.has_all() || subscription.covers(name) {
                    unanswered.insert(name.clone());
                    kept.insert(name.clone());
                }
            }
        }
        for (name, bytes) in held {
            self.unanswered.remove(&name);
            if let Some(other) = self.subscription.other_name(&name) {
                // The client has the resource of the alias, and may be sent its state.
                self.unanswered.remove(&other);
                self.touched.extend([name.clone(), other]);
            }
            self.sent.insert(name, bytes);
        }
        let Self { subscription, sent, unanswered, left, reported, stated, is_narrowed, .. } = self;
        // A client that received an error may still have the resource.
        left.extend(reported.keys().filter(|name| !subscription.names(name)).cloned());
        let dropped = sent.keys().filter(|name| !subscription.covers(name));
        *is_narrowed |= dropped.clone().next().is_some();
        left.extend(dropped.cloned());
        sent.retain(|name, _| subscription.covers(name));
        stated.retain(|name| subscription.covers(name));
        unanswered.retain(|name| name == "*" || subscription.covers(name));
        if is_first {
            unanswered.insert("*".into());
        }
    }

    pub(super) fn heartbeats(
        &self,
        response: &Response,
        has: &BTreeMap<Text, Bytes>,
        extras: &dyn Fn(&str) -> ResourceExtras,
        report: &mut Report,
    ) {
        for item in response.resources.iter().filter(|item| item.bytes.is_none()) {
            let is_held = self.states_version
                || self.sent.contains_key(&item.name)
                || self.reported.contains_key(&item.name);
            let exists = has.contains_key(&item.name) && extras(&item.name).ttl.is_some();
            report.ensure(is_held && exists && item.ttl.is_some(), HEARTBEATS, || {
                format!("{item:?}")
            });
            report.note(Situation::Heartbeat);
        }
    }

    /// Whether the client has subscribed to the wildcard, possibly again, and was sent nothing since.
    pub(super) fn awaits_everything(&self) -> bool {
        self.whole == Whole::Began
            || self.unanswered.contains(ALL)
            || self.subscription.has_all() && !self.has_responded
    }

    /// Whether the client has subscribed to a name, which may not exist, and was sent nothing about it
    /// since.
    pub(super) fn awaits_answer_to_name(&self) -> bool {
        self.unanswered.iter().any(|name| self.subscription.names(name))
    }

    /// Whether a response about a name is due, because it or its glob is newly subscribed.
    pub(super) fn must_answer(&self, name: &str) -> bool {
        self.unanswered.contains(name)
            || self
                .subscription
                .other_name(name)
                .is_some_and(|other| self.unanswered.contains(&other))
            || self.unanswered.iter().any(|own| glob_covers(own, name))
    }

    /// Whether a response may have been sent as a heartbeat only: for one of its resources, the
    /// number of heartbeats does not exceed the quarters of its TTL that have passed. Several
    /// resources may share a heartbeat, and a delayed one does not delay the next.
    fn renews_in_time(&mut self, response: &Response, now: Time) -> bool {
        let items = response.resources.iter().filter_map(|item| Some((item.ttl?, &item.name)));
        // The resource with the shortest TTL is the likeliest reason.
        for (ttl, name) in BTreeSet::from_iter(items) {
            let before = self.renewals.get(name).filter(|it| it.ttl == ttl);
            let mut renewals = before.copied().unwrap_or(Renewals { since: now, ttl, count: 0 });
            if renewals.since.after(ttl / 4 * renewals.count.saturating_sub(1)) <= now {
                renewals.count += 1;
                self.renewals.insert(name.clone(), renewals);
                return true;
            }
        }
        false
    }

    pub(super) fn has_news(
        &mut self,
        is_full: bool,
        content: &BTreeMap<Text, Bytes>,
        response: &Response,
        now: Time,
        report: &mut Report,
    ) {
        let is_new = |(name, bytes): (&Text, &Bytes)| {
            self.sent.get(name) != Some(bytes)
                || self.must_answer(name)
                || self.touched.contains(name)
        };
        let is_less = is_full
            && self.sent.keys().chain(&self.touched).any(|name| !content.contains_key(name));
        // A rejected state has changed if the client unsubscribed parts of it (M107).
        let is_rest = is_full && self.is_rejected && self.is_narrowed;
        let must_answer = self.unanswered.contains("*") || (is_full && !self.unanswered.is_empty());
        let has_news = content.iter().any(is_new)
            || is_less
            || is_rest
            || must_answer
            || !response.removed.is_empty()
            || !response.errors.is_empty()
            || content.keys().any(|name| self.awaited.contains(name) || self.resent.contains(name));
        let has_news = has_news || self.renews_in_time(response, now);
        let rule = match (self.is_rejected, self.is_crossed) {
            (true, _) => NO_REPETITION,
            (false, true) => STALE,
            (false, false) => NEWS,
        };
        report.ensure(has_news, rule, || format!("{:?} say nothing new", content.keys()));
    }

    /// Checks that the first response contains no stated resource that is unchanged, except
    /// heartbeats. A client that names a resource with an error may have released it.
    // M178
    pub(super) fn differs(
        &self,
        response: &Response,
        extras: &dyn Fn(&str) -> ResourceExtras,
        report: &mut Report,
    ) {
        if self.has_responded {
            return;
        }
        let is_due = |item: &ResponseItem| {
            self.must_answer(&item.name)
                || self.touched.contains(&item.name)
                || self.awaited.contains(&item.name)
                || item.ttl.is_some()
                || extras(&item.name).error.is_some()
        };
        let is_again = |item: &&ResponseItem| {
            self.stated.contains(&item.name)
                && self.sent.get(&item.name) == item.bytes.as_ref()
                && !is_due(item)
        };
        let again = response.resources.iter().find(is_again).map(|item| &item.name);
        report.ensure(again.is_none(), EXACT, || format!("{again:?} was stated"));
    }

    /// Whether a response may be sent, because none is outstanding.
    pub(super) fn is_free(&self) -> bool {
        !self.has_responded || self.is_answered
    }

    /// Returns a name about which an incremental client has not received a due response.
    pub(super) fn unanswered_name(&self) -> Option<&Text> {
        self.unanswered.iter().find(|name| *name != ALL && !is_glob(name))
    }

    /// Returns a subscribed resource that was not sent in its current state.
    pub(super) fn lacking<'a>(
        &self,
        has: &'a BTreeMap<Text, Bytes>,
        extras: &dyn Fn(&str) -> ResourceExtras,
    ) -> Option<(&'a Text, &'a Bytes)> {
        let is_due = |name: &str| self.subscription.covers(name) && extras(name).error.is_none();
        let mut expected = has.iter().filter(|(name, _)| is_due(name));
        expected.find(|(name, bytes)| self.sent.get(*name) != Some(bytes))
    }

    /// Returns the rule broken by a server that sends nothing about a name that is due.
    pub(super) fn rule_of_silence(&self, name: &Text, exists: bool) -> Rule {
        match exists {
            _ if self.changed_late.contains(name) => COUNTED,
            _ if self.kept.contains(name) => WHOLE,
            true => ANSWERED,
            false => NONE_IS_TOLD,
        }
    }

    /// Returns the rule broken by a server that does not send a resource in its current state.
    pub(super) fn rule_of_missing(&self, name: &Text) -> Rule {
        if self.named_late.contains(name) {
            NEWLY_NAMED
        } else if self.stated.contains(name) {
            EXACT
        } else if self.whole == Whole::Began && !self.subscription.names(name) {
            WHOLE
        } else {
            REMEMBERED
        }
    }

    /// Returns the rule broken by a server that sends a resource that is not subscribed or not
    /// current.
    pub(super) fn rule_of_unrequested(&self, name: &Text) -> Rule {
        match self.whole {
            _ if self.subscription.covers(name) => FULL_STATE,
            _ if self.changed_late.contains(name) => COUNTED,
            Whole::Ended => WHOLE,
            Whole::AsItWas | Whole::Began => FULL_STATE,
        }
    }

    pub(super) fn take(
        &mut self,
        is_full: bool,
        content: BTreeMap<Text, Bytes>,
        response: &Response,
    ) {
        self.awaited.retain(|name| !content.contains_key(name));
        self.resent.retain(|name| !content.contains_key(name));
        if is_full {
            self.unanswered.clear();
            self.touched.clear();
            self.sent = content;
            // A full state contains everything.
            self.states_version = false;
        } else {
            for (name, bytes) in content {
                self.unanswered.remove(&name);
                if let Some(other) = self.subscription.other_name(&name) {
                    self.unanswered.remove(&other);
                    self.touched.remove(&other);
                }
                self.touched.remove(&name);
                self.sent.insert(name, bytes);
            }
        }
        // All members of a newly subscribed glob are sent together.
        let errors = response.errors.iter().map(|(name, _)| name);
        let told: Vec<&Text> = self.sent.keys().chain(errors).collect();
        self.unanswered
            .retain(|own| !is_glob(own) || !told.iter().any(|name| glob_covers(own, name)));
        let has_content = response.resources.iter().any(|item| item.bytes.is_some());
        for name in response.removed.iter().chain(response.errors.iter().map(|(name, _)| name)) {
            if !self.unanswered.remove(name) && has_content {
                // A response to a subscription, or a new error, is not the change with which a
                // removal is repeated.
                self.repeated_removals.remove(name);
            }
            self.sent.remove(name);
            let own = meaning_of(name);
            if !self.subscription.covers_as_such(&own) {
                // A client that subscribes only to the alias is sent updates under the alias.
                self.sent.remove(&own);
            }
            self.left.remove(name);
            self.touched.remove(name);
        }
        self.unanswered.remove("*");
        self.newest.clone_from(&response.nonce);
        (self.is_answered, self.is_rejected, self.has_responded) = (false, false, true);
        (self.is_narrowed, self.is_crossed) = (false, false);
        let Self { subscription, sent, unanswered, named_late, changed_late, kept, whole, .. } =
            self;
        named_late.retain(|name| !sent.contains_key(name));
        changed_late.retain(|name| unanswered.contains(name) || !subscription.covers(name));
        kept.retain(|name| unanswered.contains(name));
        if *whole == Whole::Began {
            *whole = Whole::AsItWas;
        }
        self.gone.clone_from(&response.removed);
        self.beating.clear();
        if response.renews() {
            self.beating.extend(response.resources.iter().map(|item| item.name.clone()));
        }
    }
}
