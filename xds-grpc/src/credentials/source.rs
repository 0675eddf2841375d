//! Files that are followed: what was last good in them stays in use while they hold nothing that is.

use core::fmt;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use hyper::rt::Timer as _;
use tracing::warn;

use super::{error::CredentialsError, files::off_the_runtime};
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
    /// The number of the reading that brought it.
    reading: u64,
    /// How many readings have begun.
    begun: u64,
}

impl<F: Files> Source<F> {
    pub(super) fn new(files: F) -> Self {
        let latest = Mutex::new(Latest { loaded: None, reading: 0, begun: 0 });
        Self { files, latest, refresher: Mutex::default() }
    }

    pub(super) const fn files(&self) -> &F {
        &self.files
    }

    /// What the files say now; if that is nothing sound, what they said when they last did.
    /// On a runtime they are read again at their interval from now on.
    pub(super) async fn current(
        self: &Arc<Self>,
        runtime: Option<&Shared>,
    ) -> Result<Arc<F::Config>, CredentialsError> {
        let source = Arc::clone(self);
        let config = off_the_runtime(runtime, move || source.load()).await?;
        if let Some(runtime) = runtime {
            self.keep_fresh(runtime);
        }
        Ok(config)
    }

    fn load(&self) -> Result<Arc<F::Config>, CredentialsError> {
        let (before, number) = {
            let mut latest = lock(&self.latest);
            latest.begun += 1;
            (latest.loaded.clone(), latest.begun)
        };
        match (self.files.read(before.as_deref()), before) {
            (Ok(Some(new)), _) => {
                let mut latest = lock(&self.latest);
                // One that began later may be done already, and knows better.
                if latest.reading < number {
                    latest.reading = number;
                    latest.loaded = Some(Arc::new(new));
                }
                let loaded = latest.loaded.as_ref().ok_or(CredentialsError::Unsupported)?;
                Ok(Arc::clone(F::config(loaded)))
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
                let _ = off_the_runtime(Some(&timer), move || source.load()).await;
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
