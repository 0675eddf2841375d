//! One type on one stream: what the client has been sent and what it has asked for since.

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
    oracle::{Fold, Report, Rule, fold::ALL},
    situations::Situation,
    world::{
        Beside, glob_covers, is_alias, is_glob, meaning_of,
        message::{Item, Names, Request, Response, Text},
    },
};

/// One type on one stream.
#[derive(Debug, Default)]
pub(super) struct Talk {
    pub(super) fold: Fold,
    /// What the client is taken to have.
    pub(super) sent: BTreeMap<Text, Bytes>,
    /// What the client was sent and does not subscribe to any more.
    pub(super) left: BTreeSet<Text>,
    /// What was told to be gone in a response that was rejected, and is told so once more with the next change.
    pub(super) retold: BTreeSet<Text>,
    /// What was created or deleted since it was last told of: it may have come and gone in between.
    pub(super) touched: BTreeSet<Text>,
    /// The errors that it was told of single resources.
    pub(super) reported: BTreeMap<Text, i32>,
    /// Names of which something has to be said.
    pub(super) owed: BTreeSet<Text>,
    pub(super) newest: Text,
    /// The version of the newest response, and of the one that was accepted last.
    pub(super) versions: (Text, Text),
    /// How many changes the server had been told of when it made the newest response that was more than a
    /// heartbeat, and the one that was accepted last.
    pub(super) made: (u64, u64),
    /// What the client is known to have accepted, where something waits for that.
    pub(super) accepted: BTreeMap<Text, Bytes>,
    pub(super) is_answered: bool,
    pub(super) is_rejected: bool,
    /// Whether any response was.
    pub(super) was_rejected: bool,
    /// Whether the client has dropped something since that was in the newest response or before it.
    pub(super) is_narrowed: bool,
    /// What the newest response told to be gone.
    pub(super) gone: Vec<Text>,
    /// What the newest response renews, if it does nothing else: such go on for ever.
    pub(super) beating: Vec<Text>,
    /// What the first request said that the client has may be all there is.
    pub(super) states_version: bool,
    pub(super) has_responded: bool,
    /// Whether something has come to pass since it was last seen that all was sent that could be.
    pub(super) is_unsettled: bool,
    /// What of it was accepted.
    pub(super) answers: Answers,
    /// What was rejected, goes along with the newest change, and did not fit into one response with it.
    pub(super) rides: BTreeSet<Text>,
    /// Endpoints that may come once more, since clusters were sent that are warmed until they do.
    pub(super) awaited: BTreeSet<Text>,
    /// State of the world, of endpoints: whether the client may wait for all of them, since clusters were sent.
    pub(super) warms: Warms,
    /// Responses that went out to renew a resource, and did nothing else.
    renewals: BTreeMap<Text, Renewals>,
    /// Whether a request that answers an older response than the newest has come since that one.
    is_crossed: bool,
    /// What was newly named after the first response, and has not changed since.
    pub(super) named_late: BTreeSet<Text>,
    /// Incremental: what was subscribed to, or given up, by requests that answer older responses than the newest.
    said_late: BTreeSet<Text>,
    /// Incremental: names that were given up, and are of what the client asks for as part of the whole.
    kept: BTreeSet<Text>,
    /// Whether the whole was asked for at first, or is not any more.
    pub(super) whole: Whole,
    /// What the client said to have when it came, and has not changed since.
    pub(super) stated: BTreeSet<Text>,
}

/// What became of a subscription to everything since the newest response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Whole {
    /// Nothing.
    #[default]
    AsItWas,
    /// It began, in mid-stream.
    Began,
    /// It has ended, at this time or before.
    Ended,
}

/// How often a resource was renewed since it has this time to live.
#[derive(Clone, Copy, Debug)]
struct Renewals {
    since: Time,
    ttl: Duration,
    count: u32,
}

/// Whether a response does nothing but renew what was sent before.
pub(in crate::oracle) fn is_heartbeat(response: &Response) -> bool {
    let says_more = !response.removed.is_empty() || !response.errors.is_empty();
    let mut items = response.resources.iter();
    !says_more && !response.resources.is_empty() && items.all(|item| item.bytes.is_none())
}

