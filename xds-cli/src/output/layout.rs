//! Layout of text lines: folded to the width of a terminal, whole otherwise.

use std::{
    borrow::Cow,
    io::{self, IsTerminal},
};

use crate::text::{time_of_day, timestamp};

/// Kind of a standard stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Terminal: lines fold at its width.
    Terminal(Stream),
    /// File or pipe: lines stay whole, so that tools such as grep find them.
    Plain,
}

/// Standard stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Layout {
    pub(crate) fn of_stdout() -> Self {
        if io::stdout().is_terminal() { Self::Terminal(Stream::Stdout) } else { Self::Plain }
    }

    pub(crate) fn of_stderr() -> Self {
        if io::stderr().is_terminal() { Self::Terminal(Stream::Stderr) } else { Self::Plain }
    }

    /// Returns the current time in UTC: the time of day on a terminal, otherwise with the date.
    pub(crate) fn time(self) -> String {
        match self {
            Self::Terminal(_) => time_of_day(),
            Self::Plain => timestamp(),
        }
    }

    /// Returns the present width of the terminal; without one, lines may have any length.
    pub(crate) fn width(self) -> usize {
        match self {
            Self::Terminal(stream) => stream.width(),
            Self::Plain => usize::MAX,
        }
    }

    /// Folds each line to the present width of the terminal.
    pub(crate) fn fold(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Terminal(stream) => fold(text, stream.width()),
            Self::Plain => text.into(),
        }
    }
}

impl Stream {
    fn width(self) -> usize {
        let size = match self {
            Self::Stdout => terminal_size::terminal_size_of(io::stdout()),
            Self::Stderr => terminal_size::terminal_size_of(io::stderr()),
        };
        match size {
            Some((width, _)) if width.0 > 0 => width.0.into(),
            _ => DEFAULT_WIDTH,
        }
    }
}

/// Width of a terminal that does not state it.
const DEFAULT_WIDTH: usize = 80;
/// Minimum width to fold at.
const LEAST_WIDTH: usize = 30;
/// Indentation of the continuation of a line, relative to the line.
const CONTINUATION: usize = 6;

/// Folds each line at spaces so that it has at most `width` characters. A longer word stays whole,
/// so that it can be copied.
fn fold(text: &str, width: usize) -> Cow<'_, str> {
    let is_wide = text.lines().any(|line| columns(line) > width);
    if width < LEAST_WIDTH || !is_wide {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 64);
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            out.push('\n');
        }
        fold_line(&mut out, line, width);
    }
    out.into()
}

fn fold_line(out: &mut String, line: &str, width: usize) {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let continuation = (indent + CONTINUATION).min(width / 2);
    out.push_str(&line[..indent]);
    let mut column = indent;
    let mut is_first = true;
    // Several spaces separate columns, and are kept.
    let mut gap = 0;
    for word in line[indent..].split(' ') {
        let length = columns(word);
        if !is_first {
            gap += 1;
        }
        if length == 0 && !is_first {
            continue;
        }
        if !is_first && column + gap + length > width {
            out.push('\n');
            out.extend(core::iter::repeat_n(' ', continuation));
            column = continuation;
        } else {
            out.extend(core::iter::repeat_n(' ', gap));
            column += gap;
        }
        out.push_str(word);
        column += length;
        gap = 0;
        is_first = false;
    }
}

/// Number of characters that are visible: colours are not.
fn columns(text: &str) -> usize {
    let mut columns = 0;
    let mut is_colour = false;
    for character in text.chars() {
        match character {
            '\x1b' => is_colour = true,
            'm' if is_colour => is_colour = false,
            _ if !is_colour => columns += 1,
            _ => {}
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_fold_at_spaces() {
        assert_eq!(
            fold("12:00:01.003Z  + cds a  EDS, ROUND_ROBIN  version 7, 20 B", 40),
            "12:00:01.003Z  + cds a  EDS, ROUND_ROBIN\n      version 7, 20 B"
        );
        // Only the wide line of several is folded, and its indentation is kept.
        assert_eq!(
            fold("short line of a few words\n    a field: of some more words here", 30),
            "short line of a few words\n    a field: of some more\n          words here"
        );
    }

    #[test]
    fn long_words_stay_whole() {
        let name = "x".repeat(50);
        let folded = fold(&format!("+ cds {name} is there now"), 30).into_owned();
        assert_eq!(folded, format!("+ cds\n      {name}\n      is there now"));
        assert_eq!(fold(&name, 30), name);
    }

    #[test]
    fn colours_take_no_width() {
        let line = "\x1b[2m12:00:01.003Z\x1b[0m  + cds \x1b[1mabcdef\x1b[0m";
        assert_eq!(fold(line, 30), line);
        assert_eq!(columns(line), 27);
    }

    #[test]
    fn lines_that_fit_or_cannot_fit_are_unchanged() {
        for (text, width) in [("", 80), ("a b\n", 80), ("a  b", 30)] {
            assert_eq!(fold(text, width), text);
        }
        let text = "some words that are wider than a tiny terminal";
        assert_eq!(fold(text, LEAST_WIDTH - 1), text);
    }

    #[test]
    fn text_for_a_pipe_is_never_folded() {
        let text = "word ".repeat(100);
        assert_eq!(Layout::Plain.fold(&text), text);
    }
}
