//! Watch on a file or a directory: reads after changes, once they have settled.

use core::task::{Context, Poll};
use std::{
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{Arc, Weak},
    thread,
    time::Instant,
};

use xds_core::client::FilePolicy;

use crate::{
    settling::{EMPTY_PAUSE, EMPTY_READS, Noticed, POLL_INTERVAL, Settled, Settling, after},
    signals::Signals,
    watcher::Watcher,
};

/// Location to watch. It need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file, and the symbolic links on its path.
    File(PathBuf),
    /// The files in a directory, and the symbolic links on its path and in it.
    Directory(PathBuf),
}

/// Reason for a call of the callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// First call, or a call requested by [`Watch::trigger`].
    Requested,
    /// A change was detected.
    Changed,
    /// No change was detected for [`poll_interval`](FilePolicy::poll_interval).
    Periodic,
}

/// Watch on a file or a directory, which ends when it is dropped.
#[must_use = "the watch ends when it is dropped"]
pub struct Watch(Arc<Signals>);

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Watch {
    /// Starts a thread that calls `callback` once the place is watched, and then after every
    /// change.
    ///
    /// A change during a call leads to another call. The callback may block. It is not called again
    /// after the watch is dropped. If it panics, the watch continues. Times of the policy may be as
    /// long as [`Duration::MAX`](core::time::Duration::MAX).
    ///
    /// # Errors
    ///
    /// Returns an error if the thread cannot be started.
    pub fn start(
        place: Place,
        policy: &FilePolicy,
        callback: impl FnMut(Cause) + Send + 'static,
    ) -> io::Result<Self> {
        let (watch, task) = Self::with_task(place, policy, callback);
        task.start_thread()?;
        Ok(watch)
    }

    /// Creates a watch and the task that calls `callback`, to be run by the caller.
    pub fn with_task(
        place: Place,
        policy: &FilePolicy,
        mut callback: impl FnMut(Cause) + Send + 'static,
    ) -> (Self, WatchTask) {
        Self::with_reader(place, policy, move |cause, _| {
            callback(cause);
            ReadOutcome::Done
        })
    }

    /// Creates a watch whose reader may ask to be called again.
    pub(crate) fn with_reader(
        place: Place,
        policy: &FilePolicy,
        reader: impl FnMut(Cause, Attempt) -> ReadOutcome + Send + 'static,
    ) -> (Self, WatchTask) {
        let signals = Arc::<Signals>::default();
        let task = WatchTask {
            source: EventSource::System(place),
            watcher: None,
            signals: Arc::clone(&signals),
            policy: policy.clone(),
            reader: Box::new(reader),
            noticed: Noticed::default(),
            state: WatchState::Reading(Cause::Requested, 0),
        };
        (Self(signals), task)
    }

    /// Requests a call of the callback.
    pub fn trigger(&self) {
        self.0.trigger();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Reports changes to a watch, in place of the operating system.
#[derive(Clone, Debug)]
pub struct ChangeReporter(Weak<Signals>);

impl ChangeReporter {
    /// Reports that something in the place has changed. Returns `false` if the watch has ended.
    pub fn report(&self) -> bool {
        self.0.upgrade().inspect(|signals| signals.changed()).is_some()
    }
}

/// Position of a read among those of one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// First read with a new watcher. A program may have started to save the file before that.
    First,
    /// An empty file is read again.
    Repeatable,
    Last,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    Done,
    /// The file is empty: a program may just be saving it.
    Empty,
    /// The file has just been changed, and was not read.
    Unsettled,
}

/// Source of the events of a place.
#[derive(Debug)]
enum EventSource {
    System(Place),
    /// No events: the place is read every 2 seconds, and when a [`ChangeReporter`] reports a change.
    Nothing(Place),
}

enum WatchState {
    /// A read is due. The number counts the preceding reads that found an empty file.
    Reading(Cause, u32),
    /// Pause before an empty file is read again.
    Pausing(Cause, u32, Instant),
    /// Waits for a change, or for the periodic check.
    Waiting(Instant),
    Settling(Settling),
}

/// Task of a [`Watch`], which calls its callback.
///
/// [`start_thread`](Self::start_thread) runs it on a thread. To run it with another clock, such as a
/// virtual one, call [`step`](Self::step) whenever [`poll_signal`](Self::poll_signal) is ready and
/// at the returned times.
#[must_use = "nothing is read before it runs"]
pub struct WatchTask {
    source: EventSource,
    /// Created by the first step, because it may block.
    watcher: Option<Watcher>,
    signals: Arc<Signals>,
    policy: FilePolicy,
    reader: Box<dyn FnMut(Cause, Attempt) -> ReadOutcome + Send>,
    noticed: Noticed,
    state: WatchState,
}

impl fmt::Debug for WatchTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchTask").field("source", &self.source).finish_non_exhaustive()
    }
}

