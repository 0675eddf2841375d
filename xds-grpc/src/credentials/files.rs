//! Reading of small files with a size limit, off the runtime's threads.

use core::{future::Future, pin::pin, time::Duration};
use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
    sync::Arc,
    thread,
};

use tokio::sync::{Semaphore, oneshot};

use super::error::CredentialsError;
use crate::runtime::SharedRuntime;

/// Maximum size of a file in bytes. A system's complete root certificates need about a fifth of it.
const MAX_BYTES: usize = 1 << 20;

/// Reads a regular file. Other kinds, such as pipes, are rejected because reading them may block
/// forever.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, CredentialsError> {
    let unreadable = |why: io::Error| CredentialsError::Unreadable {
        path: path.to_owned(),
        why: why.to_string().into(),
    };
    let mut content = Vec::new();
    // One byte more than the limit, to detect longer files.
    let limit = MAX_BYTES as u64 + 1;
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(unreadable(io::Error::other("the path is a directory")));
    }
    if !metadata.is_file() {
        return Err(unreadable(io::Error::other("the path is not a regular file")));
    }
    let file = File::open(path).map_err(unreadable)?;
    file.take(limit).read_to_end(&mut content).map_err(unreadable)?;
    match content.len() > MAX_BYTES {
        true => Err(CredentialsError::TooLong { path: path.to_owned(), limit: MAX_BYTES }),
        false => Ok(content),
    }
}

/// Maximum time that a connection waits for files to be read if previous contents are available.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Lock that limits reading of a set of files to one thread at a time.
///
/// Reading may hang on a network file system. Without the lock, each connection would then block
/// another thread.
#[derive(Clone, Debug)]
pub(super) struct ReadLock(Arc<Semaphore>);

impl Default for ReadLock {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl ReadLock {
    /// Runs the work off the runtime when no other work holds the lock. If the future is dropped,
    /// the work continues and keeps the lock.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        runtime: Option<&SharedRuntime>,
        work: impl FnOnce() -> Result<T, CredentialsError> + Send + 'static,
    ) -> Result<T, CredentialsError> {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        let work = move || {
            let done = work();
            drop(permit);
            done
        };
        run_blocking(runtime, work).await
    }
}

/// Returns the output of `reading`. If it takes longer than [`READ_TIMEOUT`], returns the known value
/// if there is one.
pub(super) async fn or_previous<T>(
    runtime: Option<&SharedRuntime>,
    reading: impl Future<Output = T>,
    previous: impl FnOnce() -> Option<T>,
) -> T {
    let mut reading = pin!(reading);
    if let Some(runtime) = runtime {
        if let Some(done) = runtime.timeout(READ_TIMEOUT, reading.as_mut()).await {
            return done;
        }
        if let Some(previous) = previous() {
            return previous;
        }
    }
    reading.await
}

/// Runs blocking work on a thread of the runtime, or on a new thread if there is no runtime.
async fn run_blocking<T: Send + 'static>(
    runtime: Option<&SharedRuntime>,
    work: impl FnOnce() -> Result<T, CredentialsError> + Send + 'static,
) -> Result<T, CredentialsError> {
    let (sender, done) = oneshot::channel();
    let work = move || {
        // The caller may have dropped the future.
        let _ = sender.send(work());
    };
    match runtime {
        Some(runtime) => runtime.runtime().spawn_blocking(Box::new(work)),
        None => drop(thread::Builder::new().name("credentials".into()).spawn(work)),
    }
    // The sender is only dropped without a result if the runtime dropped the work.
    done.await.unwrap_or(Err(CredentialsError::Interrupted))
}
