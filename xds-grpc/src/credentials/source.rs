//! Files that are followed: what was last good in them stays in use while they hold nothing that is.

use core::fmt;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use hyper::rt::Timer as _;
use tracing::warn;

use super::{
    error::CredentialsError,
    files::{Turnstile, or_known},
};
use crate::runtime::{Shared, Task};

/// Files are not read more often than that, however short their interval is.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// Files that a configuration is made of.
pub(super) trait Files: fmt::Debug + Send + Sync + 'static {
    type Config: Send + Sync;
    /// The configuration, and what has to be known to see that the files have not changed.
    type Loaded: Send + Sync;

    /// What the files say; `None` if that is what they said before.
    fn read(&self, before: Option<&Self::Loaded>)
    -> Result<Option<Self::Loaded>, CredentialsError>;

    fn config(loaded: &Self::Loaded) -> &Arc<Self::Config>;

    /// How often the files are read between connections; `None` if there are none.
    fn refresh_interval(&self) -> Option<Duration>;
}

/// The files, and what was last good in them.
pub(super) struct Source<F: Files> {
    files: F,
    /// Neither lock is held while a file is read: what it is on may hang.
    latest: Mutex<Latest<F::Loaded>>,
    turnstile: Turnstile,
    refresher: Mutex<Refresher>,
}

/// Reads the files between connections.
#[derive(Default)]
struct Refresher {
    task: Option<Task>,
    /// Gone with the task, as when its runtime is shut down.
    alive: Weak<()>,
}

struct Latest<L> {
    loaded: Option<Arc<L>>,
    /// How many readings have begun: one at a time.
    begun: u64,
}

impl<F: Files> Source<F> {
    pub(super) fn new(files: F) -> Self {
        let latest = Mutex::new(Latest { loaded: None, begun: 0 });
        Self { files, latest, turnstile: Turnstile::default(), refresher: Mutex::default() }
    }

    pub(super) const fn files(&self) -> &F {
        &self.files
    }

    /// What the files say now; if that is nothing sound, or is long in coming, what they said when they last did.
    /// Who comes while they are read waits for one reading that begins after that, together with all others who do.
    /// On a runtime they are read again at their interval from now on.
    pub(super) async fn current(
        self: &Arc<Self>,
        runtime: Option<&Shared>,
    ) -> Result<Arc<F::Config>, CredentialsError> {
        let config = or_known(runtime, self.read(runtime), || self.known().map(Ok)).await?;
        if let Some(runtime) = runtime {
            self.keep_fresh(runtime);
        }
        Ok(config)
    }

    async fn read(
        self: &Arc<Self>,
        runtime: Option<&Shared>,
    ) -> Result<Arc<F::Config>, CredentialsError> {
        let (source, before) = (Arc::clone(self), lock(&self.latest).begun);
        self.turnstile.pass(runtime, move || source.load_after(before)).await
    }

    fn known(&self) -> Option<Arc<F::Config>> {
        let latest = lock(&self.latest);
        latest.loaded.as_ref().map(|loaded| Arc::clone(F::config(loaded)))
    }

    /// Reads the files, unless a reading has begun after `seen` of them that brought something, or what was there
    /// before still holds. Nobody else does at this moment, so that one has ended as well.
    fn load_after(&self, seen: u64) -> Result<Arc<F::Config>, CredentialsError> {
        let before = {
            let mut latest = lock(&self.latest);
            if latest.begun > seen && latest.loaded.is_some() {
                None
            } else {
                latest.begun += 1;
                Some(latest.loaded.clone())
            }
        };
        let Some(before) = before else {
            return self.known().ok_or(CredentialsError::Unsupported);
        };
        match (self.files.read(before.as_deref()), before) {
            (Ok(Some(new)), _) => {
                let new = Arc::new(new);
                lock(&self.latest).loaded = Some(Arc::clone(&new));
                Ok(Arc::clone(F::config(&new)))
            }
            (Ok(None), Some(before)) => Ok(Arc::clone(F::config(&before))),
            (Err(why), Some(before)) => {
                warn!(reason = %why, "what was read before stays in use");
                Ok(Arc::clone(F::config(&before)))
            }
            (Err(why), None) => Err(why),
            (Ok(None), None) => Err(CredentialsError::Unsupported),
        }
    }

    /// Sees to it that the files are read at their interval as long as anybody may connect with them.
    fn keep_fresh(self: &Arc<Self>, runtime: &Shared) {
        let Some(interval) = self.files.refresh_interval() else { return };
        let mut refresher = lock(&self.refresher);
        if refresher.alive.strong_count() > 0 {
            return;
        }
        let (source, alive) = (Arc::downgrade(self), Arc::new(()));
        refresher.alive = Arc::downgrade(&alive);
        let timer = runtime.clone();
        refresher.task = Some(runtime.start(async move {
            let _alive = alive;
            loop {
                timer.sleep(interval.max(SHORTEST_INTERVAL)).await;
                let Some(source) = Weak::upgrade(&source) else { return };
                // What is wrong is logged, and found again by whoever connects.
                let _ = source.read(Some(&timer)).await;
            }
        }));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics under these locks; a poisoned one would still hold a sound state.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<F: Files> fmt::Debug for Source<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Files").field(&self.files).finish()
    }
}

#[cfg(test)]
mod tests {
    use core::{
        future::Future as _,
        pin::pin,
        sync::atomic::{AtomicUsize, Ordering},
        task::{Context, Poll, Waker},
    };

    use super::*;
    use crate::runtime::tests::Still;

    /// Files on something that hangs once they have been read.
    #[derive(Debug, Default)]
    struct Hanging {
        readings: AtomicUsize,
    }

    impl Files for Hanging {
        type Config = usize;
        type Loaded = Arc<usize>;

        fn read(&self, _: Option<&Arc<usize>>) -> Result<Option<Arc<usize>>, CredentialsError> {
            let before = self.readings.fetch_add(1, Ordering::SeqCst);
            if before > 0 {
                loop {
                    std::thread::park();
                }
            }
            Ok(Some(Arc::new(before)))
        }

        fn config(loaded: &Arc<usize>) -> &Arc<usize> {
            loaded
        }

        fn refresh_interval(&self) -> Option<Duration> {
            None
        }
    }

    /// A thread for each piece of work, as runtimes have them, and no time.
    fn wait<T>(future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(done) = future.as_mut().poll(&mut cx) {
                return done;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_hangs_is_read_once_and_what_is_known_is_used() {
        let source = Arc::new(Source::new(Hanging::default()));
        assert_eq!(*wait(source.current(None)).expect("it is read"), 0);
        // Patience ends at once on this runtime, which gives nobody a thread.
        let still = Shared::new(Still);
        let stuck = source.current(None);
        let mut stuck = pin!(stuck);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(stuck.as_mut().poll(&mut cx).is_pending());
        while source.files.readings.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
        for _ in 0..10 {
            assert_eq!(*wait(source.current(Some(&still))).expect("it is known"), 0);
        }
        assert_eq!(source.files.readings.load(Ordering::SeqCst), 2, "nobody else hangs there");
        println!("covers: B42");
    }
}
