//! Thread that waits for changes and then for a quiet period.

use core::time::Duration;
use std::{
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::Instant,
};

use xds_core::client::FilePolicy;

use crate::watcher::Watcher;

/// Interval between checks if watching is not possible.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

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
pub enum Cause {
    /// First call, or a call requested by [`Watch::trigger`].
    Requested,
    /// A change was detected.
    Changed,
    /// No change was detected for [`poll_interval`](FilePolicy::poll_interval).
    Periodic,
}

/// Watch on a place, which ends when it is dropped.
pub struct Watch {
    signals: Sender<Signal>,
    /// Set before the stop signal is sent, so that the thread notices it first.
    is_over: Arc<AtomicBool>,
}

/// Events that wake the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Changed,
    Trigger,
    Stop,
}

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
    /// after the watch is dropped. If it panics, the watch continues.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn start(
        place: Place,
        policy: &FilePolicy,
        callback: impl FnMut(Cause) + Send + 'static,
    ) -> io::Result<Self> {
        let (signals, received) = mpsc::channel();
        let (for_events, policy) = (signals.clone(), policy.clone());
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        thread::Builder::new().name("xds-fs".into()).spawn(move || {
            let on_event = move || {
                let _ = for_events.send(Signal::Changed);
            };
            run(Watcher::new(place, on_event), &received, &policy, &over, callback);
        })?;
        Ok(Self { signals, is_over })
    }

    /// Requests a call of the callback.
    pub fn trigger(&self) {
        // The thread runs until the watch is dropped.
        let _ = self.signals.send(Signal::Trigger);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.signals.send(Signal::Stop);
    }
}

fn run(
    mut watcher: Watcher,
    signals: &Receiver<Signal>,
    policy: &FilePolicy,
    is_over: &AtomicBool,
    mut callback: impl FnMut(Cause),
) {
    let mut cause = Cause::Requested;
    loop {
        if cause == Cause::Periodic {
            watcher.mark_stale();
        }
        // Watches are renewed before the callback, so that no change in between is missed.
        watcher.renew();
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        // The cause of a panic may be gone next time. If the thread ended here, nobody would
        // notice.
        let _ = catch_unwind(AssertUnwindSafe(|| callback(cause)));
        let longest = if watcher.is_unavailable() { POLL_INTERVAL } else { policy.poll_interval };
        cause = match signals.recv_timeout(longest) {
            Err(RecvTimeoutError::Timeout) => Cause::Periodic,
            // A request may overtake the notification of a change, so it waits for the quiet period
            // too.
            Ok(signal @ (Signal::Trigger | Signal::Changed)) => {
                let cause = wait_for_quiet(signal, signals, policy, || watcher.is_being_written());
                // A writer that has not closed the file by now may never do so.
                watcher.forget_writers();
                match cause {
                    Some(cause) => cause,
                    None => return,
                }
            }
            Ok(Signal::Stop) | Err(RecvTimeoutError::Disconnected) => return,
        };
    }
}

