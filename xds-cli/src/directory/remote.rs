//! Source in another process, followed with [`Follower`].

use std::{io, pin::Pin};

use futures_core::Stream;
use futures_util::StreamExt as _;
use tokio::time::{Instant, sleep_until};
use xds_core::Time;
use xds_source::{Change, Follower, FollowerOptions, Source, Step, WatchError};

use super::sources::Update;

type BoxedWatch = Pin<Box<dyn Stream<Item = Result<Change, WatchError>> + Send>>;

/// Source in another process.
pub(crate) struct Remote<S> {
    source: S,
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
        Self { source, place, follower, watch: None, started: Instant::now() }
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
                    sleep_until(until).await;
                    self.follower.waited(self.now());
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
                            let is_new = self.follower.changed(&change, now);
                            if is_new && !change.objects.is_empty() {
                                return Ok(Update::Changed(change.objects));
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
