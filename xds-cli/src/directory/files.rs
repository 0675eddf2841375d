//! The files of a directory that can hold resources, as they are at one moment.

use std::{
    fs,
    io::{self, ErrorKind, Read as _},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use xds_format::Format;

/// The most bytes that a file of resources may have: several times what a large deployment needs,
/// and little enough that a log or an image under such a name does not fill the memory.
const LARGEST: u64 = 256 << 20;

/// One file.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// Where it is, and what errors call it.
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
    /// What is in it, or why that cannot be read.
    pub(crate) content: Result<Bytes, String>,
}

/// Reads the files that lie directly in a directory and have a known suffix. Hidden ones are passed
/// over: editors and the kubelet hide what is not ready.
pub(crate) fn list(directory: &Path) -> io::Result<Vec<File>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let path = directory.join(&name);
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        if let Ok(format) = Format::from_path(&path)
            && let Some(content) = read(&path)
        {
            files.push(File { path, format, content });
        }
    }
    Ok(files)
}

/// `None` if there is no such file: it is a directory or the like, or has just been deleted.
fn read(path: &Path) -> Option<Result<Bytes, String>> {
    let content = match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => return None,
        Ok(metadata) if metadata.len() > LARGEST => return Some(Err(too_large(metadata.len()))),
        Ok(metadata) => read_limited(path, metadata.len()),
        Err(error) => Err(error),
    };
    match content {
        Ok(content) => Some(Ok(content.into())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let is_dangling_link = path.symlink_metadata().is_ok_and(|link| link.is_symlink());
            is_dangling_link.then(|| Err("the link leads nowhere".to_owned()))
        }
        Err(error) => Some(Err(error.to_string())),
    }
}

/// Reads no more than the limit, whatever has become of the file since it was measured.
fn read_limited(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    fs::File::open(path)?.take(LARGEST + 1).read_to_end(&mut content)?;
    match content.len() as u64 {
        length if length > LARGEST => Err(io::Error::other(too_large(length))),
        _ => Ok(content),
    }
}

fn too_large(length: u64) -> String {
    format!("the file has {length} B, and no more than {LARGEST} B are read")
}
