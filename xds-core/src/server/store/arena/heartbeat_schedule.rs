//! Schedule of heartbeats for resources with a TTL in one arena.
//!
//! All clients of an arena share one schedule, which restarts for a resource when it changes. A
//! client that subscribed later receives heartbeats earlier than necessary, never later. In
//! return, clients cost nothing here, only due resources are visited, and clients share the bytes
//! of heartbeats.
// M161, M164, M169

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::{ops::Bound, time::Duration};

use crate::{
    server::store::{encode::body::ResponseBody, revision::Revision},
    service::Variant,
    slab::Slot,
    time::Time,
};

/// Position in the sequence of an arena's heartbeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HeartbeatPosition(u64);

/// Heartbeat schedule of one arena.
#[derive(Debug, Default)]
pub(crate) struct HeartbeatSchedule {
    /// Number of sessions that are sent TTLs.
    listeners: usize,
    clock: HeartbeatPosition,
    due: BTreeSet<(Time, Slot)>,
    /// Resources in the order of their newest heartbeat, if they had one since they changed.
    by_last_heartbeat: BTreeMap<HeartbeatPosition, Slot>,
    plans: BTreeMap<Slot, Plan>,
    /// Heartbeats rendered last, which other clients are likely to need as well.
    pub(crate) cached: Option<CachedHeartbeats>,
}

/// Heartbeat schedule of one resource.
#[derive(Clone, Copy, Debug)]
struct Plan {
    next: Time,
    period: Duration,
    last: Option<HeartbeatPosition>,
    /// Revision of the resource for which the schedule was made.
    revision: Revision,
}

/// Encoded heartbeats after a position, as many as fit one response.
#[derive(Clone, Debug)]
pub(crate) struct CachedHeartbeats {
    pub(crate) variant: Variant,
    pub(crate) from: HeartbeatPosition,
    pub(crate) to: HeartbeatPosition,
    pub(crate) body: ResponseBody,
}

impl HeartbeatSchedule {
    /// Registers a session that is sent TTLs.
    pub(crate) fn join(&mut self) {
        self.listeners += 1;
    }

    pub(crate) fn leave(&mut self) {
        self.listeners -= 1;
    }

    /// Schedules a resource every `period` from now on, or never. Does nothing if it is scheduled
    /// for the same revision already.
    pub(crate) fn plan(
        &mut self,
        slot: Slot,
        revision: Revision,
        period: Option<Duration>,
        now: Time,
    ) {
        if period.is_some() && self.plans.get(&slot).is_some_and(|plan| plan.revision == revision) {
            return;
        }
        if let Some(plan) = self.plans.remove(&slot) {
            self.due.remove(&(plan.next, slot));
            if let Some(last) = plan.last {
                self.by_last_heartbeat.remove(&last);
            }
            self.cached = None;
        }
        if let Some(period) = period {
            let next = now.after(period);
            self.due.insert((next, slot));
            self.plans.insert(slot, Plan { next, period, last: None, revision });
        }
    }

    /// Returns the time of the next heartbeat, if there is any session to receive it. O(log n).
    pub(crate) fn next(&self) -> Option<Time> {
        let &(at, _) = self.due.first().filter(|_| self.listeners > 0)?;
        Some(at)
    }

    /// Reschedules heartbeats that became due without a session to receive them.
    pub(crate) fn skip(&mut self, now: Time) {
        while let Some(slot) = self.take_due(now) {
            self.put_off(slot, now);
        }
    }

    /// Returns the resources whose heartbeats are due, and reschedules them one period later.
    pub(crate) fn take_due_heartbeats(&mut self, now: Time) -> Vec<Slot> {
        let mut due = Vec::new();
        while let Some(slot) = self.take_due(now) {
            self.put_off(slot, now);
            self.clock = HeartbeatPosition(self.clock.0 + 1);
            let Some(plan) = self.plans.get_mut(&slot) else { continue };
            if let Some(before) = plan.last.replace(self.clock) {
                self.by_last_heartbeat.remove(&before);
            }
            self.by_last_heartbeat.insert(self.clock, slot);
            due.push(slot);
        }
        if !due.is_empty() {
            self.cached = None;
        }
        due
    }

