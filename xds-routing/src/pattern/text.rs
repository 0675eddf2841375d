//! String matchers ([gRFC A63]).
//!
//! [gRFC A63]:
//!     https://github.com/grpc/proposal/blob/master/A63-xds-string-matcher-in-header-matching.md

use alloc::string::String;

use super::FullMatch;

/// Case sensitivity of a matcher. Only ASCII letters are compared case-insensitively.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LetterCase {
    /// Upper and lower case differ.
    Sensitive,
    /// Upper and lower case are equal.
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

/// Matcher for a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StringMatcher {
    /// The text equals this one.
    Exact(String, LetterCase),
    /// The text starts with this one.
    Prefix(String, LetterCase),
    /// The text ends with this one.
    Suffix(String, LetterCase),
    /// The text contains this one.
    Contains(String, LetterCase),
    /// The expression matches the whole text. Its own flags determine case sensitivity.
    Expression(FullMatch),
}

impl StringMatcher {
    /// Whether `text` matches.
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
