//! How a text has to look (A63).

use alloc::string::String;

use super::FullMatch;

/// Whether upper and lower case differ; only those of ASCII are ever taken for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LetterCase {
    /// They differ.
    Sensitive,
    /// They are the same.
    Ignored,
}

impl LetterCase {
    pub(crate) fn is_same(self, left: &[u8], right: &[u8]) -> bool {
        match self {
            Self::Sensitive => left == right,
            Self::Ignored => left.eq_ignore_ascii_case(right),
        }
    }

    pub(crate) fn is_prefix(self, text: &str, prefix: &str) -> bool {
        let (text, prefix) = (text.as_bytes(), prefix.as_bytes());
        text.get(..prefix.len()).is_some_and(|start| self.is_same(start, prefix))
    }

    fn is_suffix(self, text: &str, suffix: &str) -> bool {
        let (text, suffix) = (text.as_bytes(), suffix.as_bytes());
        let start = text.len().checked_sub(suffix.len());
        start.and_then(|start| text.get(start..)).is_some_and(|end| self.is_same(end, suffix))
    }

    fn is_part(self, text: &str, part: &str) -> bool {
        match self {
            Self::Sensitive => text.contains(part),
            Self::Ignored => text.to_ascii_lowercase().contains(&part.to_ascii_lowercase()),
        }
    }
}

/// How a text has to look.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextMatcher {
    /// Exactly so.
    Exact(String, LetterCase),
    /// It begins so.
    Prefix(String, LetterCase),
    /// It ends so.
    Suffix(String, LetterCase),
    /// This is in it.
    Contains(String, LetterCase),
    /// The expression fits the whole of it. It knows itself whether case matters.
    Expression(FullMatch),
}

impl TextMatcher {
    /// Whether `text` looks so.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(exact, case) => case.is_same(text.as_bytes(), exact.as_bytes()),
            Self::Prefix(prefix, case) => case.is_prefix(text, prefix),
            Self::Suffix(suffix, case) => case.is_suffix(text, suffix),
            Self::Contains(part, case) => case.is_part(text, part),
            Self::Expression(expression) => expression.matches(text),
        }
    }
}
