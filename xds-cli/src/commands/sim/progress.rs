//! How far something is: a line on a terminal that changes, or elsewhere, as in a log, a line every now and then.

use std::{
    io::{self, IsTerminal as _, Write},
    time::{Duration, Instant},
};

use crate::output::{Stderr, flush_stderr};

/// What is told, on standard error.
#[derive(Debug)]
pub(super) struct Progress {
    form: Form,
    last: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// One line of a terminal, each text in the place of the last one.
    Terminal,
    /// A line for each text, where nothing can be taken back.
    Log,
}

impl Form {
    /// How often there is a new text.
    const fn period(self) -> Duration {
        match self {
            Self::Terminal => Duration::from_millis(200),
            Self::Log => Duration::from_secs(60),
        }
    }
}

impl Progress {
    pub(super) fn new() -> Self {
        match io::stderr().is_terminal() {
            true => Self { form: Form::Terminal, last: None },
            // What is done within a minute needs no news of it.
            false => Self { form: Form::Log, last: Some(Instant::now()) },
        }
    }

    /// Shows the text, but not too often.
    pub(super) fn show(&mut self, text: impl FnOnce() -> String) {
        self.show_at(Instant::now(), &mut Stderr, text);
    }

    fn show_at(&mut self, now: Instant, out: &mut impl Write, text: impl FnOnce() -> String) {
        if self.last.is_some_and(|last| now.duration_since(last) < self.form.period()) {
            return;
        }
        self.last = Some(now);
        // Whoever does not read it misses nothing else.
        let line = match self.form {
            Form::Terminal => format!("\r{}\x1b[K", text()),
            Form::Log => text() + "\n",
        };
        let _ = out.write_all(line.as_bytes());
    }

    /// Leaves a terminal's line empty, for what is printed there next.
    pub(super) fn clear(&mut self) {
        if self.last.take().is_some() && self.form == Form::Terminal {
            let _ = Stderr.write_all(b"\r\x1b[K");
            flush_stderr();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(form: Form, seconds: &[u64]) -> String {
        let started = Instant::now();
        let mut progress = Progress { form, last: Some(started) };
        let mut out = Vec::new();
        for second in seconds {
            let now = started + Duration::from_secs(*second);
            progress.show_at(now, &mut out, || format!("after {second} s"));
        }
        String::from_utf8(out).expect("it is text")
    }

    #[test]
    fn a_log_has_a_line_a_minute() {
        let told = told(Form::Log, &[1, 59, 60, 61, 119, 120, 400]);
        assert_eq!(told, "after 60 s\nafter 120 s\nafter 400 s\n");
    }

    #[test]
    fn a_line_of_a_terminal_is_written_over() {
        assert_eq!(told(Form::Terminal, &[1, 2]), "\rafter 1 s\x1b[K\rafter 2 s\x1b[K");
    }
}