/// Whether a response has what may be used for a time only: in full state it is renewed by sending
/// everything again, and otherwise so is what its client may have lost meanwhile.
pub(in crate::oracle) fn renews(response: &Response) -> bool {
    response.resources.iter().any(|item| item.ttl.is_some())
}

impl Talk {
    /// How the newest response was answered, if there was any.
    pub(super) fn state(&self) -> Option<SyncState> {
        self.has_responded.then_some(match (self.is_answered, self.is_rejected) {
            (false, _) => SyncState::Sent,
            (true, false) => SyncState::Acked,
            (true, true) => SyncState::Nacked,
        })
    }

    /// Whether its server may show that: what it shows is how the newest response was answered, but that a heartbeat is
    /// accepted says nothing of what was rejected before it.
    pub(super) fn may_show(&self, shown: SyncState) -> bool {
        let is_of_before = self.was_rejected && !self.beating.is_empty();
        self.state().is_none_or(|it| {
            it == shown || (is_of_before && (it, shown) == (SyncState::Acked, SyncState::Nacked))
        })
    }

    /// Something has come to pass.
    pub(super) fn stir(&mut self) {
        self.is_unsettled = true;
        self.answers.stir();
    }

    /// A request arrives, of a client that says to have these.
    pub(super) fn hear(&mut self, request: &Request, held: Vec<(Text, Bytes)>) {
        let is_whole = matches!(request.names, Names::Whole(_));
        let is_newest = request.nonce == self.newest;
        self.stir();
        if is_whole && !request.nonce.is_empty() && self.has_responded && !is_newest {
            self.is_crossed = true;
            return; // Stale (IS2): it is dropped with its names.
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
                // What cannot be renewed any more may be sent again.
                self.touched.extend(self.beating.iter().cloned());
                // Nor is it told for good that something is gone.
                self.retold.extend(self.gone.iter().cloned());
            }
        }
        self.ask_anew(request);
        self.fold.take(request);
        self.answers.may_ride |= !self.fold.gained.is_empty() || !self.fold.lost.is_empty();
        let is_first = self.fold.is_first;
        self.states_version |= is_first && !request.version.is_empty();
        if is_whole {
            self.owed.extend(self.fold.gained.iter().cloned());
            if self.has_responded {
                self.named_late.extend(self.fold.gained.iter().cloned());
            }
        }
        if self.fold.gained.contains(ALL) && !is_first {
            self.whole = Whole::Began;
        } else if self.fold.lost.contains(ALL) {
            self.whole = Whole::Ended;
        }
        self.stated.extend(held.iter().map(|(name, _)| name.clone()));
        if let Names::Change { subscribe, unsubscribe, .. } = &request.names {
            if !is_newest && !request.nonce.is_empty() {
                self.said_late.extend(subscribe.iter().chain(unsubscribe).cloned());
            }
            self.owed.extend(subscribe.iter().cloned());
            if !is_first && subscribe.iter().any(|name| name == ALL) {
                // Who asks for everything again is sent all of it again, whatever was stated before (M97).
                self.stated.clear();
            }
            // Whoever keeps it as part of the whole is told where it stands (IS14).
            for name in unsubscribe {
                let Self { fold, owed, touched, sent, reported, kept, .. } = self;
                if is_glob(name) && owed.remove(name) {
                    // What it made due may be told to who has it by name.
                    let members = sent.keys().chain(reported.keys());
                    let is_kept = |own: &&Text| glob_covers(name, own) && fold.covers(own);
                    touched.extend(members.filter(is_kept).cloned());
                } else if is_alias(name) || fold.other_name(name).is_some() {
                    // Who has it by another name as well may be told.
                    owed.remove(name);
                    touched.extend([name.clone(), meaning_of(name)]);
                } else if fold.has_all() || fold.covers(name) {
                    owed.insert(name.clone());
                    kept.insert(name.clone());
                }
            }
        }
        for (name, bytes) in held {
            self.owed.remove(&name);
            if let Some(other) = self.fold.other_name(&name) {
                // What it stands for, the client has: it may be told so.
                self.owed.remove(&other);
                self.touched.extend([name.clone(), other]);
            }
            self.sent.insert(name, bytes);
        }
        let Self { fold, sent, owed, left, reported, stated, is_narrowed, .. } = self;
        // Who is told an error may have the resource from before.
        left.extend(reported.keys().filter(|name| !fold.names(name)).cloned());
        let dropped = sent.keys().filter(|name| !fold.covers(name));
        *is_narrowed |= dropped.clone().next().is_some();
        left.extend(dropped.cloned());
        sent.retain(|name, _| fold.covers(name));
        stated.retain(|name| fold.covers(name));
        owed.retain(|name| name == "*" || fold.covers(name));
        if is_first {
            owed.insert("*".into());
        }
    }

    pub(super) fn heartbeats(
        &self,
        response: &Response,
        has: &BTreeMap<Text, Bytes>,
        beside: &dyn Fn(&str) -> Beside,
        report: &mut Report,
    ) {
        for item in response.resources.iter().filter(|item| item.bytes.is_none()) {
            let is_held = self.states_version
                || self.sent.contains_key(&item.name)
                || self.reported.contains_key(&item.name);
            let exists = has.contains_key(&item.name) && beside(&item.name).ttl.is_some();
            report.ensure(is_held && exists && item.ttl.is_some(), HEARTBEATS, || {
                format!("{item:?}")
            });
            report.note(Situation::Heartbeat);
        }
    }

    /// Whether the client has subscribed to everything and was sent nothing since.
    pub(super) fn awaits_everything(&self) -> bool {
        self.whole == Whole::Began || self.fold.has_all() && !self.has_responded
    }

    /// Whether something has to be said of a name, because it is subscribed anew or a glob of it is.
    pub(super) fn is_owed(&self, name: &str) -> bool {
        self.owed.contains(name)
            || self.fold.other_name(name).is_some_and(|other| self.owed.contains(&other))
            || self.owed.iter().any(|own| glob_covers(own, name))
    }

    /// Whether a response may have been sent for what expires only: of something, no more renewals went out than times
    /// to live have passed by a quarter: of several resources it cannot be seen which one is renewed, and one that had
    /// to wait for an answer does not put off those after it.
    fn renews_in_time(&mut self, response: &Response, now: Time) -> bool {
        let items = response.resources.iter().filter_map(|item| Some((item.ttl?, &item.name)));
        // What has to be renewed most often is the likeliest reason.
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
        said: &BTreeMap<Text, Bytes>,
        response: &Response,
        now: Time,
        report: &mut Report,
    ) {
        let is_new = |(name, bytes): (&Text, &Bytes)| {
            self.sent.get(name) != Some(bytes) || self.is_owed(name) || self.touched.contains(name)
        };
        let is_less =
            is_full && self.sent.keys().chain(&self.touched).any(|name| !said.contains_key(name));
        // A state that was rejected is another one without what the client dropped (M107).
        let is_rest = is_full && self.is_rejected && self.is_narrowed;
        let is_owed = self.owed.contains("*") || (is_full && !self.owed.is_empty());
        let has_news = said.iter().any(is_new)
            || is_less
            || is_rest
            || is_owed
            || !response.removed.is_empty()
            || !response.errors.is_empty()
            || said.keys().any(|name| self.awaited.contains(name) || self.rides.contains(name));
        let has_news = has_news || self.renews_in_time(response, now);
        let rule = match (self.is_rejected, self.is_crossed) {
            (true, _) => NO_REPETITION,
            (false, true) => STALE,
            (false, false) => NEWS,
        };
        report.ensure(has_news, rule, || format!("{:?} say nothing new", said.keys()));
    }

    /// The first response has nothing that the client states to have as it is, unless to renew it. Who names what has an
    /// error may have let go of it (M178).
    pub(super) fn differs(
        &self,
        response: &Response,
        beside: &dyn Fn(&str) -> Beside,
        report: &mut Report,
    ) {
        if self.has_responded {
            return;
        }
        let is_due = |item: &Item| {
            self.is_owed(&item.name)
                || self.touched.contains(&item.name)
                || self.awaited.contains(&item.name)
                || item.ttl.is_some()
                || beside(&item.name).error.is_some()
        };
        let is_again = |item: &&Item| {
            self.stated.contains(&item.name)
                && self.sent.get(&item.name) == item.bytes.as_ref()
                && !is_due(item)
        };
        let again = response.resources.iter().find(is_again).map(|item| &item.name);
        report.ensure(again.is_none(), EXACT, || format!("{again:?} was stated"));
    }

    /// A response may be sent: none is on its way.
    pub(super) fn is_free(&self) -> bool {
        !self.has_responded || self.is_answered
    }

    /// A name of which an incremental client is to be told something, and was not.
    pub(super) fn unsaid(&self) -> Option<&Text> {
        self.owed.iter().find(|name| *name != ALL && !is_glob(name))
    }

    /// What there is of what is asked for that was not sent as it is.
    pub(super) fn lacking<'a>(
        &self,
        has: &'a BTreeMap<Text, Bytes>,
        beside: &dyn Fn(&str) -> Beside,
    ) -> Option<(&'a Text, &'a Bytes)> {
        let is_due = |name: &str| self.fold.covers(name) && beside(name).error.is_none();
        let mut expected = has.iter().filter(|(name, _)| is_due(name));
        expected.find(|(name, bytes)| self.sent.get(*name) != Some(bytes))
    }

    /// What a server breaks that says nothing of a name of which it has to.
    pub(super) fn rule_of_silence(&self, name: &Text, exists: bool) -> Rule {
        match exists {
            _ if self.said_late.contains(name) => COUNTED,
            _ if self.kept.contains(name) => WHOLE,
            true => ANSWERED,
            false => NONE_IS_TOLD,
        }
    }

    /// What a server breaks that does not send a resource as it is.
    pub(super) fn rule_of_missing(&self, name: &Text) -> Rule {
        if self.named_late.contains(name) {
            NEWLY_NAMED
        } else if self.stated.contains(name) {
            EXACT
        } else if self.whole == Whole::Began && !self.fold.names(name) {
            WHOLE
        } else {
            REMEMBERED
        }
    }

    /// What a server breaks that sends a resource which is not asked for, or not as it is.
    pub(super) fn rule_of_stranger(&self, name: &Text) -> Rule {
        match self.whole {
            _ if self.fold.covers(name) => FULL_STATE,
            _ if self.said_late.contains(name) => COUNTED,
            Whole::Ended => WHOLE,
            Whole::AsItWas | Whole::Began => FULL_STATE,
        }
    }

    pub(super) fn take(&mut self, is_full: bool, said: BTreeMap<Text, Bytes>, response: &Response) {
        self.awaited.retain(|name| !said.contains_key(name));
        self.rides.retain(|name| !said.contains_key(name));
        if is_full {
            self.owed.clear();
            self.touched.clear();
            self.sent = said;
            // All there is has been said.
            self.states_version = false;
        } else {
            for (name, bytes) in said {
                self.owed.remove(&name);
                if let Some(other) = self.fold.other_name(&name) {
                    self.owed.remove(&other);
                    self.touched.remove(&other);
                }
                self.touched.remove(&name);
                self.sent.insert(name, bytes);
            }
        }
        // All members of a glob that was subscribed anew come at once.
        let errors = response.errors.iter().map(|(name, _)| name);
        let told: Vec<&Text> = self.sent.keys().chain(errors).collect();
        self.owed.retain(|own| !is_glob(own) || !told.iter().any(|name| glob_covers(own, name)));
        let has_content = response.resources.iter().any(|item| item.bytes.is_some());
        for name in response.removed.iter().chain(response.errors.iter().map(|(name, _)| name)) {
            if !self.owed.remove(name) && has_content {
                // An answer to who asks for it is not the change that it goes along with, nor is news of an error.
                self.retold.remove(name);
            }
            self.sent.remove(name);
            let own = meaning_of(name);
            if !self.fold.covers_as_such(&own) {
                // Who asks for it by its other name only is told by that.
                self.sent.remove(&own);
            }
            self.left.remove(name);
            self.touched.remove(name);
        }
        self.owed.remove("*");
        self.newest.clone_from(&response.nonce);
        (self.is_answered, self.is_rejected, self.has_responded) = (false, false, true);
        (self.is_narrowed, self.is_crossed) = (false, false);
        let Self { fold, sent, owed, named_late, said_late, kept, whole, .. } = self;
        named_late.retain(|name| !sent.contains_key(name));
        said_late.retain(|name| owed.contains(name) || !fold.covers(name));
        kept.retain(|name| owed.contains(name));
        if *whole == Whole::Began {
            *whole = Whole::AsItWas;
        }
        self.gone.clone_from(&response.removed);
        self.beating.clear();
        if renews(response) {
            self.beating.extend(response.resources.iter().map(|item| item.name.clone()));
        }
    }
}