impl WatchTask {
    /// Ignores events of the operating system. The place is read every 2 seconds, and when a
    /// [reporter](Self::reporter) reports a change.
    pub fn without_system_events(mut self) -> Self {
        if let EventSource::System(place) = self.source {
            self.source = EventSource::Nothing(place);
        }
        self
    }

    /// Returns a reporter of changes.
    #[must_use]
    pub fn reporter(&self) -> ChangeReporter {
        ChangeReporter(Arc::downgrade(&self.signals))
    }

    /// Runs the task on a thread of its own until the watch is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread cannot be started.
    pub fn start_thread(mut self) -> io::Result<()> {
        let run = move || {
            while let Some(due) = self.step(&Instant::now) {
                self.signals.wait(due.saturating_duration_since(Instant::now()));
            }
        };
        thread::Builder::new().name("xds-fs".into()).spawn(run).map(drop)
    }

    /// Waits for a signal to the task.
    pub fn poll_signal(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.signals.poll(cx)
    }

    /// Does what is due at the time `now()`, such as calling the callback. May block. Returns the
    /// time at which to call `step` again, or `None` if the watch was dropped.
    pub fn step(&mut self, now: &dyn Fn() -> Instant) -> Option<Instant> {
        loop {
            self.noticed.add(self.signals.take());
            if self.signals.is_stopped() {
                return None;
            }
            match &mut self.state {
                WatchState::Reading(cause, empty_reads) => {
                    let (cause, empty_reads) = (*cause, *empty_reads);
                    self.state = self.read(cause, empty_reads, now)?;
                }
                WatchState::Pausing(cause, empty_reads, due) => {
                    if now() < *due {
                        return Some(*due);
                    }
                    self.state = WatchState::Reading(*cause, *empty_reads);
                }
                WatchState::Waiting(due) => {
                    if self.noticed.is_any() {
                        let settling = Settling::start(self.noticed, &self.policy, now());
                        self.state = WatchState::Settling(settling);
                    } else if now() < *due {
                        return Some(*due);
                    } else {
                        self.state = WatchState::Reading(Cause::Periodic, 0);
                    }
                }
                WatchState::Settling(settling) => {
                    let noticed = self.noticed.take();
                    let watcher = self.watcher.as_ref();
                    let is_being_written = watcher.is_some_and(Watcher::is_being_written);
                    match settling.step(noticed, is_being_written, &self.policy, now()) {
                        Settled::Wait(due) => return Some(due),
                        Settled::Done(cause) => {
                            // A writer that has not closed the file by now may never do so.
                            watcher.inspect(|watcher| watcher.forget_writers());
                            self.state = WatchState::Reading(cause, 0);
                        }
                    }
                }
            }
        }
    }

    /// Calls the callback. Returns `None` if the watch was dropped.
    fn read(
        &mut self,
        cause: Cause,
        empty_reads: u32,
        now: &dyn Fn() -> Instant,
    ) -> Option<WatchState> {
        let is_first = self.watcher.is_none() && matches!(self.source, EventSource::System(_));
        let watcher = self.watcher.get_or_insert_with(|| match &self.source {
            EventSource::Nothing(place) => Watcher::without_events(place.clone()),
            EventSource::System(place) => {
                let signals = Arc::clone(&self.signals);
                Watcher::new(place.clone(), move || signals.changed())
            }
        });
        if cause == Cause::Periodic {
            watcher.mark_stale();
        }
        // Watches are renewed before the callback, so that no change in between is missed.
        watcher.renew();
        if self.signals.is_stopped() {
            return None;
        }
        let attempt = match empty_reads < EMPTY_READS {
            true if is_first => Attempt::First,
            true => Attempt::Repeatable,
            false => Attempt::Last,
        };
        // The next read may not panic. If the task ended here instead, changes would go unnoticed.
        let read = catch_unwind(AssertUnwindSafe(|| (self.reader)(cause, attempt)));
        match read {
            Ok(ReadOutcome::Empty) => {
                return Some(WatchState::Pausing(cause, empty_reads + 1, now() + EMPTY_PAUSE));
            }
            Ok(ReadOutcome::Unsettled) => {
                let requested = Noticed { is_changed: false, is_triggered: true };
                let settling = Settling::start(requested, &self.policy, now());
                return Some(WatchState::Settling(settling));
            }
            Ok(ReadOutcome::Done) | Err(_) => {}
        }
        let interval = self.policy.poll_interval;
        let longest = if watcher.misses_changes() { interval.min(POLL_INTERVAL) } else { interval };
        Some(WatchState::Waiting(after(now(), longest)))
    }
}

