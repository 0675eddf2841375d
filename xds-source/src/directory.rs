//! Directory with resource files as a source.

use core::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use futures_channel::oneshot;
use futures_core::Stream;
use xds_core::client::FilePolicy;
use xds_fs::{Place, Watch};

use crate::{
    contract::{Change, List, Revision, Source, SourceError, WatchError},
    files::{FORCE_FILE, Subdirectories, read_saved, views},
    notices::Notices,
};

/// Directory with resource files, as a [`Source`] for any async runtime.
///
/// The files are read on a thread of their own, all together: a watch ends with
/// [`WatchError::Replaced`] when a file may have changed, and the follower reads them again. The
/// revision counts the changes that this process has noticed.
#[derive(Clone, Debug)]
pub struct DirectorySource(Arc<WatchedDirectory>);

#[derive(Debug)]
struct WatchedDirectory {
    path: PathBuf,
    subdirectories: Subdirectories,
    notices: Arc<Notices>,
    /// Number of changes that were noticed when the files were last read.
    read: AtomicU64,
    /// Watches of the subdirectories.
    watches: Mutex<BTreeMap<PathBuf, Watch>>,
    _watches: [Watch; 2],
}

impl DirectorySource {
    /// Starts watching a directory, without reading it.
    ///
    /// # Errors
    ///
    /// Returns an error if no thread can be started.
    pub fn watch(path: &Path, subdirectories: Subdirectories) -> io::Result<Self> {
        let notices = Arc::default();
        let _watches = [
            start(Place::Directory(path.to_owned()), &notices)?,
            start(Place::File(path.join(FORCE_FILE)), &notices)?,
        ];
        Ok(Self(Arc::new(WatchedDirectory {
            path: path.to_owned(),
            subdirectories,
            notices,
            read: AtomicU64::default(),
            watches: Mutex::default(),
            _watches,
        })))
    }
}

fn start(place: Place, notices: &Arc<Notices>) -> io::Result<Watch> {
    let notices = Arc::clone(notices);
    Watch::start(place, &FilePolicy::default(), move |_| notices.note())
}

impl WatchedDirectory {
    fn read(&self) -> io::Result<List> {
        // A change after this is read again.
        let noticed = self.notices.count();
        self.read.store(noticed, Ordering::Relaxed);
        let views = views(&self.path, self.subdirectories)?;
        {
            let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
            watches.retain(|place, _| views.contains_key(place));
            for place in views.keys().filter(|place| **place != self.path) {
                // Watched before it is read, so that no change in between is missed.
                if !watches.contains_key(place) {
                    let watch = start(Place::Directory(place.clone()), &self.notices)?;
                    watches.insert(place.clone(), watch);
                }
            }
        }
        let objects = read_saved(&self.path, &views)?;
        Ok(List { revision: Revision(noticed), objects })
    }
}

impl Source for DirectorySource {
    async fn list(&self) -> Result<List, SourceError> {
        let (directory, (sender, read)) = (Arc::clone(&self.0), oneshot::channel());
        let task = move || {
            // The caller may no longer wait.
            let _ = sender.send(directory.read());
        };
        thread::Builder::new().name("xds-directory".into()).spawn(task).map_err(error_of)?;
        match read.await {
            Ok(read) => read.map_err(error_of),
            Err(_) => Err(SourceError::Failed("the files could not be examined".into())),
        }
    }

    fn watch(
        &self,
        after: Revision,
    ) -> impl Stream<Item = Result<Change, WatchError>> + Send + 'static {
        DirectoryWatch { notices: Arc::clone(&self.0.notices), after, has_ended: false }
    }

    fn may_have_recovered(&self) -> impl Future<Output = ()> + Send {
        poll_fn(|cx| self.0.notices.poll_after(self.0.read.load(Ordering::Relaxed), cx))
    }

    fn shares_revisions(&self) -> bool {
        false
    }
}

fn error_of(why: io::Error) -> SourceError {
    match why.kind() {
        io::ErrorKind::PermissionDenied => SourceError::Denied(why.to_string()),
        _ => SourceError::Failed(why.to_string()),
    }
}

struct DirectoryWatch {
    notices: Arc<Notices>,
    after: Revision,
    has_ended: bool,
}

impl Stream for DirectoryWatch {
    type Item = Result<Change, WatchError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.has_ended {
            return Poll::Ready(None);
        }
        ready!(this.notices.poll_after(this.after.0, cx));
        this.has_ended = true;
        Poll::Ready(Some(Err(WatchError::Replaced)))
    }
}

#[cfg(test)]
mod tests {
    use core::pin::pin;
    use std::{
        fs,
        task::{Wake, Waker},
        thread::Thread,
    };

    use super::*;
    use crate::contract::Content;

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Runs a future without any runtime.
    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let (mut future, mut cx) = (pin!(future), Context::from_waker(&waker));
        loop {
            match future.as_mut().poll(&mut cx) {
                Poll::Ready(value) => return value,
                Poll::Pending => thread::park(),
            }
        }
    }

    /// Waits for the end of the watch, and lists again.
    fn next(source: &DirectorySource, after: Revision) -> List {
        let mut watch = pin!(source.watch(after));
        let end = block_on(poll_fn(|cx| watch.as_mut().poll_next(cx)));
        assert!(matches!(end, Some(Err(WatchError::Replaced))), "{end:?}");
        assert!(block_on(poll_fn(|cx| watch.as_mut().poll_next(cx))).is_none());
        let list = block_on(source.list()).unwrap();
        assert!(list.revision > after);
        list
    }

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("xds-source-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn change_ends_the_watch_and_is_in_the_next_list() {
        let path = directory("change");
        fs::write(path.join("a.yaml"), "[]").unwrap();
        let source = DirectorySource::watch(&path, Subdirectories::Ignored).unwrap();
        assert!(!source.shares_revisions());
        let mut list = block_on(source.list()).unwrap();
        assert_eq!(list.objects.len(), 1);
        fs::write(path.join("b.yaml"), "[]").unwrap();
        // The watch may begin with notices that precede the change.
        while list.objects.len() < 2 {
            list = next(&source, list.revision);
        }
        fs::write(path.join(FORCE_FILE), "0123456789ab\n").unwrap();
        while list.objects.len() < 3 {
            list = next(&source, list.revision);
        }
        let forced: Vec<_> = list.objects.iter().map(|it| it.forced.trim()).collect();
        assert_eq!(forced, ["", "", "0123456789ab"]);
        assert_eq!(list.objects[2].content, Content::Documents(Vec::new()));
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn directory_that_comes_back_shows_that_it_may_have_recovered() {
        let path = directory("recovered");
        let source = DirectorySource::watch(&path, Subdirectories::Ignored).unwrap();
        fs::remove_dir(&path).unwrap();
        let why = block_on(source.list()).unwrap_err();
        assert!(
            matches!(&why, SourceError::Failed(text) if text.contains("No such file")),
            "{why}"
        );
        fs::create_dir(&path).unwrap();
        loop {
            block_on(source.may_have_recovered());
            if block_on(source.list()).is_ok() {
                break;
            }
        }
        fs::remove_dir(path).unwrap();
    }
}
