//! Source in another process, followed with [`Follower`].

use std::{io, pin::Pin, sync::Arc};

use futures_core::Stream;
use futures_util::StreamExt as _;
use tokio::{
    select,
    sync::Notify,
    task::JoinHandle,
    time::{Instant, sleep_until},
};
use xds_core::Time;
use xds_source::{Change, Follower, FollowerOptions, Revision, Source, Step, WatchError};
use xds_tokio::ServerHandle;

use super::{confirm::confirm, sources::Update};

type BoxedWatch = Pin<Box<dyn Stream<Item = Result<Change, WatchError>> + Send>>;

/// Source in another process.
pub(crate) struct Remote<S> {
    source: Arc<S>,
    /// Notified when another call to the source has succeeded.
    reachable: Arc<Notify>,
    /// Task that answers the server's requests for a confirmation.
    confirming: Option<JoinHandle<()>>,
    /// Name of the source in messages.
    place: String,
    follower: Follower,
    watch: Option<BoxedWatch>,
    started: Instant,
}

impl<S> core::fmt::Debug for Remote<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Remote").field("place", &self.place).finish_non_exhaustive()
    }
}

impl<S: Source> Remote<S> {
    pub(crate) fn new(source: S, place: String, seed: u64) -> Self {
        let follower = Follower::new(FollowerOptions::default(), seed);
        Self {
            source: source.into(),
            reachable: Arc::default(),
            confirming: None,
            place,
            follower,
            watch: None,
            started: Instant::now(),
        }
    }

    /// Returns the revision up to which the source was read.
    pub(super) fn revision(&self) -> Option<Revision> {
        self.follower.revision()
    }

    /// Whether the last call has succeeded.
    pub(super) fn is_reachable(&self) -> bool {
        self.follower.failing_since().is_none()
    }

    /// Begins to answer the server's requests for a confirmation.
    pub(super) fn confirm_for(&mut self, server: ServerHandle) {
        let (source, reachable) = (Arc::clone(&self.source), Arc::clone(&self.reachable));
        let task = tokio::spawn(confirm(source, server, reachable));
        if let Some(before) = self.confirming.replace(task) {
            before.abort();
        }
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Waits for the next change, or for a failure. Failed attempts are repeated.
    pub(super) async fn next(&mut self) -> io::Result<Update> {
        loop {
            match self.follower.step() {
                Step::Wait { until } => {
                    let until = self.started + until.since(Time::ZERO);
                    select! {
                        () = sleep_until(until) => self.follower.waited(self.now()),
                        () = self.reachable.notified() => self.follower.retry(),
                    }
                }
                Step::List => {
                    self.watch = None;
                    match self.source.list().await {
                        Ok(list) => {
                            if self.follower.listed(list.revision, self.now()) {
                                return Ok(Update::All(list.objects));
                            }
                        }
                        Err(why) => {
                            self.follower.list_failed(&why, self.now());
                            return Err(io::Error::other(why));
                        }
                    }
                }
                Step::Watch { after } => {
                    let watch =
                        self.watch.get_or_insert_with(|| Box::pin(self.source.watch(after)));
                    let next = watch.next().await;
                    let now = self.now();
                    match next {
                        Some(Ok(change)) => {
                            let was_failing = self.follower.failing_since().is_some();
                            let is_new = self.follower.changed(&change, now);
                            if is_new && !change.objects.is_empty() {
                                return Ok(Update::Changed(change.objects));
                            }
                            if is_new || was_failing {
                                return Ok(Update::Nothing);
                            }
                        }
                        Some(Err(why)) => {
                            self.watch = None;
                            self.follower.watch_ended(Some(&why), now);
                            if let WatchError::Source(why) = why {
                                return Err(io::Error::other(why));
                            }
                        }
                        None => {
                            self.watch = None;
                            self.follower.watch_ended(None, now);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn now(&self) -> Time {
        Time::ZERO.after(self.started.elapsed())
    }
}

impl<S> Drop for Remote<S> {
    fn drop(&mut self) {
        if let Some(task) = &self.confirming {
            task.abort();
        }
    }
}
