//! How the path of a call has to look.

use alloc::string::String;

use super::{FullMatch, LetterCase};

/// How the path of a call, `/package.Service/Method`, has to look.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathMatcher {
    /// Exactly so (S2.074).
    Exact(String, LetterCase),
    /// It begins so (S2.073).
    Prefix(String, LetterCase),
    /// The expression fits the whole of it (S2.075). `case_sensitive` means nothing to it.
    Expression(FullMatch),
}

impl PathMatcher {
    /// Whether a path looks so.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        match self {
            Self::Exact(exact, case) => case.is_same(path.as_bytes(), exact.as_bytes()),
            Self::Prefix(prefix, case) => case.is_prefix(path, prefix),
            Self::Expression(expression) => expression.matches(path),
        }
    }

    /// Whether a path that gRPC sends can look so: `/service/method`, both of them there and without a slash. What
    /// an expression fits is not looked into.
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
            Self::Expression(_) => true,
        }
    }

    /// Whether all paths look so. They all begin with a slash.
    #[must_use]
    pub fn matches_all(&self) -> bool {
        matches!(self, Self::Prefix(prefix, _) if prefix.is_empty() || prefix == "/")
    }
}