    fn take_due(&mut self, now: Time) -> Option<Slot> {
        self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.pop_first().map(|(_, slot)| slot)
    }

    fn put_off(&mut self, slot: Slot, now: Time) {
        if let Some(plan) = self.plans.get_mut(&slot) {
            plan.next = now.after(plan.period);
            // The last representable time has no later one.
            if plan.next > now {
                self.due.insert((plan.next, slot));
            }
        }
    }

    /// Returns the position of the newest heartbeat.
    pub(crate) fn clock(&self) -> HeartbeatPosition {
        self.clock
    }

    /// Returns the resources with their newest heartbeat after `position`, with its position,
    /// oldest first.
    pub(crate) fn after(
        &self,
        position: HeartbeatPosition,
    ) -> impl Iterator<Item = (HeartbeatPosition, Slot)> {
        let range = (Bound::Excluded(position), Bound::Unbounded);
        self.by_last_heartbeat.range(range).map(|(&position, &slot)| (position, slot))
    }

    /// Returns the position of a resource's newest heartbeat, if it had one since it changed.
    pub(crate) fn last(&self, slot: Slot) -> Option<HeartbeatPosition> {
        self.plans.get(&slot)?.last
    }

    /// Returns the interval between the heartbeats of a resource.
    pub(crate) fn period(&self, slot: Slot) -> Option<Duration> {
        self.plans.get(&slot).map(|plan| plan.period)
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use crate::server::store::arena::heartbeat_schedule::*;
    use crate::slab::Slab;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Time {
        Time::ZERO.after(seconds as u32 * SECOND)
    }

    // M169: only due resources are visited. M164: a change restarts the schedule.
    #[test]
    fn only_due_resources_are_visited() {
        let mut slab = Slab::default();
        let slots: Vec<_> = (0..3).filter_map(|_| slab.push_back(())).map(|it| it.slot()).collect();
        let [one, two, three] = slots[..] else { panic!("three") };
        let mut heartbeats = HeartbeatSchedule::default();
        let revision = Revision::START.next();
        for (slot, period) in [(one, 5), (two, 9), (three, 5)] {
            heartbeats.plan(slot, revision, Some(period * SECOND), at(0));
        }
        assert_eq!(heartbeats.next(), None, "nobody listens");
        heartbeats.join();
        assert_eq!(heartbeats.next(), Some(at(5)));
        heartbeats.plan(three, revision, Some(5 * SECOND), at(3));
        heartbeats.plan(one, revision.next(), Some(5 * SECOND), at(3));
        assert_eq!(heartbeats.take_due_heartbeats(at(4)), vec![]);
        assert_eq!(
            heartbeats.take_due_heartbeats(at(5)),
            vec![three],
            "the same change is no change"
        );
        let position = heartbeats.clock();
        assert_eq!(heartbeats.take_due_heartbeats(at(8)), vec![one]);
        assert_eq!(heartbeats.after(position).map(|(_, slot)| slot).collect::<Vec<_>>(), vec![one]);
        assert_eq!(heartbeats.take_due_heartbeats(at(10)), vec![two, three], "each a period later");
        let renewed = |heartbeats: &HeartbeatSchedule| {
            heartbeats.after(HeartbeatPosition::default()).map(|it| it.1).collect::<Vec<_>>()
        };
        assert_eq!(renewed(&heartbeats), vec![one, two, three]);
        heartbeats.plan(one, revision, None, at(10));
        heartbeats.plan(two, revision.next(), Some(SECOND), at(10));
        assert_eq!(renewed(&heartbeats), vec![three], "who is sent the change needs no heartbeat");
        heartbeats.skip(at(60));
        assert_eq!(heartbeats.next(), Some(at(61)));
        heartbeats.leave();
        assert_eq!(heartbeats.next(), None);
    }
}
