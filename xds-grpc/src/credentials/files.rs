//! Reading of small files.

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
use crate::runtime::Shared;

/// The longest file that is read, in bytes. All roots of a system are a fifth of that.
const MAX_BYTES: usize = 1 << 20;

/// The content of a regular file: a pipe might never end, or never begin.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, CredentialsError> {
    let unreadable = |why: io::Error| CredentialsError::Unreadable {
        path: path.to_owned(),
        why: why.to_string().into(),
    };
    let mut content = Vec::new();
    // One byte more than is taken, so that a longer file is seen to be longer.
    let limit = MAX_BYTES as u64 + 1;
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(unreadable(io::Error::other("it is a directory")));
    }
    if !metadata.is_file() {
        return Err(unreadable(io::Error::other("it is not a regular file")));
    }
    let file = File::open(path).map_err(unreadable)?;
    file.take(limit).read_to_end(&mut content).map_err(unreadable)?;
    match content.len() > MAX_BYTES {
        true => Err(CredentialsError::TooLong { path: path.to_owned(), limit: MAX_BYTES }),
        false => Ok(content),
    }
}

/// How long a connection waits for files to be read where what they held before would do.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reads the same files once at a time: what they are on may hang, and every connection that wants them would leave one
/// more thread there.
#[derive(Clone, Debug)]
pub(super) struct Turnstile(Arc<Semaphore>);

impl Default for Turnstile {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Turnstile {
    /// Does the work off the runtime, when nobody else is at it any more. It goes on if this is dropped, and keeps
    /// others waiting.
    pub(super) async fn pass<T: Send + 'static>(
        &self,
        runtime: Option<&Shared>,
        work: impl FnOnce() -> Result<T, CredentialsError> + Send + 'static,
    ) -> Result<T, CredentialsError> {
        let turn = Arc::clone(&self.0).acquire_owned().await;
        let work = move || {
            let done = work();
            drop(turn);
            done
        };
        off_the_runtime(runtime, work).await
    }
}

/// What reading comes to; if that takes long, what was known before, if anything was.
pub(super) async fn or_known<T>(
    runtime: Option<&Shared>,
    reading: impl Future<Output = T>,
    known: impl FnOnce() -> Option<T>,
) -> T {
    let mut reading = pin!(reading);
    if let Some(runtime) = runtime {
        if let Some(done) = runtime.timeout(PATIENCE, reading.as_mut()).await {
            return done;
        }
        if let Some(known) = known() {
            return known;
        }
    }
    reading.await
}

/// Reads files where that may take its time: in a thread that the runtime has for it, or without one in a
/// thread of its own.
async fn off_the_runtime<T: Send + 'static>(
    runtime: Option<&Shared>,
    work: impl FnOnce() -> Result<T, CredentialsError> + Send + 'static,
) -> Result<T, CredentialsError> {
    let (sender, done) = oneshot::channel();
    let work = move || {
        // Whoever asked may have gone.
        let _ = sender.send(work());
    };
    match runtime {
        Some(runtime) => runtime.runtime().spawn_blocking(Box::new(work)),
        None => drop(thread::Builder::new().name("credentials".into()).spawn(work)),
    }
    // Nothing else ends the work before it is done.
    done.await.unwrap_or(Err(CredentialsError::Interrupted))
}
