//! Settings of a server that is a file.

use alloc::sync::Arc;
use core::time::Duration;

/// How a server that is a file is watched. It is the adapter's to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilePolicy {
    /// The directory in which changes count, instead of those of the file itself and of the links on the way
    /// to it: `watched_directory` of a proxy's `PathConfigSource` (B18, FS-05).
    pub watched_directory: Option<Arc<str>>,
    /// How long nothing may happen before the file is read: whoever saves it in place empties it first.
    pub quiet: Duration,
    /// After this time it is read although something is always happening.
    pub patience: Duration,
    /// How long to wait for who has written to the file and not closed it yet: until then it may be the half
    /// of what is meant, and read well all the same. Only where the operating system tells of both, as Linux
    /// does; elsewhere [`quiet`](Self::quiet) has to be long enough.
    pub until_closed: Duration,
    /// How often it is looked at though nothing was noticed: some file systems, above all those over a
    /// network, tell nothing.
    pub look_anyway: Duration,
}

impl Default for FilePolicy {
    fn default() -> Self {
        Self {
            watched_directory: None,
            quiet: Duration::from_millis(100),
            patience: Duration::from_secs(1),
            until_closed: Duration::from_secs(10),
            look_anyway: Duration::from_secs(30),
        }
    }
}

impl FilePolicy {
    /// Has the file read when something happens in this directory, and otherwise only to look anyway.
    #[must_use]
    pub fn with_watched_directory(mut self, directory: impl Into<Arc<str>>) -> Self {
        self.watched_directory = Some(directory.into());
        self
    }
}