/// Waits until there was no change for a while and all writers have closed their files, up to a
/// maximum time. Requests wait too, because a half-written file may parse. Returns `None` on stop.
fn wait_for_quiet(
    first: Signal,
    signals: &Receiver<Signal>,
    policy: &FilePolicy,
    is_being_written: impl Fn() -> bool,
) -> Option<Cause> {
    let started = Instant::now();
    let mut cause = if first == Signal::Trigger { Cause::Requested } else { Cause::Changed };
    loop {
        let is_being_written = is_being_written();
        let longest = if is_being_written { policy.writer_timeout } else { policy.debounce.max };
        let left = longest.saturating_sub(started.elapsed());
        let is_quiet = match signals.recv_timeout(policy.debounce.quiet.min(left)) {
            Ok(Signal::Changed) => false,
            Ok(Signal::Trigger) => {
                cause = Cause::Requested;
                false
            }
            Ok(Signal::Stop) | Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => !is_being_written,
        };
        if is_quiet || left.is_zero() {
            return Some(cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use xds_core::Debounce;

    use super::*;

    fn policy(quiet: u64, max: u64) -> FilePolicy {
        let (quiet, max) = (Duration::from_millis(quiet), Duration::from_millis(max));
        FilePolicy::default().with_debounce(Debounce::new(quiet, max))
    }

    #[test]
    fn watch_thread_ends_when_the_watch_is_dropped() {
        let (sender, looks) = mpsc::channel();
        let place = Place::Directory(std::env::temp_dir());
        let watch = Watch::start(place, &FilePolicy::default(), move |cause| {
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
        let place = Place::Directory(std::env::temp_dir());
        let watch = Watch::start(place, &policy(1, 1), move |cause| {
            let _ = sender.send(cause);
            panic!("a bug in what is done with it");
        });
        let watch = watch.unwrap();
        for _ in 0..2 {
            looks.recv_timeout(Duration::from_secs(30)).unwrap();
            watch.trigger();
        }
    }

    #[test]
    fn stopped_watch_does_not_call_back() {
        let (sender, signals) = mpsc::channel();
        sender.send(Signal::Changed).unwrap();
        let place = Place::Directory(std::env::temp_dir());
        let looks = Cell::new(0);
        let watcher = Watcher::new(place, || {});
        let callback = |_| looks.set(looks.get() + 1);
        run(watcher, &signals, &policy(1, 1), &AtomicBool::new(true), callback);
        assert_eq!(looks.get(), 0);
    }

    #[test]
    fn changes_within_the_debounce_are_merged() {
        let (sender, signals) = mpsc::channel();
        for _ in 0..5 {
            sender.send(Signal::Changed).unwrap();
        }
        let started = Instant::now();
        let policy = policy(20, 60_000);
        assert_eq!(
            wait_for_quiet(Signal::Changed, &signals, &policy, || false),
            Some(Cause::Changed)
        );
        assert!(started.elapsed() >= policy.debounce.quiet);
        assert!(signals.try_recv().is_err(), "all of it is one change");
    }

    #[test]
    fn debounce_ends_at_its_maximum_under_constant_changes() {
        let (sender, signals) = mpsc::channel();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = sender.send(Signal::Changed);
                    thread::yield_now();
                }
            });
            let cause = wait_for_quiet(Signal::Changed, &signals, &policy(60_000, 50), || false);
            assert_eq!(cause, Some(Cause::Changed));
            is_over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn trigger_during_a_debounce_is_reported_as_requested() {
        let (sender, signals) = mpsc::channel();
        for signal in [Signal::Changed, Signal::Trigger, Signal::Changed] {
            sender.send(signal).unwrap();
        }
        assert_eq!(
            wait_for_quiet(Signal::Changed, &signals, &policy(20, 60_000), || false),
            Some(Cause::Requested)
        );
        assert!(signals.try_recv().is_err(), "all of it is one change");
    }

    #[test]
    fn stop_signal_ends_the_wait_at_once() {
        let (sender, signals) = mpsc::channel();
        sender.send(Signal::Stop).unwrap();
        assert_eq!(
            wait_for_quiet(Signal::Changed, &signals, &policy(60_000, 60_000), || true),
            None
        );
    }

    #[test]
    fn open_writer_delays_the_read_until_it_closes() {
        let (_sender, signals) = mpsc::channel();
        // The file counts as closed at the tenth check.
        let asked = Cell::new(0);
        let is_being_written = || {
            asked.set(asked.get() + 1);
            asked.get() < 10
        };
        let cause = wait_for_quiet(Signal::Changed, &signals, &policy(1, 1), is_being_written);
        assert_eq!((cause, asked.get()), (Some(Cause::Changed), 10));
    }

    #[test]
    fn read_happens_after_writer_timeout_if_the_file_is_not_closed() {
        let (_sender, signals) = mpsc::channel();
        let mut policy = policy(1, 1);
        policy.writer_timeout = Duration::from_millis(20);
        assert_eq!(
            wait_for_quiet(Signal::Changed, &signals, &policy, || true),
            Some(Cause::Changed)
        );
    }
}
