//! Text of a peer's on its way to a person: it must not paint over the terminal or turn lines around.

use std::fmt::Write as _;

/// The text without characters that do something other than to be seen.
pub(super) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if acts(character) {
            // Writing to a string cannot fail.
            let _ = write!(out, "{}", character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    out
}

/// Control characters, line separators, and what changes the direction of writing.
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_seen_is_left() {
        assert_eq!(printable("größe \"a\""), "größe \"a\"");
        assert_eq!(printable("\x1b[2J\n"), "\\u{1b}[2J\\u{a}");
        assert_eq!(printable("a\u{202e}b\u{2028}"), "a\\u{202e}b\\u{2028}");
    }
}
