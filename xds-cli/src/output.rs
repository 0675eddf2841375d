//! Standard output and error. Unlike with `println!`, whoever reads them may go away.

use std::io::{self, Write as _};

use crate::failure::Failure;

/// Prints one or several lines at once.
pub(crate) fn print(lines: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let text = lines.strip_suffix('\n').unwrap_or(lines);
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Says on standard error what is wrong, if anybody listens.
pub(crate) fn complain(lines: &str) {
    let _ = writeln!(io::stderr().lock(), "{lines}");
}
