//! One type in one file, as contents that are polled.

use core::{
    fmt,
    task::{Context, Poll, Waker},
};
use std::{
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
    files::read_saved,
    watch::{Cause, Place, Watch},
};

/// What was found in the place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// What there is of the type: a `DiscoveryResponse`, encoded.
    Response(Bytes),
    /// There is no file, or none that can be read (FS-02, FS-06). The text names the file, and the line and
    /// the field where these are known.
    Unreadable(Arc<str>),
}

/// The transport of a channel to a file: one type in it, from the first [`read`](Self::read) until this is
/// dropped.
pub struct FileSubscription {
    source: Source,
    policy: FilePolicy,
    newest: Arc<Newest>,
    watch: Option<Watch>,
}

/// What the thread of a watch reads.
#[derive(Clone)]
struct Source {
    path: Arc<str>,
    type_url: TypeUrl,
    schema: &'static Schema,
}

/// What was not polled yet.
#[derive(Default)]
struct Newest(Mutex<Unpolled>);

#[derive(Default)]
struct Unpolled {
    /// The newest counts (FS-16), and stays good though what came after it is not.
    response: Option<Bytes>,
    /// What came after the response.
    trouble: Option<Arc<str>>,
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
    /// Nothing is read or watched yet.
    pub fn new(
        path: impl Into<Arc<str>>,
        type_url: TypeUrl,
        policy: FilePolicy,
        schema: &'static Schema,
    ) -> Self {
        let source = Source { path: path.into(), type_url, schema };
        Self { source, policy, newest: Arc::default(), watch: None }
    }

    /// Has the file read, once more if it was before. From now on it is read whenever it changes, too.
    pub fn read(&mut self) {
        if let Some(watch) = &self.watch {
            return watch.look();
        }
        let place = match &self.policy.watched_directory {
            Some(directory) => Place::Directory(PathBuf::from(&**directory)),
            None => Place::File(PathBuf::from(&*self.source.path)),
        };
        let (source, newest) = (self.source.clone(), Arc::clone(&self.newest));
        let mut last = None;
        let read = move |cause| {
            if let Some(content) = or_unreadable(&source.path, || source.read(cause, &mut last)) {
                newest.put(content);
            }
        };
        match Watch::start(place, &self.policy, read) {
            Ok(watch) => self.watch = Some(watch),
            Err(why) => {
                let why = format!("{}: cannot be watched: {why}", self.source.path);
                self.newest.put(Content::Unreadable(why.into()));
            }
        }
    }

    /// The newest response, and then what there was behind it that cannot be read: each once.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Content> {
        let mut newest = self.newest.lock();
        if let Some(response) = newest.response.take() {
            return Poll::Ready(Content::Response(response));
        }
        if let Some(why) = newest.trouble.take() {
            return Poll::Ready(Content::Unreadable(why));
        }
        newest.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// What is read; a panic is a file that cannot be read, rather than one of which nothing is ever heard.
fn or_unreadable(path: &str, read: impl FnOnce() -> Option<Content>) -> Option<Content> {
    let read = catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|_| {
        Some(Content::Unreadable(format!("{path}: reading it panicked").into()))
    })
}

impl Source {
    /// What there is, if anybody asked for it, something happened to the file, or it is not what it was.
    fn read(&self, cause: Cause, last: &mut Option<Result<Hash, String>>) -> Option<Content> {
        let content = read_saved(Path::new(&*self.path));
        let content = content.map_err(|why| format!("{}: {why}", self.path));
        let seen = content.as_ref().map(|content| blake3::hash(content)).map_err(Clone::clone);
        let is_known = last.as_ref() == Some(&seen);
        let hash = last.insert(seen);
        if cause == Cause::Anyway && is_known {
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
                newest.trouble = None;
            }
            Content::Unreadable(why) => newest.trouble = Some(why),
        }
        let waker = newest.waker.take();
        drop(newest);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Unpolled> {
        // Nothing panics under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_whose_reading_panics_cannot_be_read() {
        let content = or_unreadable("a.json", || panic!("a bug"));
        let Some(Content::Unreadable(why)) = content else { panic!("{content:?}") };
        assert!(why.starts_with("a.json: "), "{why}");
        assert_eq!(or_unreadable("a.json", || None), None);
    }
}
