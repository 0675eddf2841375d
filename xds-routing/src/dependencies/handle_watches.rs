//! Watches of single resources through the handle of a running client.

use alloc::{boxed::Box, collections::BTreeMap};
use core::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{
    Stream as _,
    future::{AbortHandle, Abortable},
    stream::FuturesUnordered,
};
use xds_core::client::{InvalidWatch, Notice};
use xds_handle::{ClientHandle, Watch};

use super::Dependency;

/// Watches through a handle, as [`Watches`](super::Watches) are on a client core.
#[derive(Debug)]
pub(crate) struct HandleWatches {
    client: ClientHandle,
    pending: FuturesUnordered<Abortable<NextNotice>>,
    ends: BTreeMap<Dependency, AbortHandle>,
}

/// Future of the next notice of one watch, which returns the watch with it.
struct NextNotice(Option<(Dependency, Box<Watch>)>);

impl fmt::Debug for NextNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Turn").field(&self.0.as_ref().map(|(dependency, _)| dependency)).finish()
    }
}

type WatchItem = (Dependency, Box<Watch>, Option<Result<Notice, InvalidWatch>>);

impl Future for NextNotice {
    type Output = WatchItem;

    #[expect(clippy::expect_used, reason = "a completed future is not polled again")]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<WatchItem> {
        let (_, watch) = self.0.as_mut().expect("polled after completion");
        match Pin::new(&mut **watch).poll_next(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(item) => {
                let (dependency, watch) = self.0.take().expect("the watch is present");
                Poll::Ready((dependency, watch, item))
            }
        }
    }
}

/// Event of a watch.
#[derive(Debug)]
pub(crate) enum WatchEvent {
    /// A notice. [`HandleWatches::handled`] is due once its dependencies are watched.
    Notice(Dependency, Notice, TakenWatch),
    /// The client refused the watch.
    Refused(Dependency, InvalidWatch),
    /// The client has ended.
    Ended,
}

/// Watch whose notice is being handled. The client reads no further until it is returned.
#[derive(Debug)]
pub(crate) struct TakenWatch {
    watch: Box<Watch>,
    end: Option<AbortHandle>,
}

impl HandleWatches {
    pub(crate) fn new(client: ClientHandle) -> Self {
        Self { client, pending: FuturesUnordered::new(), ends: BTreeMap::new() }
    }

    pub(crate) const fn client(&self) -> &ClientHandle {
        &self.client
    }

    /// Starts a watch.
    pub(crate) fn start(&mut self, dependency: Dependency) {
        let watch = self.client.watch_untyped(dependency.kind.type_url(), dependency.name.clone());
        self.await_next(dependency, Box::new(watch));
    }

    /// Ends a watch.
    pub(crate) fn end(&mut self, dependency: &Dependency) {
        if let Some(end) = self.ends.remove(dependency) {
            end.abort();
        }
    }

    /// Returns the watched resources, sorted.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Dependency> {
        self.ends.keys()
    }

    /// Polls for the next event of any watch.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<WatchEvent> {
        loop {
            let (dependency, watch, item) = match Pin::new(&mut self.pending).poll_next(cx) {
                Poll::Ready(Some(Ok(ready))) => ready,
                // The watch was ended in the meantime.
                Poll::Ready(Some(Err(_))) => continue,
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            };
            return Poll::Ready(match item {
                Some(Ok(notice)) => {
                    let end = self.ends.get(&dependency).cloned();
                    WatchEvent::Notice(dependency, notice, TakenWatch { watch, end })
                }
                Some(Err(InvalidWatch::ShutDown)) | None => WatchEvent::Ended,
                Some(Err(why)) => WatchEvent::Refused(dependency, why),
            });
        }
    }

    /// Completes the handling of a notice. Its dependencies must be watched by then, because the
    /// client may read on afterwards.
    pub(crate) fn handled(&mut self, dependency: Dependency, mut watch: TakenWatch) {
        watch.watch.handled();
        // The notice may have ended the watch, and even started a new one for the same resource.
        if watch.end.is_some_and(|end| !end.is_aborted()) {
            self.await_next(dependency, watch.watch);
        }
    }

    fn await_next(&mut self, dependency: Dependency, watch: Box<Watch>) {
        let (end, registration) = AbortHandle::new_pair();
        self.ends.insert(dependency.clone(), end);
        self.pending.push(Abortable::new(NextNotice(Some((dependency, watch))), registration));
    }
}
