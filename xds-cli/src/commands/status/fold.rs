//! Look of the output for people: colours, and lines that fit the width of a terminal.

use std::{
    io::{self, IsTerminal as _},
    iter,
};

use crate::style::Style;

/// Width of a terminal that does not state it.
const DEFAULT_WIDTH: usize = 80;
/// Minimum width to fold at.
const LEAST_WIDTH: usize = 30;

/// Look of the output for people.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) style: Style,
    /// Width at which lines are folded; `None` if they are not.
    pub(super) width: Option<usize>,
}

impl View {
    /// Returns the look of standard output: folded at the width of a terminal, otherwise whole.
    pub(super) fn of_stdout(style: Style) -> Self {
        let width = || match terminal_size::terminal_size_of(io::stdout()) {
            Some((width, _)) if width.0 > 0 => usize::from(width.0).max(LEAST_WIDTH),
            _ => DEFAULT_WIDTH,
        };
        Self { style, width: io::stdout().is_terminal().then(width) }
    }

    /// Returns the look with the present width of the terminal.
    pub(super) fn refreshed(self) -> Self {
        Self::of_stdout(self.style)
    }
}

/// Breaks a text into lines of at most `width` characters, at spaces where there are any. Lines
/// after the first are indented.
pub(super) fn folded(text: &str, indent: usize, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let mut lines: Vec<String> = Vec::new();
    // The first line keeps its own indentation.
    let own = text.len() - text.trim_start_matches(' ').len();
    let mut line: String = iter::repeat_n(' ', own).collect();
    let (mut used, mut is_empty) = (own, true);
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut rest: Vec<char> = word.chars().collect();
        loop {
            let gap = usize::from(!is_empty);
            if used + gap + rest.len() <= width {
                line.push_str(if is_empty { "" } else { " " });
                line.extend(rest.iter());
                used += gap + rest.len();
                is_empty = false;
                break;
            }
            if is_empty {
                // A word that is longer than a line.
                let taken = width.saturating_sub(used).clamp(1, rest.len());
                line.extend(rest.drain(..taken));
            }
            lines.push(core::mem::take(&mut line));
            line.extend(iter::repeat_n(' ', indent));
            (used, is_empty) = (indent, true);
            if rest.is_empty() {
                break;
            }
        }
    }
    lines.push(line);
    lines.retain(|line| !line.trim().is_empty());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_folded_at_spaces_or_within_long_words() {
        let text = "  one two three four";
        assert_eq!(folded(text, 4, None), text);
        assert_eq!(folded(text, 4, Some(40)), text);
        assert_eq!(folded(text, 4, Some(11)), "  one two\n    three\n    four");
        assert_eq!(folded("abcdefghij k", 2, Some(6)), "abcdef\n  ghij\n  k");
        assert_eq!(folded("a abcdefgh", 2, Some(4)), "a\n  ab\n  cd\n  ef\n  gh");
        assert_eq!(folded("ééé é", 1, Some(5)), "ééé é");
        assert_eq!(folded("", 2, Some(10)), "");
    }
}
