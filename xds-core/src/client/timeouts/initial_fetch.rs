//! Does-not-exist timers that start with the subscription: Envoy's `initial_fetch_timeout`.
//!
//! Used with [`TimerStart::Subscription`].
//!
//! These timers belong to a server, not to a channel. They run without a connection and while
//! reading is held back. Like the timers of channels, they end when the server mentions the name.
// D10

use crate::{
    client::{
        Client,
        config::profile::TimerStart,
        event::status::ResourceState,
        subscription::{Collection, authority::DEFAULT, does_not_exist_timers::TimerSubject},
    },
    slab::Slot,
    time::{Deadline, Time, Timer},
};

impl Client {
    /// Starts the timer of a name, unless its state is known or a timer is running.
    pub(crate) fn start_fetch_timer(&mut self, type_index: usize, subscription: Slot, now: Time) {
        let Some(known) = self.types.get(type_index) else { return };
        let Some(key) = known.interest.subscriptions.key(subscription) else { return };
        let Some(subscription) = known.interest.subscriptions.get(key) else { return };
        let is_unknown = known
            .cache
            .get(subscription.entry)
            .is_some_and(|entry| entry.state == ResourceState::Requested);
        if !is_unknown || subscription.timer != 0 {
            return;
        }
        let token = self.arm_fetch_timer(
            type_index,
            subscription.authority,
            TimerSubject::Subscription(key),
            now,
        );
        if let Some(known) = self.types.get_mut(type_index)
            && let Some(subscription) = known.interest.subscriptions.get_mut(key)
        {
            subscription.timer = token;
        }
    }

    /// Starts the timer of a wildcard, unless its state is known or a timer is running.
    pub(crate) fn start_wildcard_fetch_timer(&mut self, type_index: usize, now: Time) {
        let Some(known) = self.types.get(type_index) else { return };
        let is_unknown = matches!(known.interest.collection, Collection::Requested);
        if !is_unknown || known.interest.collection_timer != 0 {
            return;
        }
        let token = self.arm_fetch_timer(type_index, DEFAULT, TimerSubject::Collection, now);
        if let Some(known) = self.types.get_mut(type_index) {
            known.interest.collection_timer = token;
        }
    }

    /// Starts a timer at the authority's active server and returns its token; zero if none is
    /// needed.
    fn arm_fetch_timer(
        &mut self,
        type_index: usize,
        authority: usize,
        subject: TimerSubject,
        now: Time,
    ) -> u64 {
        if self.config.profile.timer_start != TimerStart::Subscription {
            return 0;
        }
        let Some(state) = self.upstreams.authorities.get(authority) else { return 0 };
        let Some(upstream) = self.upstreams.servers.get_mut(state.active(type_index)) else {
            return 0;
        };
        let after = self.config.does_not_exist_timeout(authority, &upstream.server, type_index);
        let Some(after) = after else { return 0 };
        self.upstreams.last_timer += 1;
        upstream.fetch_timers.arm(type_index, subject, after, now, self.upstreams.last_timer)
    }

    /// Returns the time at which the next of these timers fires.
    pub(crate) fn next_fetch_timer(&self) -> Option<Deadline> {
        let next =
            self.upstreams.servers.iter().filter_map(|server| server.fetch_timers.next()).min();
        next.map(|at| Deadline { at, why: Timer::DoesNotExist })
    }

    /// Handles the timers that are due: their resources do not exist.
    pub(crate) fn expire_fetch_timers(&mut self, now: Time) {
        for upstream in 0..self.upstreams.servers.len() {
            while let Some(server) = self.upstreams.servers.get_mut(upstream)
                && server.fetch_timers.next().is_some_and(|at| at <= now)
                && let Some(armed) = server.fetch_timers.pop()
            {
                self.expire_timer(upstream, armed);
            }
        }
        self.discard_stopped_fetch_timers();
    }

    /// Removes invalid timers from the front of the queues, so that the next deadline is that of a
    /// valid one.
    // IC38
    pub(crate) fn discard_stopped_fetch_timers(&mut self) {
        for upstream in 0..self.upstreams.servers.len() {
            while let Some(server) = self.upstreams.servers.get(upstream)
                && let Some(armed) = server.fetch_timers.front()
                && !self.is_running(armed)
                && let Some(server) = self.upstreams.servers.get_mut(upstream)
            {
                let _ = server.fetch_timers.pop();
            }
        }
    }
}
