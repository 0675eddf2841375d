//! Channels opening, failing and ending: the state machine drawn in `upstream.rs`, and all timers.

use alloc::vec::Vec;
use core::time::Duration;

use super::{
    Client,
    config::{ConnectivityErrors, ReadGate},
    error::{ChannelError, WatchError, WatchErrorKind},
    features::ServerFeature,
    interest::{Collection, SubscriptionState},
    sotw::Sotw,
    status::EntryState,
    timers::{Armed, Subject},
    upstream::{Channel, Link},
    watches::{Debts, News, Target},
};
use crate::{
    id::ChannelId,
    slab::Slot,
    time::{Deadline, Time, Timer},
};

impl Client {
    /// Opens a channel if one is wanted and nothing is in its way. One opens at a time (IC26).
    pub(super) fn connect_if_wanted(&mut self, now: Time) {
        if self.upstream.link == Link::Idle && !self.is_shut_down && self.wants_anything() {
            let sotw = self.types.iter().map(|known| Sotw::new(&known.interest)).collect();
            if let Some(id) = self.upstream.start_channel(Channel::new(sotw, now)) {
                self.outbox.open(id, self.upstream.server.clone());
            }
        }
        if let Some((_, channel)) = self.upstream.current_mut() {
            channel.idle_since = None;
        }
    }

    pub(super) fn on_opened(&mut self, id: ChannelId, now: Time) {
        let gate = self.config.profile.read_gate;
        let is_idle = !self.wants_anything();
        match self.upstream.channel_mut(id) {
            Some(channel) if !channel.is_open => {
                channel.is_open = true;
                channel.debts =
                    (gate == ReadGate::Notices).then_some(Debts { channel: id, open: 0 });
                channel.idle_since = is_idle.then_some(now);
                self.announce();
            }
            Some(_) | None => self.stats.ignored_events += 1,
        }
    }

    /// Tells the driver that there is something to send, once until it has sent it all.
    pub(super) fn announce(&mut self) {
        let types = &self.types;
        if let Some((id, channel)) = self.upstream.current_mut()
            && channel.is_open
            && !channel.announced
            && (!channel.acks.is_empty()
                || channel
                    .sotw
                    .iter()
                    .zip(types)
                    .any(|(sotw, known)| sotw.is_dirty(&known.interest)))
        {
            channel.announced = true;
            self.outbox.writable(id);
        }
    }

    /// A sound response has come: the server works again.
    pub(super) fn note_response(&mut self, id: ChannelId, now: Time) {
        self.stats.responses += 1;
        if let Some(channel) = self.upstream.channel_mut(id) {
            channel.responded.get_or_insert(now);
        }
        if self.upstream.error.take().is_some() {
            self.tell_everybody_of_the_server();
        }
    }

    pub(super) fn on_malformed(&mut self, id: ChannelId, error: ChannelError, now: Time) {
        if self.upstream.channel(id).is_some() {
            self.stats.malformed += 1;
            self.outbox.close(id, Some(error.clone()));
        }
        self.on_closed(id, error, now);
    }

    /// The channel is gone, and with it all that was the channel's.
    pub(super) fn on_closed(&mut self, id: ChannelId, error: ChannelError, now: Time) {
        let Some(channel) = self.upstream.end_channel(id) else {
            self.stats.ignored_events += 1;
            return;
        };
        self.forget_what_was_leaving();
        self.upstream.epoch += 1;

        let policy = &self.config.profile.backoff;
        let has_served_well =
            channel.responded.is_some_and(|responded| now.since(responded) >= policy.young);
        if has_served_well {
            self.upstream.backoff.reset();
        }
        let delay = self.upstream.backoff.next(policy, &mut self.rng);
        if has_served_well {
            // The wait after a good stream is a floor, not the first of a series.
            self.upstream.backoff.reset();
        }
        self.upstream.link = Link::BackingOff(now.after(delay));

        // A stream that delivered something ends without an error to anybody, whatever its status
        // (S1.008): servers rebalance and age connections. A response that cannot be taken is no
        // such end.
        if channel.responded.is_none() || error.is_fault() {
            self.stats.server_failures += 1;
            let is_news = !self.upstream.error.as_ref().is_some_and(|last| last.is_like(&error));
            self.upstream.error = Some(error);
            if is_news && self.reported_error().is_some() {
                self.tell_everybody_of_the_server();
            }
        }
    }

