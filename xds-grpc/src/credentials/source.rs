//! Reloading of files. The last valid contents are used while the files are invalid.

use core::fmt;
use std::{
    sync::{Arc, Mutex, Weak},
    time::{Duration, Instant},
};

use hyper::rt::Timer as _;
use tracing::warn;

use super::{
    error::CredentialsError,
    files::{ReadLock, or_previous},
};
use crate::{
    guard::locked,
    runtime::{SharedRuntime, Task},
    zoo::{self, Bug},
};

/// Lower limit of the refresh interval.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// Files from which a configuration is loaded.
pub(super) trait Files: fmt::Debug + Send + Sync + 'static {
    type Config: Send + Sync;
    /// The configuration, with the file contents to detect changes.
    type Loaded: Send + Sync;

    /// Reads the files at a time of the runtime's clock. Returns `None` if they have not changed.
    fn read(
        &self,
        before: Option<&Self::Loaded>,
        now: Instant,
    ) -> Result<Option<Self::Loaded>, CredentialsError>;

    fn config(loaded: &Self::Loaded) -> &Arc<Self::Config>;

    /// Returns the interval at which the files are read between connections; `None` if there are no
    /// files.
    fn refresh_interval(&self) -> Option<Duration>;
}

/// Files and their last valid contents.
pub(super) struct FileSource<F: Files> {
    files: F,
    /// Locked only briefly, as is `refresher`: no lock is held while a file is read, because
    /// reading may hang.
    latest: Mutex<LatestContents<F::Loaded>>,
    read_lock: ReadLock,
    refresher: Mutex<Refresher>,
}

/// Background task that rereads the files.
#[derive(Default)]
struct Refresher {
    task: Option<Task>,
    /// Cannot be upgraded after the task has ended, for example because its runtime was shut down.
    alive: Weak<()>,
}

struct LatestContents<L> {
    loaded: Option<Arc<L>>,
    /// Number of reads started; at most one runs at a time.
    started: u64,
    /// Failure of the last read, which was reported.
    failure: Option<String>,
    /// Set only by a deliberate bug: the files are not read again.
    is_stuck: bool,
}

impl<F: Files> FileSource<F> {
    pub(super) fn new(files: F) -> Self {
        let latest =
            Mutex::new(LatestContents { loaded: None, started: 0, failure: None, is_stuck: false });
        Self { files, latest, read_lock: ReadLock::default(), refresher: Mutex::default() }
    }

    pub(super) const fn files(&self) -> &F {
        &self.files
    }

    /// Reads the files and returns their configuration. If they are invalid or reading takes long,
    /// returns the last valid configuration. Concurrent callers share the next read that begins
    /// after their calls. With a runtime, also starts the background task.
    pub(super) async fn current(
        self: &Arc<Self>,
        runtime: Option<&SharedRuntime>,
    ) -> Result<Arc<F::Config>, CredentialsError> {
        let config = or_previous(runtime, self.read(runtime), || self.previous().map(Ok)).await?;
        if let Some(runtime) = runtime {
            self.start_refresher(runtime);
        }
        Ok(config)
    }

    async fn read(
        self: &Arc<Self>,
        runtime: Option<&SharedRuntime>,
    ) -> Result<Arc<F::Config>, CredentialsError> {
        let (source, before) = (Arc::clone(self), locked(&self.latest).started);
        let now = runtime.map_or_else(Instant::now, |runtime| runtime.now());
        self.read_lock.run(runtime, move || source.load_after(before, now)).await
    }

    /// Returns the last valid contents; `None` before the first read.
    pub(super) fn loaded(&self) -> Option<Arc<F::Loaded>> {
        locked(&self.latest).loaded.clone()
    }

    fn previous(&self) -> Option<Arc<F::Config>> {
        let latest = locked(&self.latest);
        latest.loaded.as_ref().map(|loaded| Arc::clone(F::config(loaded)))
    }

    /// Reads the files, unless a read that started after number `seen` has succeeded or a previous
    /// configuration is still valid. Runs on one thread at a time, so such a read has ended.
    fn load_after(&self, seen: u64, now: Instant) -> Result<Arc<F::Config>, CredentialsError> {
        let before = {
            let mut latest = locked(&self.latest);
            if (latest.started > seen || latest.is_stuck) && latest.loaded.is_some() {
                None
            } else {
                latest.started += 1;
                Some(latest.loaded.clone())
            }
        };
        let Some(before) = before else {
            return self.previous().ok_or(CredentialsError::Unsupported);
        };
        match (self.files.read(before.as_deref(), now), before) {
            (Ok(Some(new)), _) => {
                let new = Arc::new(new);
                let mut latest = locked(&self.latest);
                (latest.loaded, latest.failure) = (Some(Arc::clone(&new)), None);
                Ok(Arc::clone(F::config(&new)))
            }
            (Ok(None), Some(before)) => {
                locked(&self.latest).failure = None;
                Ok(Arc::clone(F::config(&before)))
            }
            (Err(why), Some(before)) => {
                // Peers decide how often the files are read.
                let why = why.to_string();
                let reported = locked(&self.latest).failure.replace(why.clone());
                if reported.is_none_or(|it| it != why) {
                    warn!(
                        reason = why,
                        "cannot reload credentials: the last valid ones stay in use"
                    );
                }
                if zoo::is(Bug::TlsReloadRace) {
                    locked(&self.latest).is_stuck = true;
                }
                Ok(Arc::clone(F::config(&before)))
            }
            (Err(why), None) => Err(why),
            (Ok(None), None) => Err(CredentialsError::Unsupported),
        }
    }

    /// Starts the background task unless it is running. The task ends when the last credentials are
    /// dropped.
    fn start_refresher(self: &Arc<Self>, runtime: &SharedRuntime) {
        let Some(interval) = self.files.refresh_interval() else { return };
        let mut refresher = locked(&self.refresher);
        if refresher.alive.strong_count() > 0 {
            return;
        }
        let (source, alive) = (Arc::downgrade(self), Arc::new(()));
        refresher.alive = Arc::downgrade(&alive);
        let timer = runtime.clone();
        refresher.task = Some(runtime.start(async move {
            let _alive = alive;
            loop {
                timer.sleep(interval.max(MIN_INTERVAL)).await;
                let Some(source) = Weak::upgrade(&source) else { return };
                // An error was logged, and the next connection detects it again.
                let _ = source.read(Some(&timer)).await;
            }
        }));
    }
}

impl<F: Files> fmt::Debug for FileSource<F> {
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

    /// Files whose reading hangs from the second time on.
    #[derive(Debug, Default)]
    struct Hanging {
        readings: AtomicUsize,
    }

    impl Files for Hanging {
        type Config = usize;
        type Loaded = Arc<usize>;

        fn read(
            &self,
            _: Option<&Arc<usize>>,
            _: Instant,
        ) -> Result<Option<Arc<usize>>, CredentialsError> {
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

    /// Blocks until a future is ready, without a runtime.
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
    fn blocked_read_is_not_repeated_and_the_known_value_is_used() {
        let source = Arc::new(FileSource::new(Hanging::default()));
        assert_eq!(*wait(source.current(None)).expect("it is read"), 0);
        // On this runtime timeouts elapse at once, and blocking work is never run.
        let still = SharedRuntime::new(Still);
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
