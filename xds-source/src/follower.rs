//! State machine that follows a source.

use core::time::Duration;

use rand_pcg::{Pcg32, rand_core::Rng as _};
use xds_core::Time;

use crate::{
    contract::{Change, Revision, SourceError, WatchError},
    zoo::{self, Bug},
};

/// State machine that follows a [`Source`](crate::Source): it decides whether to list, to watch or
/// to wait next.
///
/// It performs no input or output and reads no clock. A driver asks for the next [`Step`], performs
/// it, and reports the result:
///
/// ```
/// use xds_core::Time;
/// use xds_source::{Change, Follower, FollowerOptions, Revision, SourceError, Step};
///
/// let mut follower = Follower::new(FollowerOptions::default(), 1);
/// assert_eq!(follower.step(), Step::List);
/// follower.listed(Revision(7), Time::ZERO);
/// assert_eq!(follower.step(), Step::Watch { after: Revision(7) });
/// let change = Change { revision: Revision(8), objects: Vec::new() };
/// assert!(follower.changed(&change, Time::ZERO));
///
/// // The watch goes on behind the last change.
/// let lost = SourceError::Unavailable("connection reset".into());
/// follower.watch_ended(Some(&lost.into()), Time::ZERO);
/// let Step::Wait { until } = follower.step() else { panic!("no wait") };
/// follower.waited(until);
/// assert_eq!(follower.step(), Step::Watch { after: Revision(8) });
/// ```
#[derive(Clone, Debug)]
pub struct Follower {
    options: FollowerOptions,
    random: Pcg32,
    /// Revision up to which the source is known; `None` if it must be read as a whole.
    position: Option<Revision>,
    /// Greatest revision known so far. It is kept when `position` is reset.
    newest: Option<Revision>,
    /// Failures without a success in between.
    failures: u32,
    /// End of the wait after a failure.
    wait_until: Option<Time>,
    /// Time of the first failure without a success since.
    failing_since: Option<Time>,
}

/// Stream number of the random number generator. The value is arbitrary.
const RANDOM_STREAM: u64 = 0;

/// Delays after failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowerOptions {
    /// Delay after the first failure; 100 ms by default. Each further failure doubles it.
    pub initial_delay: Duration,
    /// Upper bound of the delay; 10 s by default.
    pub max_delay: Duration,
}

impl Default for FollowerOptions {
    fn default() -> Self {
        Self { initial_delay: Duration::from_millis(100), max_delay: Duration::from_secs(10) }
    }
}

/// Next step of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Read the source as a whole, and report the result with [`Follower::listed`] or
    /// [`Follower::list_failed`].
    List,
    /// Watch the source, and report each change with [`Follower::changed`] and the end with
    /// [`Follower::watch_ended`].
    Watch {
        /// Revision after which to watch.
        after: Revision,
    },
    /// Wait, and report it with [`Follower::waited`].
    Wait {
        /// End of the wait.
        until: Time,
    },
}

impl Follower {
    /// Creates the state machine for a source that has not been listed yet. `seed` determines the
    /// jitter of the delays: give each replica a different one, so that they do not all retry at
    /// the same moment.
    #[must_use]
    pub fn new(options: FollowerOptions, seed: u64) -> Self {
        Self {
            options,
            random: Pcg32::new(seed, RANDOM_STREAM),
            position: None,
            newest: None,
            failures: 0,
            wait_until: None,
            failing_since: None,
        }
    }

    /// Returns what to do next. O(1).
    #[must_use]
    pub fn step(&self) -> Step {
        match (self.wait_until, self.position) {
            (Some(until), _) => Step::Wait { until },
            (None, None) => Step::List,
            (None, Some(after)) => Step::Watch { after },
        }
    }

    /// Returns the greatest revision known so far; `None` before the first list.
    #[must_use]
    pub const fn revision(&self) -> Option<Revision> {
        self.newest
    }

    /// Returns the time of the first failure since the last success; `None` if the last call
    /// succeeded.
    #[must_use]
    pub const fn failing_since(&self) -> Option<Time> {
        self.failing_since
    }

    /// Records that the source was listed. Returns whether to use the list. A list that is older
    /// than what is already known, for example from a cluster member that lags behind, is not used
    /// and counts as a failure.
    pub fn listed(&mut self, revision: Revision, now: Time) -> bool {
        let is_older = self.newest.is_some_and(|newest| revision < newest);
        if is_older && !zoo::is(Bug::OlderListUsed) {
            self.fail(now);
            return false;
        }
        self.position = Some(revision);
        self.newest = Some(revision);
        // `failures` is not reset, so a watch that fails immediately each time still backs off.
        self.failing_since = None;
        true
    }

    /// Records that listing the source failed.
    pub fn list_failed(&mut self, _why: &SourceError, now: Time) {
        self.fail(now);
    }

    /// Records a change from the watch. Returns whether to use it: `false` for a change that is
    /// already known. Even then, the change shows that the source is reachable.
    pub fn changed(&mut self, change: &Change, _now: Time) -> bool {
        self.failing_since = None;
        if self.position.is_some_and(|position| change.revision <= position) {
            return false;
        }
        self.failures = 0;
        self.position = Some(change.revision);
        self.newest = self.newest.max(Some(change.revision));
        true
    }

    /// Records the end of a watch. `why` is `None` if the stream ended without an error.
    pub fn watch_ended(&mut self, why: Option<&WatchError>, now: Time) {
        match why {
            Some(WatchError::Compacted) => {
                self.position = None;
                self.fail(now);
            }
            // Not a failure: the objects are listed again immediately.
            Some(WatchError::Replaced) => self.position = None,
            Some(WatchError::Source(_)) | None => {
                if zoo::is(Bug::GapOnResume) {
                    self.position = self.position.map(|it| Revision(it.0 + 1));
                }
                self.fail(now);
            }
        }
    }

