//! Source that is followed: reading it, and waiting for its changes.

use core::{fmt, pin::Pin};
use std::{
    hash::{BuildHasher as _, RandomState},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_core::{Stream, future::BoxFuture};
use futures_util::StreamExt as _;
use tokio::{
    select,
    sync::Notify,
    task::JoinHandle,
    time::{Instant, sleep_until},
};
use xds_core::Time;
use xds_source::{
    Change, Follower, FollowerOptions, List, Revision, Source, SourceError, Step, WatchError,
};
use xds_tokio::ServerHandle;

use super::{confirm::confirm, sources::Update};

/// Source that is followed with [`Follower`].
pub(crate) struct SourceReader {
    /// Name of the source in messages.
    place: PathBuf,
    read: Box<dyn Read>,
}

impl SourceReader {
    pub(crate) fn new(source: impl Source, place: PathBuf) -> Self {
        Self { place, read: Box::new(ReadSource::new(source)) }
    }

    /// Returns the name of the source in messages.
    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// Whether other servers that follow the source know its revisions.
    pub(super) fn is_shared(&self) -> bool {
        self.read.is_shared()
    }

    /// Returns the revision up to which the source was read; `None` if it has no revisions that other
    /// servers share.
    pub(super) fn revision(&self) -> Option<Revision> {
        self.read.revision().filter(|_| self.is_shared())
    }

    /// Whether the last call to the source has succeeded.
    pub(super) fn is_reachable(&self) -> bool {
        self.read.is_reachable()
    }

    /// Reads the newest revision of the source; `None` if it cannot tell.
    pub(super) async fn newest_revision(&mut self) -> Result<Option<Revision>, SourceError> {
        self.read.newest_revision().await
    }

    /// Begins to answer the server's requests for a confirmation of the source.
    pub(super) fn confirm_for(&mut self, server: &ServerHandle) {
        if self.is_shared() {
            self.read.confirm_for(server.clone());
        }
    }

    /// Waits for the next change, or for a failure to report. Failed attempts are repeated. Cancel
    /// safe.
    pub(super) async fn next(&mut self) -> io::Result<Update> {
        self.read.next().await
    }
}

impl fmt::Debug for SourceReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceReader").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Reading of any kind of source.
trait Read: Send {
    fn is_shared(&self) -> bool;
    fn revision(&self) -> Option<Revision>;
    fn is_reachable(&self) -> bool;
    fn newest_revision(&mut self) -> BoxFuture<'_, Result<Option<Revision>, SourceError>>;
    fn confirm_for(&mut self, server: ServerHandle);
    fn next(&mut self) -> BoxFuture<'_, io::Result<Update>>;
}

type BoxedList = BoxFuture<'static, Result<List, SourceError>>;
type BoxedWatch = Pin<Box<dyn Stream<Item = Result<Change, WatchError>> + Send>>;

struct ReadSource<S> {
    source: Arc<S>,
    /// Notified when another call to the source has succeeded.
    reachable: Arc<Notify>,
    /// Task that answers the server's requests for a confirmation.
    confirming: Option<JoinHandle<()>>,
    follower: Follower,
    /// List that is being read. It is continued after a call of `next` was cancelled, as is the watch.
    list: Option<BoxedList>,
    watch: Option<BoxedWatch>,
    started: Instant,
}

impl<S: Source> ReadSource<S> {
    fn new(source: S) -> Self {
        let seed = RandomState::new().hash_one(0);
        Self {
            source: source.into(),
            reachable: Arc::default(),
            confirming: None,
            follower: Follower::new(FollowerOptions::default(), seed),
            list: None,
            watch: None,
            started: Instant::now(),
        }
    }

    fn now(&self) -> Time {
        Time::ZERO.after(self.started.elapsed())
    }

    async fn wait(&mut self, until: Time) {
        let until = self.started + until.since(Time::ZERO);
        select! {
            () = sleep_until(until) => self.follower.waited(self.now()),
            () = self.reachable.notified() => self.follower.retry(),
            () = self.source.may_have_recovered() => self.follower.retry(),
        }
    }

    /// Reads all objects. Returns `None` if they are not to be used.
    async fn list(&mut self) -> io::Result<Option<Update>> {
        self.watch = None;
        let list = self.list.get_or_insert_with(|| {
            let source = Arc::clone(&self.source);
            Box::pin(async move { source.list().await })
        });
        let list = list.await;
        self.list = None;
        let now = self.now();
        match list {
            Ok(list) => {
                let is_used = self.follower.listed(list.revision, now);
                Ok(is_used.then_some(Update::All(list.objects)))
            }
            Err(why) => {
                self.follower.list_failed(&why, now);
                Err(io::Error::other(why))
            }
        }
    }

    /// Waits for the next change. Returns `None` if there is nothing to report.
    async fn watched(&mut self, after: Revision) -> io::Result<Option<Update>> {
        let watch = self.watch.get_or_insert_with(|| Box::pin(self.source.watch(after)));
        let next = watch.next().await;
        let now = self.now();
        match next {
            Some(Ok(change)) => {
                let was_failing = self.follower.failing_since().is_some();
                let is_new = self.follower.changed(&change, now);
                Ok(match is_new && !change.objects.is_empty() {
                    true => Some(Update::Changed(change.objects)),
                    false => (is_new || was_failing).then_some(Update::Nothing),
                })
            }
            Some(Err(why)) => {
                self.watch = None;
                self.follower.watch_ended(Some(&why), now);
                match why {
                    WatchError::Source(why) => Err(io::Error::other(why)),
                    _ => Ok(None),
                }
            }
            None => {
                self.watch = None;
                self.follower.watch_ended(None, now);
                Ok(None)
            }
        }
    }
}

impl<S: Source> Read for ReadSource<S> {
    fn is_shared(&self) -> bool {
        self.source.shares_revisions()
    }

    fn revision(&self) -> Option<Revision> {
        self.follower.revision()
    }

    fn is_reachable(&self) -> bool {
        self.follower.failing_since().is_none()
    }

    fn newest_revision(&mut self) -> BoxFuture<'_, Result<Option<Revision>, SourceError>> {
        let source = Arc::clone(&self.source);
        Box::pin(async move { source.newest_revision().await })
    }

    fn confirm_for(&mut self, server: ServerHandle) {
        let (source, reachable) = (Arc::clone(&self.source), Arc::clone(&self.reachable));
        let task = tokio::spawn(confirm(source, server, reachable));
        if let Some(before) = self.confirming.replace(task) {
            before.abort();
        }
    }

    fn next(&mut self) -> BoxFuture<'_, io::Result<Update>> {
        Box::pin(async {
            loop {
                let update = match self.follower.step() {
                    Step::Wait { until } => {
                        self.wait(until).await;
                        None
                    }
                    Step::List => self.list().await?,
                    Step::Watch { after } => self.watched(after).await?,
                    _ => None,
                };
                if let Some(update) = update {
                    return Ok(update);
                }
            }
        })
    }
}

