//! Files of the checkout, and the errors of commands that read and write them.

pub(crate) mod error;
pub(crate) mod exceptions;
pub(crate) mod tree;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use error::Error;
use tree::at;

/// Line of a data file that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadLine {
    /// Line number, from 1.
    pub(crate) line: usize,
    pub(crate) why: String,
}

impl BadLine {
    /// Converts to an error that names the file.
    pub(crate) fn in_file(self, path: &str) -> Error {
        Error::Line { path: path.to_owned(), line: self.line, why: self.why }
    }
}

/// Returns the workspace's root, whatever the working directory is.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("the manifest directory of xtask is in the workspace root").to_path_buf()
}

/// Reads a file, with line feeds as line ends on every platform.
pub(crate) fn read(root: &Path, path: &str) -> Result<String, Error> {
    let path = root.join(path);
    Ok(fs::read_to_string(&path).map_err(at(&path))?.replace("\r\n", "\n"))
}

/// Returns the lines of a data file with their numbers, without empty lines and comments.
pub(crate) fn entries(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim_end()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Prints a line. A reader such as `head` may have closed the output, which is no error.
pub(crate) fn print(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
