//! Progress of a long operation: one changing line on a terminal, or one line per minute in a log.

use std::{
    io::{self, IsTerminal as _, Write},
    time::{Duration, Instant},
};

use super::{Stderr, flush_stderr};

/// Progress line on standard error.
#[derive(Debug)]
pub(crate) struct Progress {
    output: ProgressOutput,
    last: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgressOutput {
    /// One line on a terminal that is overwritten.
    Terminal,
    /// A new line for each text.
    Log,
}

impl ProgressOutput {
    /// Minimum time between two texts.
    const fn period(self) -> Duration {
        match self {
            Self::Terminal => Duration::from_millis(200),
            Self::Log => Duration::from_secs(60),
        }
    }
}

impl Progress {
    pub(crate) fn new() -> Self {
        match io::stderr().is_terminal() {
            true => Self { output: ProgressOutput::Terminal, last: None },
            // An operation that takes less than a minute prints no progress.
            false => Self { output: ProgressOutput::Log, last: Some(Instant::now()) },
        }
    }

    /// Shows a text unless the last one is too recent.
    pub(crate) fn show(&mut self, text: impl FnOnce() -> String) {
        self.show_at(Instant::now(), &mut Stderr, text);
    }

    fn show_at(&mut self, now: Instant, out: &mut impl Write, text: impl FnOnce() -> String) {
        if self.last.is_some_and(|last| now.duration_since(last) < self.output.period()) {
            return;
        }
        self.last = Some(now);
        // A progress line that cannot be written is dropped.
        let line = match self.output {
            ProgressOutput::Terminal => format!("\r{}\x1b[K", text()),
            ProgressOutput::Log => text() + "\n",
        };
        let _ = out.write_all(line.as_bytes());
    }

    /// Clears the terminal's line for other output.
    pub(crate) fn clear(&mut self) {
        if self.output == ProgressOutput::Terminal && self.last.take().is_some() {
            let _ = Stderr.write_all(b"\r\x1b[K");
            flush_stderr();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(output: ProgressOutput, seconds: &[u64]) -> String {
        let started = Instant::now();
        let mut progress = Progress { output, last: Some(started) };
        let mut out = Vec::new();
        for second in seconds {
            let now = started + Duration::from_secs(*second);
            progress.show_at(now, &mut out, || format!("after {second} s"));
        }
        String::from_utf8(out).expect("it is text")
    }

    #[test]
    fn progress_in_a_log_is_printed_once_a_minute() {
        let printed = printed(ProgressOutput::Log, &[1, 59, 60, 61, 119, 120, 400]);
        assert_eq!(printed, "after 60 s\nafter 120 s\nafter 400 s\n");
    }

    #[test]
    fn progress_on_a_terminal_overwrites_its_line() {
        assert_eq!(
            printed(ProgressOutput::Terminal, &[1, 2]),
            "\rafter 1 s\x1b[K\rafter 2 s\x1b[K"
        );
    }
}