impl<S> Drop for ReadSource<S> {
    fn drop(&mut self) {
        if let Some(task) = &self.confirming {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::sync::Mutex;

    use futures_util::stream;
    use tokio::time::{sleep, timeout};

    use super::*;

    /// Source whose lists take this long.
    #[derive(Debug)]
    struct SlowSource {
        list_time: Duration,
        lists: Arc<Mutex<u32>>,
    }

    impl Source for SlowSource {
        async fn list(&self) -> Result<List, SourceError> {
            *self.lists.lock().unwrap() += 1;
            sleep(self.list_time).await;
            Ok(List { revision: Revision(1), objects: Vec::new() })
        }

        fn watch(
            &self,
            _: Revision,
        ) -> impl Stream<Item = Result<Change, WatchError>> + Send + 'static {
            stream::pending()
        }
    }

    /// A follower has other work, such as rollouts and views, more often than a list takes.
    #[tokio::test(start_paused = true)]
    async fn list_continues_after_cancelled_calls() {
        let lists = Arc::default();
        let source = SlowSource { list_time: Duration::from_secs(10), lists: Arc::clone(&lists) };
        let mut reader = SourceReader::new(source, "slow".into());
        for _ in 0..9 {
            assert!(timeout(Duration::from_secs(1), reader.next()).await.is_err());
        }
        let update = timeout(Duration::from_secs(2), reader.next()).await.expect("the list");
        assert!(matches!(update, Ok(Update::All(objects)) if objects.is_empty()));
        assert_eq!(*lists.lock().unwrap(), 1);
    }
}