    /// With the channel gone there is nobody left to be told of the end of a subscription.
    fn forget_what_was_leaving(&mut self) {
        for type_index in 0..self.types.len() {
            let Some(known) = self.types.get(type_index) else { continue };
            if known.interest.leaving > 0 {
                let leaving: Vec<Slot> = known
                    .interest
                    .subscriptions
                    .iter()
                    .filter(|(_, subscription)| subscription.state == SubscriptionState::Leaving)
                    .map(|(slot, _)| slot)
                    .collect();
                for slot in leaving {
                    self.drop_subscription(type_index, slot);
                }
            }
            self.drop_uncovered(type_index);
        }
    }

    /// The standing connectivity error, where watchers are told of such (D17).
    pub(super) fn reported_error(&self) -> Option<&ChannelError> {
        match self.config.profile.connectivity_errors {
            ConnectivityErrors::Reported => self.upstream.error.as_ref(),
            ConnectivityErrors::Hidden => None,
        }
    }

    /// The connectivity error came or went: beside a resource in use it is ambient, otherwise it is
    /// the reason why there is none (S3.032, S3.033, X16).
    fn tell_everybody_of_the_server(&mut self) {
        let has_error = self.reported_error().is_some();
        let ids: Vec<_> = self.watches.ids().collect();
        for id in ids {
            let Some(watch) = self.watches.get(id) else { continue };
            let Some(known) = self.types.get(watch.type_index) else { continue };
            let news = match &watch.target {
                Target::Wildcard(_) => match known.interest.collection {
                    Collection::Received => Some(News::Ambient),
                    Collection::Requested => has_error.then_some(News::Changed),
                    Collection::Missing { .. } => Some(News::Changed),
                },
                Target::Name { subscription, .. } => {
                    let entry = known
                        .interest
                        .subscriptions
                        .at(*subscription)
                        .and_then(|subscription| known.cache.get(subscription.entry));
                    match entry {
                        Some(entry) if entry.bytes.is_some() => Some(News::Ambient),
                        Some(entry) => {
                            (has_error || entry.error().is_some()).then_some(News::Changed)
                        }
                        None => None,
                    }
                }
            };
            if let Some(news) = news {
                self.watches.tell(id, news, &mut self.outbox, &mut None);
            }
        }
    }

    // Timers.

    /// The earliest deadline; the queue of outputs has been looked at before.
    pub(super) fn next_deadline(&self) -> Option<Deadline> {
        let reconnect = match self.upstream.link {
            Link::BackingOff(at) => Some(Deadline { at, why: Timer::Reconnect }),
            Link::Idle | Link::Open(_) => None,
        };
        let channel = self.upstream.current().map(|(_, channel)| channel);
        let does_not_exist = channel
            .and_then(|channel| channel.timers.next())
            .map(|at| Deadline { at, why: Timer::DoesNotExist });
        let idle = channel
            .and_then(|channel| channel.idle_since)
            .zip(self.config.profile.idle_close)
            .map(|(since, after)| Deadline { at: since.after(after), why: Timer::Idle });
        [reconnect, does_not_exist, idle, self.next_expiry()]
            .into_iter()
            .flatten()
            .min_by_key(|due| (due.at, due.why))
    }

    pub(super) fn on_timeout(&mut self, now: Time) {
        if let Link::BackingOff(until) = self.upstream.link
            && until <= now
        {
            self.upstream.link = Link::Idle;
            self.connect_if_wanted(now);
            self.forget_failure_if_idle();
        }
        while let Some(armed) = self.due_timer(now) {
            self.conclude_missing(armed);
        }
        self.expire_due(now);
        let is_idle_for_too_long = self
            .upstream
            .current()
            .and_then(|(_, channel)| channel.idle_since)
            .zip(self.config.profile.idle_close)
            .is_some_and(|(since, after)| since.after(after) <= now);
        if is_idle_for_too_long {
            self.close_idle(now);
        }
        self.announce();
    }

