//! Warming on the handle of a running client, for applications.

use alloc::collections::BTreeSet;
use core::{
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::Stream as _;
use xds_core::{Time, client::InvalidWatch};
use xds_handle::{ClientHandle, WatchAll};

use super::{Warmed, Warming, WarmingOutput};
use crate::dependencies::{Dependency, DependencyKind, HandleWatches, WatchNews};

/// A listener or a cluster, and how it is used from now on; `None` if it is gone.
pub type WarmedChange = (Dependency, Option<Warmed>);

/// [`Warming`] and its watches at a running client: what is used, in turn.
///
/// It belongs to one task, which polls it whenever it is woken, and at
/// [`poll_timeout`](Self::poll_timeout) at the latest: nothing is followed meanwhile if nobody does. With
/// [`ReadGate::Notices`](xds_core::client::ReadGate) the client reads no further then once a watch has news. Dropping it
/// ends all watches.
///
/// ```no_run
/// use std::task::{Context, Poll};
/// use xds_core::Time;
/// use xds_routing::warming::HandleWarming;
///
/// /// In the poll of a task, which has a clock, and a timer to be set.
/// fn follow(
///     warming: &mut HandleWarming,
///     now: Time,
///     cx: &mut Context<'_>,
///     set_timer: impl FnOnce(Option<Time>),
/// ) {
///     while let Poll::Ready(Some(change)) = warming.poll_next(now, cx) {
///         match change {
///             Ok((root, Some(_warmed))) => println!("{} is used from now on", root.name),
///             Ok((root, None)) => println!("{} is gone", root.name),
///             Err(why) => println!("not all can be had: {why}"),
///         }
///     }
///     set_timer(warming.poll_timeout());
/// }
/// ```
#[derive(Debug)]
#[must_use = "nothing is followed unless it is polled"]
pub struct HandleWarming {
    warming: Warming,
    collections: [(WatchAll, DependencyKind); 2],
    watches: HandleWatches,
    changed: BTreeSet<Dependency>,
    has_ended: bool,
}

impl HandleWarming {
    /// Asks for all listeners and all clusters (S0.023).
    pub fn new(client: ClientHandle) -> Self {
        let watches = HandleWatches::new(client);
        let watch =
            |kind: DependencyKind| (watches.client().watch_all_untyped(kind.type_url()), kind);
        let collections = [watch(DependencyKind::Cluster), watch(DependencyKind::Listener)];
        Self {
            warming: Warming::new(),
            collections,
            watches,
            changed: BTreeSet::new(),
            has_ended: false,
        }
    }

    /// The next listener or cluster that is used in another way from now on, as it is now, or, with `None`, is
    /// gone; clusters before listeners. Steps that were not taken in time are passed over. `None` once the
    /// client has ended, and after the error that it does not know the types of listeners and clusters.
    pub fn poll_next(
        &mut self,
        now: Time,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<WarmedChange, InvalidWatch>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if let Err(why) = self.take_changes(now, cx) {
            self.has_ended = true;
            return Poll::Ready(why.map(Err));
        }
        loop {
            while let Poll::Ready(news) = self.watches.poll_next(cx) {
                match news {
                    WatchNews::Notice(dependency, notice, taken) => {
                        self.warming.handle_notice(&dependency, notice, now);
                        self.obey();
                        self.watches.handled(dependency, taken);
                    }
                    WatchNews::Refused(dependency, why) => {
                        self.warming.handle_refusal(&dependency, why, now);
                        self.obey();
                    }
                    WatchNews::Ended => {
                        self.has_ended = true;
                        return Poll::Ready(None);
                    }
                }
            }
            self.warming.handle_timeout(now);
            // Watches that this started are polled as well: nothing would wake the task for them otherwise.
            if !self.obey() {
                break;
            }
        }
        match self.changed.pop_last() {
            Some(root) => {
                let warmed = self.warming.warmed(&root);
                Poll::Ready(Some(Ok((root, warmed))))
            }
            None => Poll::Pending,
        }
    }

    /// When to call [`poll_next`](Self::poll_next) again, at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.warming.poll_timeout()
    }

    /// The state, to look at.
    #[must_use]
    pub const fn warming(&self) -> &Warming {
        &self.warming
    }

    /// The routes and endpoints that are watched, in order.
    pub fn watched(&self) -> impl Iterator<Item = &Dependency> {
        self.watches.resources()
    }

    /// Takes what changed of listeners and clusters. The error is the end, and why if that is known.
    fn take_changes(
        &mut self,
        now: Time,
        cx: &mut Context<'_>,
    ) -> Result<(), Option<InvalidWatch>> {
        for index in 0..self.collections.len() {
            while let Some((watch, kind)) = self.collections.get_mut(index) {
                let kind = *kind;
                match Pin::new(&mut *watch).poll_next(cx) {
                    // What it names is asked for before the next change is: with the last one, the client is
                    // told that it may read on.
                    Poll::Ready(Some(Ok(change))) => {
                        self.warming.handle_change(kind, change, now);
                        self.obey();
                    }
                    Poll::Ready(Some(Err(InvalidWatch::ShutDown)) | None) => return Err(None),
                    Poll::Ready(Some(Err(why))) => return Err(Some(why)),
                    Poll::Pending => {
                        if watch.is_caught_up() {
                            self.warming.handle_caught_up(kind, now);
                            self.obey();
                        }
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Does what the state says. True if something is watched anew.
    fn obey(&mut self) -> bool {
        let mut has_started = false;
        while let Some(output) = self.warming.poll_output() {
            match output {
                WarmingOutput::Watch(dependency) => {
                    self.watches.start(dependency);
                    has_started = true;
                }
                WarmingOutput::Unwatch(dependency) => self.watches.end(&dependency),
                WarmingOutput::Use(Warmed { root, .. }) | WarmingOutput::Drop(root) => {
                    self.changed.insert(root);
                }
            }
        }
        has_started
    }
}
