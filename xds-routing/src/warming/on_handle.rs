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
use crate::dependencies::{Dependency, DependencyKind, HandleWatches, WatchEvent};

/// Listener or cluster with the version to use from now on, or `None` if it was removed.
pub type WarmedChange = (Dependency, Option<Warmed>);

/// [`Warming`] with its watches on a running client, as a sequence of changes.
///
/// One task owns it, and polls it when woken and at [`poll_timeout`](Self::poll_timeout) at the
/// latest: no updates are processed otherwise. With
/// [`FlowControl::On`](xds_core::client::FlowControl) the client even stops reading responses after
/// the next notice. Dropping it ends all watches.
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
///             Err(why) => println!("the client rejects a watch: {why}"),
///         }
///     }
///     set_timer(warming.poll_timeout());
/// }
/// ```
#[derive(Debug)]
#[must_use = "no watches are processed unless it is polled"]
pub struct HandleWarming {
    warming: Warming,
    collections: [(WatchAll, DependencyKind); 2],
    watches: HandleWatches,
    changed: BTreeSet<Dependency>,
    has_ended: bool,
}

impl HandleWarming {
    /// Subscribes to all listeners and clusters.
    // S0.023
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

    /// Polls for the next listener or cluster that changed, with the version to use from now on, or
    /// `None` if it was removed. Clusters precede listeners, and intermediate versions are skipped.
    ///
    /// Yields `None` once the client has ended. If the client does not know the types of listeners
    /// and clusters, yields that error, then `None`.
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
            while let Poll::Ready(event) = self.watches.poll_next(cx) {
                match event {
                    WatchEvent::Notice(dependency, notice, watch) => {
                        self.warming.handle_notice(&dependency, notice, now);
                        self.apply_outputs();
                        self.watches.handled(dependency, watch);
                    }
                    WatchEvent::Refused(dependency, why) => {
                        self.warming.handle_refusal(&dependency, why, now);
                        self.apply_outputs();
                    }
                    WatchEvent::Ended => {
                        self.has_ended = true;
                        return Poll::Ready(None);
                    }
                }
            }
            self.warming.handle_timeout(now);
            // Repeat, to poll the watches that this started: nothing else would wake the task for
            // them.
            if !self.apply_outputs() {
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

    /// Returns the time at which [`poll_next`](Self::poll_next) must be called again, if not woken
    /// before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.warming.poll_timeout()
    }

    /// Returns the state machine, for inspection.
    #[must_use]
    pub const fn warming(&self) -> &Warming {
        &self.warming
    }

    /// Returns the watched routes and endpoints, sorted.
    pub fn watched(&self) -> impl Iterator<Item = &Dependency> {
        self.watches.resources()
    }

    /// Applies changes of listeners and clusters. The error is the end of the client, with its
    /// reason if known.
    fn take_changes(
        &mut self,
        now: Time,
        cx: &mut Context<'_>,
    ) -> Result<(), Option<InvalidWatch>> {
        for index in 0..self.collections.len() {
            while let Some((watch, kind)) = self.collections.get_mut(index) {
                let kind = *kind;
                match Pin::new(&mut *watch).poll_next(cx) {
                    // The references are watched before the next change is polled: after the last
                    // change the client may read on.
                    Poll::Ready(Some(Ok(change))) => {
                        self.warming.handle_change(kind, change, now);
                        self.apply_outputs();
                    }
                    Poll::Ready(Some(Err(InvalidWatch::ShutDown)) | None) => return Err(None),
                    Poll::Ready(Some(Err(why))) => return Err(Some(why)),
                    Poll::Pending => {
                        if watch.is_caught_up() {
                            self.warming.handle_caught_up(kind, now);
                            self.apply_outputs();
                        }
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Applies the outputs of the state machine. Returns whether a watch was started.
    fn apply_outputs(&mut self) -> bool {
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
