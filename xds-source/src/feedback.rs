//! State machine that schedules the writes of rejections by clients, of refusals by guards and of
//! errors in objects to a source.

use core::time::Duration;
use std::collections::BTreeMap;

use xds_core::guards::ChangeId;

use crate::contract::ObjectId;

/// Rejection of the resources of an object, by clients or by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejection {
    /// Object with the resources.
    pub object: ObjectId,
    /// Party that rejects them.
    pub by: RejectedBy,
    /// Reason that a client has stated, the violated rules, or the errors in the object.
    pub message: String,
}

/// Party that rejects the resources of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejectedBy {
    /// Clients that were sent the resources.
    Clients {
        /// Number of clients.
        clients: u64,
        /// Number of responses that these clients have rejected.
        count: u64,
    },
    /// Guards of the server, so that the change of the object is not served.
    Guards(ChangeId),
    /// The server, because the newest content of the object is invalid.
    Validity,
}

impl Rejection {
    /// Creates a rejection of the resources of an object.
    #[must_use]
    pub fn new(object: impl Into<ObjectId>, by: RejectedBy, message: impl Into<String>) -> Self {
        Self { object: object.into(), by, message: message.into() }
    }

    /// Adds another rejection of the same object. Invalid content replaces a refusal by guards, and
    /// either of them replaces rejections by clients, which are about an older state.
    fn add(&mut self, other: Self) {
        match (&mut self.by, other.by) {
            (RejectedBy::Validity, _) => {}
            (_, RejectedBy::Validity) => *self = other,
            (RejectedBy::Guards(_), _) => {}
            (_, RejectedBy::Guards(_)) => *self = other,
            (
                RejectedBy::Clients { clients, count },
                RejectedBy::Clients { clients: others, count: more },
            ) => {
                *clients = clients.saturating_add(others);
                *count = count.saturating_add(more);
                // Any of the messages will do, but the choice must not depend on the order.
                if other.message < self.message {
                    self.message = other.message;
                }
            }
        }
    }

    /// Returns the reason, cut to a number of bytes.
    #[must_use]
    pub fn message_within(&self, bytes: usize) -> &str {
        let mut end = bytes.min(self.message.len());
        while !self.message.is_char_boundary(end) {
            end -= 1;
        }
        self.message.get(..end).unwrap_or_default()
    }
}

/// Next write of a [`FeedbackPlan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedbackWrite {
    /// Report a rejection.
    Report(Rejection),
    /// The object is valid, and its resources are neither rejected nor refused any more.
    Clear(ObjectId),
}

/// State machine that limits the rate of writes: at most one write of an object in 30 seconds, and
/// at most one write in 200 milliseconds. In between, the newest state replaces older ones.
/// Unchanged rejections can be [written again](Self::with_renewal).
///
/// It performs no I/O and reads no clock. The caller passes times since an arbitrary fixed moment,
/// such as the start of the process.
#[derive(Debug, Default)]
pub struct FeedbackPlan {
    objects: BTreeMap<ObjectId, ObjectState>,
    /// Time of the next write of any object.
    due: Duration,
    /// Object that was written last. The next write goes to an object after it, so that all have
    /// their turn.
    last: Option<ObjectId>,
    /// Time after which an unchanged rejection is reported again; `None` means never.
    renewal: Option<Duration>,
}

#[derive(Debug, Default)]
struct ObjectState {
    /// Newest rejection; `None` if the resources are accepted.
    current: Option<Rejection>,
    /// Rejection that was written last, and not cleared.
    written: Option<Rejection>,
    /// Time of the next write.
    due: Duration,
    /// Time of the last write.
    written_at: Duration,
}

/// Shortest time between two writes of an object.
const OBJECT_INTERVAL: Duration = Duration::from_secs(30);
/// Shortest time between two writes.
const INTERVAL: Duration = Duration::from_millis(200);

impl ObjectState {
    fn is_due(&self, now: Duration, renewal: Option<Duration>) -> bool {
        let is_renewed = renewal.is_some_and(|it| self.written_at + it <= now);
        let has_changed = self.current != self.written || self.current.is_some() && is_renewed;
        has_changed && self.due <= now
    }
}

impl FeedbackPlan {
    /// Creates a plan that reports each unchanged rejection again after `interval`.
    #[must_use]
    pub fn with_renewal(interval: Duration) -> Self {
        Self { renewal: Some(interval), ..Self::default() }
    }

