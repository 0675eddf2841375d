//! Escaping of text for a terminal, and the time of day.

use core::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use xds_core::types;

/// Returns the short name of a type, such as `cds`, or its URL.
pub(crate) fn type_name(type_url: &str) -> &str {
    types::short_name(type_url).unwrap_or(type_url)
}

/// Returns the first line of a text without control characters, which a peer could use to
/// manipulate the terminal. Ends in an ellipsis if the line exceeds `longest` characters or more
/// lines follow.
pub(crate) fn one_line(text: &str, longest: usize) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.next().unwrap_or_default();
    let mut is_cut = lines.next().is_some();
    let mut out = String::new();
    for (at, character) in line.chars().enumerate() {
        if at == longest {
            is_cut = true;
            break;
        }
        push_printable(&mut out, character);
    }
    if is_cut {
        out.push('…');
    }
    out
}

/// Returns the whole text on one line, with control characters escaped.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|character| push_printable(&mut out, character));
    out
}

fn push_printable(out: &mut String, character: char) {
    if character.is_control() {
        // Writing to a string cannot fail.
        let _ = write!(out, "{}", character.escape_default());
    } else {
        out.push(character);
    }
}

/// Returns the time of day in UTC, such as `12:00:01.003`.
pub(crate) fn time_of_day() -> String {
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let (seconds, millis) = (millis / 1_000 % 86_400, millis % 1_000);
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}.{millis:03}")
}

/// Formats a number with a noun: `1 resource`, `2 resources`.
pub(crate) fn count(number: impl Into<u64>, what: &str) -> String {
    let number = number.into();
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_multi_line_texts_become_one_line() {
        assert_eq!(one_line("all of it", 20), "all of it");
        assert_eq!(
            one_line("a cluster is bad: name: \"x\"\ntype: EDS\n", 80),
            "a cluster is bad: name: \"x\"…"
        );
        assert_eq!(one_line("0123456789", 4), "0123…");
        assert_eq!(one_line("\n\n  indented\n", 80), "indented");
        assert_eq!(one_line("red \x1b[31malert", 80), "red \\u{1b}[31malert");
        assert_eq!(one_line("", 80), "");
    }

    #[test]
    fn time_of_day_has_three_decimals() {
        assert_eq!(time_of_day().len(), "12:00:01.003".len());
    }
}
