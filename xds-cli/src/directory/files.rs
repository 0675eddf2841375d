//! The files of a directory that can hold resources, as they are at one moment.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use xds_format::Format;

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
        Ok(_) => fs::read(path),
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
