//! File transport of a client for one type.

use core::{
    fmt, mem,
    task::{Context, Poll, Waker},
};
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use blake3::Hash;
use bytes::Bytes;
use xds_core::{TypeUrl, client::FilePolicy};
use xds_format::Schema;

use crate::{
    content::response,
    files,
    watch::{Attempt, Cause, Place, ReadOutcome, Watch, WatchTask},
};

/// Result of reading a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// Encoded `DiscoveryResponse` with the resources of the type.
    Response(Bytes),
    /// Error text for a file that is missing or invalid. It names the file, and if known the line
    /// and the field.
    // FS-02, FS-06
    Unreadable(Arc<str>),
}

/// Transport of a client for one type in one file, from the first [`read`](Self::read) until it is
/// dropped.
pub struct FileSubscription {
    source: Source,
    policy: FilePolicy,
    newest: Arc<Newest>,
    watch: Option<Watch>,
    start: Box<StartTask>,
}

type StartTask = dyn Fn(WatchTask) -> io::Result<()> + Send + Sync;

/// Arguments for the task of the watch.
#[derive(Clone)]
struct Source {
    path: Arc<str>,
    type_url: TypeUrl,
    schema: &'static Schema,
}

/// Reports the end of a task, for example by a panic, when the task is dropped.
struct EndGuard {
    path: Arc<str>,
    newest: Arc<Newest>,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.newest.lock().has_ended = true;
        let why = format!("{}: the file is no longer watched: its task has ended", self.path);
        self.newest.put(Content::Unreadable(why.into()));
    }
}

/// Results that were not polled yet.
#[derive(Default)]
struct Newest(Mutex<Unpolled>);

#[derive(Default)]
struct Unpolled {
    /// Newest response. A later error does not discard it.
    // FS-16
    response: Option<Bytes>,
    /// Error after the response.
    error: Option<Arc<str>>,
    /// Whether the task of the watch has ended.
    has_ended: bool,
    waker: Option<Waker>,
}

impl fmt::Debug for FileSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSubscription")
            .field("path", &self.source.path)
            .field("type_url", &self.source.type_url)
            .finish_non_exhaustive()
    }
}

impl FileSubscription {
    /// Creates a subscription, without reading or watching the file.
    pub fn new(
        path: impl Into<Arc<str>>,
        type_url: TypeUrl,
        policy: FilePolicy,
        schema: &'static Schema,
    ) -> Self {
        let source = Source { path: path.into(), type_url, schema };
        let start = Box::new(WatchTask::start_thread);
        Self { source, policy, newest: Arc::default(), watch: None, start }
    }

    /// Sets the function that runs the task, by default [on a thread](WatchTask::start_thread).
    #[must_use]
    pub fn with_start(
        mut self,
        start: impl Fn(WatchTask) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.start = Box::new(start);
        self
    }

    /// Starts to read the file in the background, now and whenever it changes. If the task of the
    /// watch has ended, a new one is started.
    pub fn read(&mut self) {
        if mem::take(&mut self.newest.lock().has_ended) {
            self.watch = None;
        }
        if let Some(watch) = &self.watch {
            return watch.trigger();
        }
        let place = match &self.policy.watched_directory {
            Some(directory) => Place::Directory(PathBuf::from(&**directory)),
            None => Place::File(PathBuf::from(&*self.source.path)),
        };
        let source = self.source.clone();
        let guard = EndGuard { path: Arc::clone(&source.path), newest: Arc::clone(&self.newest) };
        let (mut last, quiet) = (None, self.policy.debounce.quiet);
        let read = move |cause, attempt| {
            let path = Path::new(&*source.path);
            if attempt == Attempt::First && files::is_changed_within(path, quiet) {
                return ReadOutcome::Unsettled;
            }
            let content = files::read(path);
            if attempt != Attempt::Last && content.as_ref().is_ok_and(Bytes::is_empty) {
                return ReadOutcome::Empty;
            }
            let convert = || source.convert(content, cause, &mut last);
            if let Some(content) = or_unreadable(&source.path, convert) {
                guard.newest.put(content);
            }
            ReadOutcome::Done
        };
        let (watch, task) = Watch::with_reader(place, &self.policy, read);
        match (self.start)(task) {
            Ok(()) => self.watch = Some(watch),
            Err(why) => {
                let why = format!("{}: cannot be watched: {why}", self.source.path);
                self.newest.put(Content::Unreadable(why.into()));
            }
        }
    }

    /// Polls for the newest response, and then for an error that followed it. Each is returned
    /// once.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Content> {
        let mut newest = self.newest.lock();
        if let Some(response) = newest.response.take() {
            return Poll::Ready(Content::Response(response));
        }
        if let Some(why) = newest.error.take() {
            return Poll::Ready(Content::Unreadable(why));
        }
        newest.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Runs `read` and converts a panic to an error, so that the subscription does not go silent.
fn or_unreadable(path: &str, read: impl FnOnce() -> Option<Content>) -> Option<Content> {
    let read = catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|_| {
        Some(Content::Unreadable(format!("{path}: reading the file panicked").into()))
    })
}

impl Source {
    /// Converts what was read. Returns `None` for a periodic check that finds the file unchanged.
    fn convert(
        &self,
        content: io::Result<Bytes>,
        cause: Cause,
        last: &mut Option<Result<Hash, String>>,
    ) -> Option<Content> {
        let content = content.map_err(|why| format!("{}: {why}", self.path));
        let seen = content.as_ref().map(|content| blake3::hash(content)).map_err(Clone::clone);
        let is_known = last.as_ref() == Some(&seen);
        let hash = last.insert(seen);
        if cause == Cause::Periodic && is_known {
            return None;
        }
        let response = match (content, hash) {
            (Ok(content), Ok(hash)) => {
                response(self.schema, &self.path, &self.type_url, &content, hash)
            }
            (Err(why), _) => Err(why),
            (_, Err(why)) => Err(why.clone()),
        };
        Some(match response {
            Ok(response) => Content::Response(response.into()),
            Err(why) => Content::Unreadable(why.into()),
        })
    }
}

impl Newest {
    fn put(&self, content: Content) {
        let mut newest = self.lock();
        match content {
            Content::Response(response) => {
                newest.response = Some(response);
                newest.error = None;
            }
            Content::Unreadable(why) => newest.error = Some(why),
        }
        let waker = newest.waker.take();
        drop(newest);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Unpolled> {
        // No code panics while it holds this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_while_reading_a_file_reports_it_unreadable() {
        let content = or_unreadable("a.json", || panic!("a bug"));
        let Some(Content::Unreadable(why)) = content else { panic!("{content:?}") };
        assert!(why.starts_with("a.json: "), "{why}");
        assert_eq!(or_unreadable("a.json", || None), None);
    }
}