#[cfg(test)]
mod tests {
    use core::{cell::Cell, time::Duration};
    use std::sync::mpsc;

    use xds_core::Debounce;

    use super::*;

    fn policy(quiet: u64, max: u64) -> FilePolicy {
        let (quiet, max) = (Duration::from_millis(quiet), Duration::from_millis(max));
        FilePolicy::default().with_debounce(Debounce::new(quiet, max))
    }

    fn directory() -> Place {
        Place::Directory(std::env::temp_dir())
    }

    #[test]
    fn watch_thread_ends_when_the_watch_is_dropped() {
        let (sender, looks) = mpsc::channel();
        let watch = Watch::start(directory(), &FilePolicy::default(), move |cause| {
            let _ = sender.send(cause);
        });
        let watch = watch.unwrap();
        assert_eq!(looks.recv(), Ok(Cause::Requested));
        drop(watch);
        // The sender is dropped with the thread.
        while looks.recv_timeout(Duration::from_secs(30)).is_ok() {}
        assert_eq!(looks.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    }

    #[test]
    fn watch_survives_a_panic_of_its_callback() {
        let (sender, looks) = mpsc::channel();
        let watch = Watch::start(directory(), &policy(1, 1), move |cause| {
            let _ = sender.send(cause);
            panic!("a bug in what is done with it");
        });
        let watch = watch.unwrap();
        for _ in 0..2 {
            looks.recv_timeout(Duration::from_secs(30)).unwrap();
            watch.trigger();
        }
    }

    /// Task with a clock that the test sets, and the causes of its reads.
    struct Rig {
        watch: Option<Watch>,
        task: WatchTask,
        reads: mpsc::Receiver<(Cause, Attempt)>,
        now: Cell<Instant>,
    }

    impl Rig {
        fn new(mut outcome: impl FnMut(Attempt) -> ReadOutcome + Send + 'static) -> Self {
            let (sender, reads) = mpsc::channel();
            let policy = policy(20, 100);
            let (watch, task) = Watch::with_reader(directory(), &policy, move |cause, attempt| {
                sender.send((cause, attempt)).unwrap();
                outcome(attempt)
            });
            let task = task.without_system_events();
            Self { watch: Some(watch), task, reads, now: Cell::new(Instant::now()) }
        }

        /// Makes the step that is due after the time of the last one, and returns how long that is
        /// until the next.
        fn step(&mut self) -> Option<Duration> {
            let due = self.task.step(&|| self.now.get())?;
            let wait = due.saturating_duration_since(self.now.get());
            Some(wait)
        }

        fn pass(&self, time: Duration) {
            self.now.set(self.now.get() + time);
        }
    }

    #[test]
    fn place_without_events_is_read_every_2_seconds_and_after_reports() {
        let mut rig = Rig::new(|_| ReadOutcome::Done);
        for cause in [Cause::Requested, Cause::Periodic, Cause::Periodic] {
            assert_eq!(rig.step(), Some(POLL_INTERVAL));
            assert_eq!(rig.reads.try_recv().map(|(cause, _)| cause), Ok(cause));
            rig.pass(POLL_INTERVAL);
        }
        rig.step();
        rig.reads.try_recv().unwrap();
        assert!(rig.task.reporter().report());
        let wait = rig.step().expect("it goes on");
        assert_eq!(wait, Duration::from_millis(20));
        assert!(rig.reads.try_recv().is_err(), "the change settles first");
        rig.pass(wait);
        rig.step();
        assert_eq!(rig.reads.try_recv().map(|(cause, _)| cause), Ok(Cause::Changed));
    }

    #[test]
    fn empty_file_is_read_again_before_it_counts() {
        let mut rig = Rig::new(|attempt| match attempt {
            Attempt::First | Attempt::Repeatable => ReadOutcome::Empty,
            Attempt::Last => ReadOutcome::Done,
        });
        for _ in 0..EMPTY_READS {
            assert_eq!(rig.step(), Some(EMPTY_PAUSE));
            rig.pass(EMPTY_PAUSE);
        }
        assert_eq!(rig.step(), Some(POLL_INTERVAL));
        let reads: Vec<_> = rig.reads.try_iter().collect();
        assert_eq!(reads.len(), EMPTY_READS as usize + 1);
        assert_eq!(reads.last(), Some(&(Cause::Requested, Attempt::Last)));
    }

    #[test]
    fn dropped_watch_does_not_call_back() {
        let mut rig = Rig::new(|_| ReadOutcome::Done);
        rig.watch = None;
        assert_eq!(rig.step(), None);
        assert!(rig.reads.try_recv().is_err());
    }
}