    /// What went wrong when somebody was last interested says nothing to whoever comes next.
    fn forget_failure_if_idle(&mut self) {
        if self.upstream.link == Link::Idle {
            self.upstream.error = None;
        }
    }

    fn due_timer(&mut self, now: Time) -> Option<Armed> {
        let (_, channel) = self.upstream.current_mut()?;
        channel.timers.next().filter(|&at| at <= now)?;
        let armed = channel.timers.pop();
        self.discard_settled_timers();
        armed
    }

    /// Takes timers whose subject has been heard of, or is gone, off the front of the queue, so that
    /// the deadline handed out is always that of a timer that counts (IC38).
    pub(super) fn discard_settled_timers(&mut self) {
        loop {
            let Some((_, channel)) = self.upstream.current_mut() else { return };
            let Some(&armed) = channel.timers.front() else { return };
            if self.is_running(&armed) {
                return;
            }
            if let Some((_, channel)) = self.upstream.current_mut() {
                let _ = channel.timers.pop();
            }
        }
    }

    fn is_running(&self, armed: &Armed) -> bool {
        let Some(known) = self.types.get(armed.type_index) else { return false };
        match armed.subject {
            Subject::Subscription(key) => known
                .interest
                .subscriptions
                .get(key)
                .is_some_and(|subscription| subscription.timer == armed.token),
            Subject::Collection => known.interest.collection_timer == armed.token,
        }
    }

    /// The server had its time: the resource, or the collection, does not exist (S1.025), or the
    /// server is in trouble (S3.043, S3.044).
    fn conclude_missing(&mut self, armed: Armed) {
        if !self.is_running(&armed) {
            return;
        }
        let server = &self.upstream.server;
        let after = self.config.profile.missing_after(server).unwrap_or(Duration::MAX);
        let (state, kind) =
            match server.features.contains(ServerFeature::ResourceTimerIsTransientError) {
                true => (EntryState::Timeout, WatchErrorKind::Timeout(after)),
                false => (EntryState::DoesNotExist, WatchErrorKind::DoesNotExist(after)),
            };
        let Some(source) = self.upstream.sources.get(armed.type_index) else { return };
        let Some(known) = self.types.get_mut(armed.type_index) else { return };
        match armed.subject {
            Subject::Subscription(key) => {
                let Some(subscription) = known.interest.subscriptions.get_mut(key) else { return };
                subscription.timer = 0;
                let Some(entry) = known.cache.get_mut(subscription.entry) else { return };
                // A timer that races with a resource loses (trap 23, DT-13).
                if entry.bytes.is_some() {
                    return;
                }
                entry.state = state;
                let error = WatchError::new(kind, Some(entry.name.clone()), source);
                entry.set_error(error, self.upstream.epoch);
                let first = subscription.first_watch;
                self.watches.tell_all(first, News::Changed, &mut self.outbox, &mut None);
            }
            Subject::Collection => {
                known.interest.collection_timer = 0;
                let error = WatchError::new(kind, None, source);
                known.interest.collection =
                    Collection::Missing { error, epoch: self.upstream.epoch + 1 };
                for &watch in &known.interest.wildcards {
                    self.watches.tell(watch, News::Changed, &mut self.outbox, &mut None);
                }
            }
        }
    }

    /// Closes a channel on which nothing is wanted any more (D6).
    pub(super) fn close_idle(&mut self, now: Time) {
        let Some((id, channel)) = self.upstream.current() else { return };
        let next = channel.started.after(self.config.profile.backoff.initial);
        self.upstream.end_channel(id);
        self.outbox.close(id, None);
        self.forget_what_was_leaving();
        if next > now {
            self.upstream.link = Link::BackingOff(next);
        }
        self.forget_failure_if_idle();
    }

    pub(super) fn end_everything(&mut self) {
        if core::mem::replace(&mut self.is_shut_down, true) {
            return;
        }
        self.outbox.retain_closes();
        if let Some((id, _)) = self.upstream.current() {
            self.upstream.end_channel(id);
            self.outbox.close(id, None);
        }
        self.upstream.link = Link::Idle;
        self.watches = super::Watches::default();
        for known in &mut self.types {
            known.interest = super::interest::TypeInterest::default();
            known.cache = super::cache::Cache::new(0);
        }
    }
}
