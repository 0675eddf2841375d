//! Grace period for names that do not exist when an incremental client subscribes to them.
// M127

use crate::{
    server::{
        config::AbsenceDelay,
        session::{FirstResponse, Session, context::SessionContext},
    },
    slab::{Key, Slot},
    time::Time,
};

/// Number of waiting names allowed in addition to twice the held names before the list is purged
/// of those that no longer wait.
const SPARE: usize = 64;

impl Session {
    /// Returns the time at which the first grace period ends or the held first response is
    /// released, whichever is earlier.
    pub(crate) fn next_grace_period_end(&self) -> Option<Time> {
        let extras = self.extras.as_deref()?;
        extras
            .grace_periods
            .front()
            .map(|&(until, _)| until)
            .into_iter()
            .chain(extras.first_response_hold)
            .min()
    }

    /// Whether the client waits for its first response and no named resource is due.
    pub(crate) fn awaits_first_response(&self) -> bool {
        self.first_response == FirstResponse::NotSent && self.due.is_empty()
    }

    fn take_expired_hold(&mut self, now: Time) -> bool {
        let extras = self.extras.as_deref_mut();
        let hold = extras.and_then(|it| it.first_response_hold.take_if(|until| *until <= now));
        self.drop_empty_extras();
        hold.is_some()
    }

    fn take_expired_grace_period(&mut self, now: Time) -> Option<Key> {
        let grace_periods = &mut self.extras.as_deref_mut()?.grace_periods;
        grace_periods.front().filter(|(until, _)| *until <= now)?;
        let over = grace_periods.pop_front();
        self.drop_empty_extras();
        over.map(|(_, subscription)| subscription)
    }
}

impl SessionContext<'_> {
    /// Starts the grace period of a name that does not exist, if one is configured. Returns
    /// whether the client is not yet told that the name does not exist.
    pub(crate) fn start_grace_period(&mut self, slot: Slot, now: Time) -> bool {
        let policy = self.arena.config.absence_delay;
        if policy == AbsenceDelay::Immediate {
            return false;
        }
        let Some(subscription) =
            self.subscriptions.at(slot).filter(|subscription| subscription.due.is_none())
        else {
            return false;
        };
        let (resource, is_running) = (subscription.resource, subscription.is_in_grace_period);
        if self.arena.payload(resource).is_some() || self.error_of(resource).is_some() {
            return false;
        }
        let AbsenceDelay::After(grace) = policy else { return true };
        let Some(key) = self.subscriptions.key(slot) else { return false };
        if let Some(subscription) = self.subscriptions.at_mut(slot).filter(|_| !is_running) {
            subscription.is_in_grace_period = true;
            let limit = self.session.tracked_names().saturating_mul(2).saturating_add(SPARE);
            let subscriptions = &*self.subscriptions;
            let grace_periods = &mut self.session.extras_mut().grace_periods;
            grace_periods.push_back((now.after(grace), key));
            if grace_periods.len() > limit {
                grace_periods.retain(|&(_, key)| subscriptions.is_in_grace_period(key));
            }
        }
        true
    }

    /// Makes names due whose grace period is over and which still do not exist.
    pub(crate) fn end_grace_periods(&mut self, now: Time) {
        while let Some(key) = self.session.take_expired_grace_period(now) {
            if self.subscriptions.is_in_grace_period(key) {
                self.make_due(key.slot(), self.session.subscribe_cause());
            }
        }
        if self.session.take_expired_hold(now) {
            self.end_first_response_hold();
        }
    }
}