    /// Replaces the set of current rejections. Several rejections of one object are merged into
    /// one.
    pub fn update(&mut self, rejections: impl IntoIterator<Item = Rejection>) {
        self.objects.values_mut().for_each(|state| state.current = None);
        for rejection in rejections {
            let current = &mut self.objects.entry(rejection.object.clone()).or_default().current;
            match current {
                None => *current = Some(rejection),
                Some(known) => known.add(rejection),
            }
        }
    }

    /// Returns the next write that is due, or `None`. The write counts as performed: report a
    /// failure with [`failed`](Self::failed).
    #[must_use]
    pub fn next(&mut self, now: Duration) -> Option<FeedbackWrite> {
        // Forgets objects without a rejection once their last write no longer delays another one.
        self.objects.retain(|_, state| {
            state.current.is_some() || state.written.is_some() || state.due > now
        });
        if now < self.due {
            return None;
        }
        let behind = |id: &ObjectId| self.last.as_ref().is_none_or(|last| id > last);
        let mut due = self.objects.iter().filter(|(_, state)| state.is_due(now, self.renewal));
        let first = due.clone().next().map(|(id, _)| id.clone());
        let id = due.find(|(id, _)| behind(id)).map(|(id, _)| id.clone()).or(first)?;
        let state = self.objects.get_mut(&id)?;
        (state.written_at, state.due) = (now, now + OBJECT_INTERVAL);
        state.written.clone_from(&state.current);
        self.due = now + INTERVAL;
        self.last = Some(id.clone());
        Some(match &state.written {
            Some(rejection) => FeedbackWrite::Report(rejection.clone()),
            None => FeedbackWrite::Clear(id),
        })
    }

