//! Patterns of texts.

use alloc::{string::String, vec, vec::Vec};

/// Pattern in which `*` stands for any characters, also none. `\*` is an asterisk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPattern {
    /// Texts between the asterisks; at least one.
    parts: Vec<String>,
}

impl TextPattern {
    /// Parses a pattern. Every text is one.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        let mut parts = vec![String::new()];
        let mut characters = pattern.chars().peekable();
        while let Some(character) = characters.next() {
            match (character, characters.peek()) {
                ('*', _) => parts.push(String::new()),
                ('\\', Some(&escaped @ ('*' | '\\'))) => {
                    characters.next();
                    push(&mut parts, escaped);
                }
                (other, _) => push(&mut parts, other),
            }
        }
        Self { parts }
    }

    /// Whether the pattern matches the whole text.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = &self.parts[..] else {
            return self.parts.first().is_some_and(|only| only == text);
        };
        let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
        for part in middle {
            match rest.split_once(part.as_str()) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        rest.ends_with(last.as_str())
    }
}

impl From<&str> for TextPattern {
    fn from(pattern: &str) -> Self {
        Self::new(pattern)
    }
}

fn push(parts: &mut [String], character: char) {
    if let Some(last) = parts.last_mut() {
        last.push(character);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asterisk_stands_for_any_characters() {
        for (pattern, matching, others) in [
            ("edge", &["edge"][..], &["edges", "Edge", ""][..]),
            ("edge-*", &["edge-1", "edge-"], &["edge", "an edge-1"]),
            ("*-1", &["a-1", "-1"], &["a-12"]),
            ("a*b*c", &["abc", "a-b-b-c"], &["ac", "ab", "abcd"]),
            ("a*a", &["aa", "aba"], &["a"]),
            ("*", &["", "x"], &[]),
            ("", &[""], &["x"]),
            (r"a\*\\", &[r"a*\"], &["ax"]),
            (r"\d", &[r"\d"], &["d"]),
        ] {
            let matcher = TextPattern::new(pattern);
            for text in matching {
                assert!(matcher.matches(text), "{pattern} and {text}");
            }
            for text in others {
                assert!(!matcher.matches(text), "{pattern} and {text}");
            }
        }
    }
}
