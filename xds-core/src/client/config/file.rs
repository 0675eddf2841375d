//! Settings for a file that serves as a management server.

use alloc::sync::Arc;
use core::time::Duration;

use crate::debounce::Debounce;

/// Policy by which an adapter watches a file that serves as a management server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilePolicy {
    /// Directory whose changes trigger a read, instead of changes of the file itself and of the
    /// symbolic links on the way to it: `watched_directory` of Envoy's `PathConfigSource`.
    // B18, FS-05
    pub watched_directory: Option<Arc<str>>,
    /// Delay of a read after a change. By default, the file is read once it has not changed for 100
    /// ms, and after at most 1 s. The delay exists because a program that saves a file in place
    /// truncates it first. The first read is delayed too if the file has just been changed.
    pub debounce: Debounce,
    /// Maximum time to wait for a writer that has not closed the file yet; 10 s by default. A file
    /// that is still open may be incomplete and yet parse. This only has an effect where the
    /// operating system reports opening and closing, as Linux does. On other systems, choose a
    /// [`debounce`](Self::debounce) that is long enough.
    pub writer_timeout: Duration,
    /// Interval at which the file is checked even without a notification; 30 s by default. Some
    /// file systems, network file systems in particular, send none.
    pub poll_interval: Duration,
}

impl Default for FilePolicy {
    fn default() -> Self {
        Self {
            watched_directory: None,
            debounce: Debounce::new(Duration::from_millis(100), Duration::from_secs(1)),
            writer_timeout: Duration::from_secs(10),
            poll_interval: Duration::from_secs(30),
        }
    }
}

impl FilePolicy {
    /// Reads the file when something changes in this directory. Changes of the file itself no
    /// longer trigger a read; the periodic check remains.
    #[must_use]
    pub fn with_watched_directory(mut self, directory: impl Into<Arc<str>>) -> Self {
        self.watched_directory = Some(directory.into());
        self
    }

    /// Sets the delay of a read after a change.
    #[must_use]
    pub fn with_debounce(mut self, debounce: Debounce) -> Self {
        self.debounce = debounce;
        self
    }

    /// Sets the maximum wait for a writer that has not closed the file yet.
    #[must_use]
    pub fn with_writer_timeout(mut self, timeout: Duration) -> Self {
        self.writer_timeout = timeout;
        self
    }

    /// Sets the interval at which the file is checked without any notification.
    #[must_use]
    pub fn with_poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }
}
