//! Header matchers.

use alloc::{borrow::Cow, string::String};

use super::StringMatcher;

/// Access to the headers of a call, implemented by adapters.
pub trait Headers {
    /// Returns the value of the header with this name, which is in lower case. Several values of
    /// one header are joined by commas.
    // X45
    fn value(&self, name: &str) -> Option<Cow<'_, str>>;
}

/// Pairs of lower-case names and values.
impl Headers for [(&str, &str)] {
    fn value(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut values = self.iter().filter(|(key, _)| *key == name).map(|(_, value)| *value);
        let first = values.next()?;
        let Some(second) = values.next() else {
            return Some(Cow::Borrowed(first));
        };
        let mut joined = String::from(first);
        for value in core::iter::once(second).chain(values) {
            joined.push(',');
            joined.push_str(value);
        }
        Some(Cow::Owned(joined))
    }
}

impl<const N: usize> Headers for [(&str, &str); N] {
    fn value(&self, name: &str) -> Option<Cow<'_, str>> {
        self.as_slice().value(name)
    }
}

/// Returns the value that matchers see. Binary headers (`-bin`) and pseudo-headers (`:path` etc.)
/// are hidden. An absent `content-type` is `application/grpc`.
// B13
fn visible<'a>(headers: &'a (impl Headers + ?Sized), name: &str) -> Option<Cow<'a, str>> {
    if name.ends_with("-bin") || name.starts_with(':') {
        return None;
    }
    match headers.value(name) {
        None if name == "content-type" => Some(Cow::Borrowed("application/grpc")),
        value => value,
    }
}

/// Matcher for one header of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeaderMatcher {
    /// Name of the header, in lower case.
    pub name: String,
    /// Test of the value.
    pub test: HeaderTest,
    /// Whether the result of the test is inverted. An absent header never matches, inverted or not,
    /// except by [`HeaderTest::Present`].
    // X35
    pub invert: bool,
    /// Whether an absent header is treated as an empty one (`treat_missing_header_as_empty`).
    pub missing_is_empty: bool,
}

/// Test of a header's value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderTest {
    /// The value matches the text matcher.
    Text(StringMatcher),
    /// The value is a decimal integer, not less than the first bound and less than the second.
    Range(i64, i64),
    /// The header is present or, with `false`, absent.
    Present(bool),
}

impl HeaderMatcher {
    /// Whether the headers of a call match.
    #[must_use]
    pub fn matches(&self, headers: &(impl Headers + ?Sized)) -> bool {
        let value = visible(headers, &self.name);
        if let HeaderTest::Present(expected) = self.test {
            return (value.is_some() == expected) != self.invert;
        }
        let value = match value {
            None if self.missing_is_empty => Cow::Borrowed(""),
            None => return false,
            Some(value) => value,
        };
        let fits = match &self.test {
            HeaderTest::Text(text) => text.matches(&value),
            HeaderTest::Range(start, end) => {
                value.parse::<i64>().is_ok_and(|number| (*start..*end).contains(&number))
            }
            HeaderTest::Present(_) => true,
        };
        fits != self.invert
    }
}
