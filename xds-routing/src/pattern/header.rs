//! How the headers of a call have to look.

use alloc::{borrow::Cow, string::String};

use super::TextMatcher;

/// The headers of a call, as an adapter has them.
pub trait Headers {
    /// The value of the header of this name, which is in lower case. The values of one that comes several
    /// times are joined by commas (X45).
    fn value(&self, name: &str) -> Option<Cow<'_, str>>;
}

/// Pairs of names, in lower case, and values.
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

/// The value that matching sees: the application's own headers only. What is binary, and what HTTP/2 has
/// in place of a request line, is not there; every call is one of gRPC (B13).
fn visible<'a>(headers: &'a (impl Headers + ?Sized), name: &str) -> Option<Cow<'a, str>> {
    if name.ends_with("-bin") || name.starts_with(':') {
        return None;
    }
    match headers.value(name) {
        None if name == "content-type" => Some(Cow::Borrowed("application/grpc")),
        value => value,
    }
}

/// How one header of a call has to look.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeaderMatcher {
    /// The header's name, in lower case.
    pub name: String,
    /// How it has to look.
    pub test: HeaderTest,
    /// Whether it must not look so. A header that is not there does not look any way: only
    /// [`HeaderTest::Present`] can tell its absence (X35).
    pub invert: bool,
    /// Whether one that is not there counts as one without a value.
    pub missing_is_empty: bool,
}

/// How a header has to look.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderTest {
    /// Its value is a text that looks so.
    Text(TextMatcher),
    /// Its value is a whole number in decimal notation that is not below the first and is below the second
    /// of these.
    Range(i64, i64),
    /// It is there, or, with `false`, it is not.
    Present(bool),
}

impl HeaderMatcher {
    /// Whether the headers of a call look so.
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
