//! Path matchers.

use alloc::string::String;

use super::{FullMatch, LetterCase};

/// Matcher for the path of a call, `/package.Service/Method`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathMatcher {
    /// The path equals the text.
    // S2.074
    Exact(String, LetterCase),
    /// The path starts with the text.
    // S2.073
    Prefix(String, LetterCase),
    /// The expression matches the whole path. `case_sensitive` has no effect on it.
    // S2.075
    Expression(FullMatch),
    /// The path equals the text, or starts with the text and a slash. gRPC does not support it.
    SeparatedPrefix(String, LetterCase),
}

impl PathMatcher {
    /// Whether the path matches.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        match self {
            Self::Exact(exact, case) => case.is_same(path.as_bytes(), exact.as_bytes()),
            Self::Prefix(prefix, case) => case.is_prefix(path, prefix),
            Self::Expression(expression) => expression.matches(path),
            Self::SeparatedPrefix(prefix, case) => {
                let rest = path.as_bytes().get(prefix.len());
                case.is_prefix(path, prefix) && rest.is_none_or(|&next| next == b'/')
            }
        }
    }

    /// Whether a path that gRPC sends can match: `/service/method`, both parts non-empty and
    /// without further slashes. Expressions are assumed to match some path.
    pub(crate) fn can_match(&self) -> bool {
        let parts = |path: &str| {
            let mut parts = path.strip_prefix('/')?.split('/');
            let first = parts.next().is_some_and(|it| !it.is_empty());
            let second = parts.next().map(|it| !it.is_empty());
            parts.next().is_none().then_some((first, second))
        };
        match self {
            Self::Exact(path, _) => parts(path) == Some((true, Some(true))),
            Self::Prefix(prefix, _) => {
                prefix.is_empty() || matches!(parts(prefix), Some((_, None) | (true, Some(_))))
            }
            Self::Expression(_) | Self::SeparatedPrefix(..) => true,
        }
    }

    /// Whether every path matches. Every path starts with a slash.
    #[must_use]
    pub fn matches_all(&self) -> bool {
        matches!(self, Self::Prefix(prefix, _) if prefix.is_empty() || prefix == "/")
    }
}
