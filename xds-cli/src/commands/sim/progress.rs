//! A line on a terminal that says how far something is.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

/// How often the line changes.
const PERIOD: Duration = Duration::from_millis(200);

/// The line, on standard error. Nothing is shown if that is no terminal.
#[derive(Debug)]
pub(super) struct Progress {
    is_shown: bool,
    last: Option<Instant>,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { is_shown: io::stderr().is_terminal(), last: None }
    }

    /// Shows the text in the place of the last one, but not too often.
    pub(super) fn show(&mut self, text: impl FnOnce() -> String) {
        let now = Instant::now();
        if !self.is_shown || self.last.is_some_and(|last| now.duration_since(last) < PERIOD) {
            return;
        }
        self.last = Some(now);
        let _ = write!(io::stderr().lock(), "\r{}\x1b[K", text());
    }

    /// Leaves the line empty.
    pub(super) fn clear(&mut self) {
        if self.last.take().is_some() {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}