    /// Ends the wait if its end has been reached.
    pub fn waited(&mut self, now: Time) {
        if self.wait_until.is_some_and(|until| until <= now) {
            self.wait_until = None;
        }
    }

    /// Ends the wait after a failure early, because another call has shown that the source is
    /// reachable.
    pub fn retry(&mut self) {
        self.wait_until = None;
    }

    fn fail(&mut self, now: Time) {
        let FollowerOptions { initial_delay, max_delay } = self.options;
        let delay = initial_delay.saturating_mul(1 << self.failures.min(20)).min(max_delay);
        self.failures = self.failures.saturating_add(1);
        self.failing_since.get_or_insert(now);
        // Between half of the delay and all of it.
        let share = f64::from(self.random.next_u32()) / f64::from(u32::MAX);
        self.wait_until = Some(now.after(delay.mul_f64(0.5 + share / 2.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follower() -> Follower {
        Follower::new(FollowerOptions::default(), 7)
    }

    fn change(revision: u64) -> Change {
        Change { revision: Revision(revision), objects: Vec::new() }
    }

    fn wait(follower: &mut Follower, now: &mut Time) -> Duration {
        let Step::Wait { until } = follower.step() else { panic!("{:?}", follower.step()) };
        let waited = until.since(*now);
        *now = until;
        follower.waited(until);
        waited
    }

    #[test]
    fn watch_without_news_shows_that_the_source_can_be_reached_and_still_backs_off() {
        let (mut follower, mut now) = (follower(), Time::ZERO);
        assert!(follower.listed(Revision(5), now));
        let mut waits = Vec::new();
        for _ in 0..4 {
            follower.watch_ended(None, now);
            assert!(follower.failing_since().is_some());
            waits.push(wait(&mut follower, &mut now));
            assert!(!follower.changed(&change(5), now));
            assert_eq!(follower.failing_since(), None);
        }
        assert!(waits[3] > waits[0] * 2, "{waits:?}");
    }

    #[test]
    fn interrupted_watch_goes_on_behind_the_last_change() {
        let (mut follower, mut now) = (follower(), Time::ZERO);
        assert!(follower.listed(Revision(5), now));
        assert!(follower.changed(&change(9), now));
        follower.watch_ended(None, now);
        wait(&mut follower, &mut now);
        assert_eq!(follower.step(), Step::Watch { after: Revision(9) });
        assert!(!follower.changed(&change(9), now), "it is known");
        assert!(follower.changed(&change(10), now));
    }

    #[test]
    fn retry_ends_the_wait() {
        let mut follower = follower();
        follower.list_failed(&SourceError::Unavailable(String::new()), Time::ZERO);
        assert!(matches!(follower.step(), Step::Wait { .. }));
        follower.retry();
        assert_eq!(follower.step(), Step::List);
        assert_eq!(follower.failing_since(), Some(Time::ZERO), "nothing has been read yet");
    }

    #[test]
    fn compacted_source_is_read_as_a_whole() {
        let (mut follower, mut now) = (follower(), Time::ZERO);
        assert!(follower.listed(Revision(5), now));
        follower.watch_ended(Some(&WatchError::Compacted), now);
        wait(&mut follower, &mut now);
        assert_eq!(follower.step(), Step::List);
        assert!(follower.listed(Revision(50), now));
        assert_eq!(follower.step(), Step::Watch { after: Revision(50) });
    }

    #[test]
    fn replaced_objects_are_read_at_once() {
        let mut follower = follower();
        assert!(follower.listed(Revision(5), Time::ZERO));
        follower.watch_ended(Some(&WatchError::Replaced), Time::ZERO);
        assert_eq!(follower.step(), Step::List);
        assert_eq!(follower.failing_since(), None);
    }

    #[test]
    fn older_list_is_not_used() {
        let (mut follower, mut now) = (follower(), Time::ZERO);
        assert!(follower.listed(Revision(5), now));
        follower.watch_ended(Some(&WatchError::Compacted), now);
        wait(&mut follower, &mut now);
        assert!(!follower.listed(Revision(4), now));
        assert_eq!(follower.revision(), Some(Revision(5)));
        wait(&mut follower, &mut now);
        assert_eq!(follower.step(), Step::List);
        assert!(follower.listed(Revision(5), now));
    }

    #[test]
    fn delays_double_up_to_the_maximum_and_start_anew_after_a_change() {
        let (mut follower, mut now) = (follower(), Time::ZERO);
        let why = SourceError::Unavailable(String::new());
        for bound in [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000] {
            follower.list_failed(&why, now);
            let delay = wait(&mut follower, &mut now).as_millis();
            assert!((bound / 2..=bound).contains(&delay), "{delay} ms");
            assert_eq!(follower.failing_since(), Some(Time::ZERO));
        }
        // A watch that ends without a change keeps the delay.
        assert!(follower.listed(Revision(1), now));
        assert_eq!(follower.failing_since(), None);
        follower.watch_ended(None, now);
        assert!(wait(&mut follower, &mut now).as_millis() >= 5_000);
        assert!(follower.changed(&change(2), now));
        follower.watch_ended(None, now);
        assert!(wait(&mut follower, &mut now).as_millis() <= 100);
    }

    #[test]
    fn replicas_wait_for_different_times() {
        let delay = |seed| {
            let mut follower = Follower::new(FollowerOptions::default(), seed);
            follower.list_failed(&SourceError::Unavailable(String::new()), Time::ZERO);
            follower.step()
        };
        assert_ne!(delay(1), delay(2));
        assert_eq!(delay(3), delay(3));
    }
}
