//! Consistent reads of resource files.

use core::time::Duration;
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    io::{self, ErrorKind, Read as _},
    path::{Path, PathBuf},
    thread,
};

use bytes::Bytes;
use xds_format::Format;

use crate::settling::{EMPTY_PAUSE, EMPTY_READS};

/// Maximum size of a resource file in bytes: several times what a large deployment needs, but small
/// enough that a log or an image with the name of a resource file does not exhaust the memory.
const LARGEST: u64 = 256 << 20;

/// File of a directory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct File {
    /// Path of the file, also used in errors.
    pub path: PathBuf,
    /// Format of the file, by its suffix.
    pub format: Format,
    /// Content of the file, or the reason why it cannot be read.
    pub content: Result<Bytes, String>,
}

impl File {
    /// Creates a file from its path, its format, and its content or the reason why it cannot be read.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, format: Format, content: Result<Bytes, String>) -> Self {
        Self { path: path.into(), format, content }
    }
}

/// Maximum number of reads while links keep changing. A later change triggers another read.
const MOST_READS: usize = 8;

/// Reads the files in a directory, without subdirectories, that have a known suffix.
///
/// Hidden files are ignored, because editors and the kubelet hide incomplete files. A directory,
/// pipe, socket or device with a known suffix is returned as an unreadable file. If it were ignored
/// and had replaced a file, all resources of that file would be deleted.
///
/// The kubelet updates all files by swapping one symbolic link. The result has all files either
/// from before or from after the swap.
///
/// # Errors
///
/// Returns an error if the directory cannot be read. An unreadable file is part of the result.
pub fn list(directory: &Path) -> io::Result<Vec<File>> {
    settled(|| places(directory), || read_all(directory))
}

/// Reads the files in a directory as [`list`] does, and waits up to half a second of real time for
/// empty files to be filled.
///
/// # Errors
///
/// Returns the errors of [`list`].
pub fn list_saved(directory: &Path) -> io::Result<Vec<File>> {
    let is_empty = |file: &File| file.content.as_ref().is_ok_and(Bytes::is_empty);
    for _ in 0..EMPTY_READS {
        let files = list(directory)?;
        if !files.iter().any(is_empty) {
            return Ok(files);
        }
        thread::sleep(EMPTY_PAUSE);
    }
    list(directory)
}

/// Reads again until no link changes during the read.
fn settled<P: PartialEq, T>(
    mut places: impl FnMut() -> io::Result<P>,
    mut read: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let mut before = places()?;
    for _ in 1..MOST_READS {
        let content = read()?;
        let after = places()?;
        if after == before {
            return Ok(content);
        }
        before = after;
    }
    read()
}

/// Returns the canonical paths of the files of a directory, `None` for dangling links.
fn places(directory: &Path) -> io::Result<BTreeMap<OsString, Option<PathBuf>>> {
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name());
    let names = fs::read_dir(directory)?.map(name);
    names.map(|name| name.map(|it| (it.clone(), directory.join(it).canonicalize().ok()))).collect()
}

fn read_all(directory: &Path) -> io::Result<Vec<File>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let path = directory.join(&name);
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        if let Ok(format) = Format::from_path(&path)
            && let Some(content) = read_entry(&path)
        {
            files.push(File { path, format, content });
        }
    }
    Ok(files)
}

/// Reads a file; `None` if it was just deleted.
fn read_entry(path: &Path) -> Option<Result<Bytes, String>> {
    match read(path) {
        Ok(content) => Some(Ok(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let is_dangling_link = path.symlink_metadata().is_ok_and(|link| link.is_symlink());
            is_dangling_link.then(|| Err("dangling symbolic link".to_owned()))
        }
        Err(error) => Some(Err(error.to_string())),
    }
}

/// Reads a file up to the size limit, even if it grows after its size was checked. Only regular
/// files are read, because a pipe would never end.
pub(crate) fn read(path: &Path) -> io::Result<Bytes> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        let kind = if metadata.is_dir() { "a directory" } else { "a pipe, socket or device" };
        return Err(io::Error::other(format!("expected a regular file, found {kind}")));
    }
    let too_large = |length: u64| {
        let why = format!("the file has {length} bytes, more than the limit of {LARGEST} bytes");
        io::Error::other(why)
    };
    if metadata.len() > LARGEST {
        return Err(too_large(metadata.len()));
    }
    let mut content = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    fs::File::open(path)?.take(LARGEST + 1).read_to_end(&mut content)?;
    match content.len() as u64 {
        length if length > LARGEST => Err(too_large(length)),
        _ => Ok(content.into()),
    }
}

/// Whether the modification time of a file is less than `time` ago, by the clock of the operating
/// system. A modification time in the future, for example from another computer, does not count.
pub(crate) fn is_changed_within(path: &Path, time: Duration) -> bool {
    let changed = fs::metadata(path).and_then(|metadata| metadata.modified());
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age < time))
}

#[cfg(test)]
mod tests {
    use core::{cell::Cell, mem};

    use super::*;

    #[test]
    fn files_swapped_during_a_read_are_read_again() {
        // Two files link to a revision, which changes between the reads of the first and the
        // second.
        let mut is_swapped_meanwhile = true;
        let revision = Cell::new(1);
        let read = || {
            let first = revision.get();
            if mem::take(&mut is_swapped_meanwhile) {
                revision.set(2);
            }
            Ok([first, revision.get()])
        };
        assert_eq!(settled(|| Ok(revision.get()), read).unwrap(), [2, 2]);
    }

    #[test]
    fn files_that_never_settle_are_read_after_the_maximum_of_retries() {
        let (mut moves, mut reads) = (0, 0);
        let places = || {
            moves += 1;
            Ok(moves)
        };
        let read = || {
            reads += 1;
            Ok(())
        };
        settled(places, read).unwrap();
        assert_eq!(reads, MOST_READS);
    }
}
