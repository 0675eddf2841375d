//! Escaping of text for a terminal, and times.

use core::{fmt::Write as _, time::Duration};

use tracing_subscriber::fmt::{
    format::Writer,
    time::{FormatTime as _, SystemTime},
};
use xds_core::types;

/// Returns the short name of a type, such as `cds`, or its URL.
pub(crate) fn type_name(type_url: &str) -> &str {
    types::short_name(type_url).unwrap_or(type_url)
}

/// Returns the first line of a text without control characters and marks that change the direction
/// of text, which a peer could use to manipulate the terminal. Ends in an ellipsis if the line exceeds `longest` characters or more
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

/// Returns the line of a rejection that states its reason, as [`one_line`].
///
/// Envoy quotes the whole resource before the reason. Only the name is left of the quotation.
pub(crate) fn reason_line(text: &str, longest: usize) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, quoted)) = rest.split_once(QUOTATION) {
        let Some((resource, after)) = quoted.split_once(END_OF_QUOTATION) else { break };
        out.push_str(before);
        let field = |line: &str| Some(line.split_once("name: \"")?.1.split_once('"')?.0.to_owned());
        if let Some(name) = resource.lines().find_map(field) {
            out.push_str(&name);
            out.push_str(": ");
        }
        rest = after;
    }
    out.push_str(rest);
    one_line(&out, longest)
}

/// Beginning of a message that protobuf has printed for people.
const QUOTATION: &str = "goo.gle/debug";
/// End of such a message. None of its lines begins with a colon.
const END_OF_QUOTATION: &str = "\n: ";

/// Returns the whole text on one line, with control characters escaped.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|character| push_printable(&mut out, character));
    out
}

/// Returns a text of several lines with control characters other than line ends escaped.
pub(crate) fn escaped_lines(text: &str) -> String {
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\n")
}

/// Returns a text as one word of a POSIX shell.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "%+,-./:=@_".contains(it);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

fn push_printable(out: &mut String, character: char) {
    if character.is_control() || is_layout_mark(character) {
        // Writing to a string cannot fail.
        let _ = write!(out, "{}", character.escape_default());
    } else {
        out.push(character);
    }
}

/// Whether a character changes the direction of the text around it or ends a line, so that a
/// terminal may show a text in another order.
fn is_layout_mark(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// Returns the time in UTC as of RFC 3339, such as `2026-01-02T12:00:01.003141Z`, in the form that
/// log lines have.
pub(crate) fn timestamp() -> String {
    let mut time = String::new();
    // Writing to a string cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    time
}

/// Returns the time of day in UTC, such as `12:00:01.003Z`.
pub(crate) fn time_of_day() -> String {
    let time = timestamp();
    let time = time.split_once('T').map_or(&*time, |(_, time)| time);
    format!("{}Z", time.get(..TIME).unwrap_or(time))
}

/// Length of a time of day with milliseconds.
const TIME: usize = "12:00:01.003".len();

/// Formats a duration, also zero, with a unit that the arguments accept.
pub(crate) fn seconds(duration: Duration) -> String {
    match duration.is_zero() {
        true => "0s".to_owned(),
        false => format!("{duration:?}"),
    }
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
    fn control_characters_are_escaped_except_line_ends() {
        assert_eq!(escaped_lines("a\x1b[31m\nb\r\n"), "a\\u{1b}[31m\nb\\r\n");
    }

    #[test]
    fn marks_that_reorder_text_are_escaped() {
        let name = "a\u{202e}b\u{2066}c\u{2028}d\u{200f}";
        assert_eq!(escaped(name), r"a\u{202e}b\u{2066}c\u{2028}d\u{200f}");
        for name in ["日本語", "شبكة", "e\u{301}", "a\u{200d}b"] {
            assert_eq!(escaped(name), name);
        }
    }

    #[test]
    fn words_of_a_shell_are_quoted_if_necessary() {
        assert_eq!(shell_word("conf/a-b.yaml"), "conf/a-b.yaml");
        assert_eq!(shell_word("my conf"), "'my conf'");
        assert_eq!(shell_word("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(shell_word(""), "''");
    }

    /// Reasons in the form of Envoy 1.40.
    #[test]
    fn reason_of_envoy_is_shown_without_the_resource() {
        let constraint =
            "Proto constraint validation failed (ClusterValidationError.ConnectTimeout)";
        let dump =
            |name: &str| format!("goo.gle/debugstr  \nname: \"{name}\"\ntype: EDS\na {{\n}}\n");
        assert_eq!(
            reason_line(&format!("{}: {constraint}", dump("api")), 200),
            format!("api: {constraint}")
        );
        assert_eq!(
            reason_line(&format!("bad: {}: one, {}: two", dump("a"), dump("b")), 200),
            "bad: a: one, b: two"
        );
        for text in ["resource 0 (cart): connect_timeout", "goo.gle/debugstr of nothing"] {
            assert_eq!(reason_line(text, 200), text);
        }
    }

    #[test]
    fn times_are_in_utc_with_a_zone() {
        let digits_as_zeros = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "0");
        assert_eq!(digits_as_zeros(&timestamp()), "0000-00-00T00:00:00.000000Z");
        assert_eq!(digits_as_zeros(&time_of_day()), "00:00:00.000Z");
    }
}
