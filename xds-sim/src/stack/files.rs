//! Watches on files in virtual time.
//!
//! The files are real: give each run a directory of its own. No other process may change them
//! during a run.

use core::future::poll_fn;
use std::sync::{Mutex, PoisonError};

use hyper::rt::Timer as _;
use tokio::select;
use xds_core::client::FilePolicy;
use xds_fs::{Cause, ChangeReporter, Place, Watch, WatchTask};

use super::Host;

/// Watches of a host.
#[derive(Debug, Default)]
pub(super) struct FileWatches(Mutex<Vec<ChangeReporter>>);

impl Host {
    /// Watches a file or directory, as [`Watch::start`] does on a thread.
    ///
    /// A change is noticed when the next check is due, every 2 seconds, or when it is
    /// [reported](Self::report_file_changes).
    pub fn watch_place(
        &self,
        place: Place,
        policy: &FilePolicy,
        callback: impl FnMut(Cause) + Send + 'static,
    ) -> Watch {
        let (watch, task) = Watch::with_task(place, policy, callback);
        self.run_watch(task);
        watch
    }

    /// Reports to all watches of this host that their files have changed, as the operating system
    /// does with events. Without a report, a change is noticed within 2 seconds.
    pub fn report_file_changes(&self) {
        let watches = self.shared.file_watches.0.lock();
        watches.unwrap_or_else(PoisonError::into_inner).retain(ChangeReporter::report);
    }

    pub(super) fn run_watch(&self, task: WatchTask) {
        let mut task = task.without_system_events();
        let watches = self.shared.file_watches.0.lock();
        watches.unwrap_or_else(PoisonError::into_inner).push(task.reporter());
        let host = self.clone();
        self.start(async move {
            while let Some(due) = task.step(&|| host.now()) {
                select! {
                    biased;
                    () = poll_fn(|cx| task.poll_signal(cx)) => {}
                    () = host.sleep_until(due) => {}
                }
            }
        });
    }
}