    /// Notes that a write has failed. It is due again after 30 seconds.
    pub fn failed(&mut self, write: &FeedbackWrite) {
        match write {
            FeedbackWrite::Report(rejection) => {
                if let Some(state) = self.objects.get_mut(&rejection.object) {
                    state.written = None;
                }
            }
            FeedbackWrite::Clear(id) => {
                let by = RejectedBy::Clients { clients: 0, count: 0 };
                let none = Rejection::new(id.clone(), by, "");
                if let Some(state) = self.objects.get_mut(id) {
                    state.written = Some(none);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(object: &str, clients: u64, message: &str) -> Rejection {
        let by = RejectedBy::Clients { clients, count: clients };
        Rejection::new(object, by, message)
    }

    /// Returns all writes that are due, in short form.
    fn due(plan: &mut FeedbackPlan, now: Duration) -> String {
        match plan.next(now) {
            None => String::new(),
            Some(FeedbackWrite::Report(it)) => match it.by {
                RejectedBy::Clients { clients, .. } => {
                    format!("{} {clients} {}", it.object, it.message)
                }
                RejectedBy::Guards(change) => format!("{} {change} {}", it.object, it.message),
                RejectedBy::Validity => format!("{} invalid {}", it.object, it.message),
            },
            Some(FeedbackWrite::Clear(id)) => format!("-{id}"),
        }
    }

    #[test]
    fn reason_is_cut_between_characters() {
        let rejection = rejection("a", 1, "añb");
        assert_eq!(rejection.message_within(2), "a");
        assert_eq!(rejection.message_within(3), "añ");
        assert_eq!(rejection.message_within(9), "añb");
    }

    #[test]
    fn rejections_of_an_object_are_one_report() {
        let mut plan = FeedbackPlan::default();
        plan.update([rejection("a", 1, "y"), rejection("a", 2, "x")]);
        assert_eq!(due(&mut plan, Duration::ZERO), "a 3 x");
        assert_eq!(due(&mut plan, Duration::from_secs(99)), "", "nothing has changed");
    }

    #[test]
    fn refusal_by_guards_replaces_rejections_by_clients() {
        let mut plan = FeedbackPlan::default();
        let change: ChangeId = "0123456789ab".parse().unwrap();
        let by = RejectedBy::Guards(change);
        let refusal = Rejection { by, ..rejection("a", 0, "too few") };
        plan.update([rejection("a", 1, "m"), refusal.clone(), rejection("a", 2, "n")]);
        assert_eq!(due(&mut plan, Duration::ZERO), "a 0123456789ab too few");
        plan.update([rejection("a", 1, "m")]);
        assert_eq!(due(&mut plan, Duration::from_secs(30)), "a 1 m");
        plan.update([refusal]);
        assert_eq!(due(&mut plan, Duration::from_secs(60)), "a 0123456789ab too few");
        plan.update([]);
        assert_eq!(due(&mut plan, Duration::from_secs(90)), "-a");
    }

    #[test]
    fn errors_in_an_object_replace_all_other_rejections_of_it() {
        let mut plan = FeedbackPlan::default();
        let invalid = Rejection::new("a", RejectedBy::Validity, "unknown field");
        let by = RejectedBy::Guards("0123456789ab".parse().unwrap());
        let refusal = Rejection { by, ..rejection("a", 0, "too few") };
        plan.update([rejection("a", 1, "m"), refusal.clone(), invalid.clone()]);
        assert_eq!(due(&mut plan, Duration::ZERO), "a invalid unknown field");
        plan.update([invalid, refusal.clone(), rejection("a", 1, "m")]);
        assert_eq!(due(&mut plan, Duration::from_secs(30)), "", "nothing has changed");
        plan.update([refusal]);
        assert_eq!(due(&mut plan, Duration::from_secs(60)), "a 0123456789ab too few");
    }

    #[test]
    fn changes_of_an_object_are_written_once_in_an_interval() {
        let mut plan = FeedbackPlan::default();
        let mut writes = Vec::new();
        for second in 0..90 {
            plan.update([rejection("a", second + 1, "m")]);
            let write = due(&mut plan, Duration::from_secs(second));
            if !write.is_empty() {
                writes.push(write);
            }
        }
        assert_eq!(writes, ["a 1 m", "a 31 m", "a 61 m"]);
    }

    #[test]
    fn accepted_resources_are_cleared_once() {
        let mut plan = FeedbackPlan::default();
        plan.update([rejection("a", 1, "m")]);
        assert_eq!(due(&mut plan, Duration::ZERO), "a 1 m");
        plan.update([]);
        assert_eq!(due(&mut plan, Duration::from_secs(29)), "");
        assert_eq!(due(&mut plan, Duration::from_secs(30)), "-a");
        assert_eq!(due(&mut plan, Duration::from_secs(60)), "");
        assert_eq!(plan.objects.len(), 0);
    }

    #[test]
    fn unchanged_rejections_are_renewed() {
        let mut plan = FeedbackPlan::with_renewal(Duration::from_secs(300));
        plan.update([rejection("a", 1, "m")]);
        assert_eq!(due(&mut plan, Duration::ZERO), "a 1 m");
        assert_eq!(due(&mut plan, Duration::from_secs(299)), "");
        assert_eq!(due(&mut plan, Duration::from_secs(300)), "a 1 m");
        plan.update([rejection("a", 2, "m")]);
        assert_eq!(due(&mut plan, Duration::from_secs(400)), "a 2 m");
        assert_eq!(due(&mut plan, Duration::from_secs(699)), "");
        assert_eq!(due(&mut plan, Duration::from_secs(700)), "a 2 m");
        plan.update([]);
        assert_eq!(due(&mut plan, Duration::from_secs(730)), "-a");
        assert_eq!(due(&mut plan, Duration::from_secs(9_999)), "", "a cleared object is not");
    }

    #[test]
    fn rejection_that_ends_before_it_is_written_is_not_written() {
        let mut plan = FeedbackPlan::default();
        plan.update([rejection("a", 1, "m")]);
        plan.update([]);
        assert_eq!(due(&mut plan, Duration::ZERO), "");
        assert_eq!(plan.objects.len(), 0);
    }

    #[test]
    fn many_objects_are_written_one_after_the_other_and_none_starves() {
        let mut plan = FeedbackPlan::default();
        let ids: Vec<_> = (0..300).map(|number| format!("o{number:03}")).collect();
        let mut written = BTreeMap::<String, usize>::new();
        let (mut now, mut previous) = (Duration::ZERO, None);
        for round in 0..3_000 {
            plan.update(ids.iter().map(|id| rejection(id, round + 1, "m")));
            if let Some(FeedbackWrite::Report(it)) = plan.next(now) {
                *written.entry(it.object.to_string()).or_default() += 1;
                assert!(previous.is_none_or(|previous| now - previous >= INTERVAL));
                previous = Some(now);
            }
            now += Duration::from_millis(50);
        }
        // 150 s with 5 writes a second, for 300 objects.
        assert_eq!(written.len(), 300);
        assert!(written.values().all(|it| (2..=3).contains(it)), "{written:?}");
    }

    #[test]
    fn failed_write_is_repeated_later() {
        let mut plan = FeedbackPlan::default();
        plan.update([rejection("a", 1, "m")]);
        let write = plan.next(Duration::ZERO).unwrap();
        plan.failed(&write);
        assert_eq!(due(&mut plan, Duration::from_secs(29)), "");
        assert_eq!(due(&mut plan, Duration::from_secs(30)), "a 1 m");
        plan.update([]);
        let write = plan.next(Duration::from_secs(60)).unwrap();
        plan.failed(&write);
        assert_eq!(due(&mut plan, Duration::from_secs(90)), "-a");
    }
}
