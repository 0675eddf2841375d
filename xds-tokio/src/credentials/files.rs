//! Reading of small files.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

use super::error::CredentialsError;

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
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("it is not a regular file")));
    }
    let file = File::open(path).map_err(unreadable)?;
    file.take(limit).read_to_end(&mut content).map_err(unreadable)?;
    match content.len() > MAX_BYTES {
        true => Err(CredentialsError::TooLong { path: path.to_owned(), limit: MAX_BYTES }),
        false => Ok(content),
    }
}

/// Reads files where that may take its time.
pub(super) async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CredentialsError> + Send + 'static,
) -> Result<T, CredentialsError> {
    // Nothing else ends the work before it is done.
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(CredentialsError::Interrupted))
}
