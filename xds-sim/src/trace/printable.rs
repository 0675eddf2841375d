//! Escaping of peers' text before it is shown: it must not control the terminal or reorder text.

use std::fmt::Write as _;

/// Escapes characters that are not visible.
pub(crate) fn printable(text: &str) -> String {
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

/// Whether a character is a control character, a line separator, or changes the text direction.
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
    fn control_and_format_characters_are_escaped() {
        assert_eq!(printable("größe \"a\""), "größe \"a\"");
        assert_eq!(printable("\x1b[2J\n"), "\\u{1b}[2J\\u{a}");
        assert_eq!(printable("a\u{202e}b\u{2028}"), "a\\u{202e}b\\u{2028}");
    }
}
