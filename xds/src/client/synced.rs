//! Readiness of a client: whether the first answers to all its watches have arrived.

use core::{
    future::{Future, poll_fn},
    pin::pin,
    task::{Context, Poll, Waker},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use xds_core::{
    ResourceName,
    client::{Change, ErrorCategory, InvalidWatch, Notice},
};
use xds_handle::{ClientHandle, Watch, WatchAll};

use super::watch::WatchEnded;

/// Subscription of a watch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Name(&'static str, ResourceName),
    Glob(&'static str, ResourceName),
    All(&'static str),
}

/// Targets of the open watches of a client.
#[derive(Clone, Debug, Default)]
pub(super) struct Targets(Arc<Mutex<OpenTargets>>);

#[derive(Debug, Default)]
struct OpenTargets {
    /// Number of watches of each target.
    watches: BTreeMap<Target, usize>,
    /// Wakers of the calls of `synced`, which are woken when a target has no watches any more.
    waiting: BTreeMap<u64, Waker>,
    next_id: u64,
}

/// Registration of an open watch, which ends when it is dropped.
#[derive(Debug)]
pub(super) struct Registration {
    targets: Targets,
    target: Target,
}

/// Call of `synced`. Dropping it removes its waker.
struct Waiting<'a> {
    targets: &'a Targets,
    id: u64,
}

impl Targets {
    pub(super) fn add_name(&self, type_url: &'static str, name: ResourceName) -> Registration {
        self.add(Target::Name(type_url, name))
    }

    pub(super) fn add_glob(&self, type_url: &'static str, glob: ResourceName) -> Registration {
        self.add(Target::Glob(type_url, glob))
    }

    pub(super) fn add_all(&self, type_url: &'static str) -> Registration {
        self.add(Target::All(type_url))
    }

    fn add(&self, target: Target) -> Registration {
        *self.lock().watches.entry(target.clone()).or_default() += 1;
        Registration { targets: self.clone(), target }
    }

    /// Waits for the first answer to each target that has watches.
    pub(super) async fn synced(&self, handle: &ClientHandle) -> Result<(), WatchEnded> {
        let targets: Vec<_> = self.lock().watches.keys().cloned().collect();
        let waiting = Waiting::begin(self);
        for target in targets {
            let mut answer = pin!(answer_to(&target, handle));
            poll_fn(|cx| match waiting.poll_unwatched(&target, cx) {
                Poll::Ready(()) => Poll::Ready(Ok(())),
                Poll::Pending => answer.as_mut().poll(cx),
            })
            .await?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, OpenTargets> {
        // No code that may panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> Waiting<'a> {
    fn begin(targets: &'a Targets) -> Self {
        let mut state = targets.lock();
        state.next_id += 1;
        Self { targets, id: state.next_id }
    }

    /// Waits until a target has no watches any more.
    fn poll_unwatched(&self, target: &Target, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.targets.lock();
        if !state.watches.contains_key(target) {
            return Poll::Ready(());
        }
        let before = state.waiting.insert(self.id, cx.waker().clone());
        drop(state);
        // To drop a waker may drop a watch, which locks the targets.
        drop(before);
        Poll::Pending
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let before = self.targets.lock().waiting.remove(&self.id);
        drop(before);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut state = self.targets.lock();
        let Some(count) = state.watches.get_mut(&self.target) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        state.watches.remove(&self.target);
        let waiting = core::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_values().for_each(Waker::wake);
    }
}

/// Waits for the first answer to a target. It uses a second watch of the target, which causes no
/// request and receives the current state immediately.
async fn answer_to(target: &Target, handle: &ClientHandle) -> Result<(), WatchEnded> {
    match target.clone() {
        Target::Name(type_url, name) => first_answer(handle.watch_untyped(type_url, name)).await,
        Target::Glob(type_url, glob) => {
            first_collection(handle.watch_glob_untyped(type_url, glob)).await
        }
        Target::All(type_url) => first_collection(handle.watch_all_untyped(type_url)).await,
    }
}

/// Whether a notice is an answer of a server, as opposed to an error of the connection.
pub(super) fn is_answer(notice: &Notice) -> bool {
    match notice {
        Notice::Changed(Ok(_)) => true,
        Notice::Changed(Err(error)) => error.kind().category() == ErrorCategory::Data,
        _ => false,
    }
}

/// Whether a change says that a collection was received or does not exist, as opposed to an error of
/// the connection.
pub(super) fn is_answer_for_collection(change: &Change) -> bool {
    match change {
        Change::Collection(Ok(())) => true,
        Change::Collection(Err(error)) => error.kind().category() == ErrorCategory::Data,
        _ => false,
    }
}

async fn first_answer(mut watch: Watch) -> Result<(), WatchEnded> {
    loop {
        match watch.next().await {
            None | Some(Err(InvalidWatch::ShutDown)) => return Err(WatchEnded),
            // An invalid watch was reported where it was started.
            Some(Err(_)) => return Ok(()),
            Some(Ok(notice)) if is_answer(&notice) => return Ok(()),
            Some(Ok(_)) => {}
        }
    }
}

async fn first_collection(mut watch: WatchAll) -> Result<(), WatchEnded> {
    loop {
        match watch.next().await {
            None | Some(Err(InvalidWatch::ShutDown)) => return Err(WatchEnded),
            // An invalid watch was reported where it was started.
            Some(Err(_)) => return Ok(()),
            Some(Ok(change)) if is_answer_for_collection(&change) => return Ok(()),
            Some(Ok(_)) => {}
        }
    }
}
