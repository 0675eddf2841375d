//! Header matchers.

use alloc::{borrow::Cow, string::String};

use super::{HeaderValues, MatchProfile, StringMatcher};

/// Access to the headers of a call, implemented by adapters.
pub trait Headers {
    /// Returns the value of the header with this name, which is in lower case. Several values of
    /// one header are joined by commas.
    // X45
    fn value(&self, name: &str) -> Option<Cow<'_, str>>;

    /// Whether `test` accepts one of the values of the header with this name, which is in lower
    /// case. `None` if the header is absent. By default, `test` sees all values joined.
    fn any_value(&self, name: &str, test: &mut dyn FnMut(&str) -> bool) -> Option<bool> {
        self.value(name).map(|value| test(&value))
    }
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

    fn any_value(&self, name: &str, test: &mut dyn FnMut(&str) -> bool) -> Option<bool> {
        let mut values = self.iter().filter(|(key, _)| *key == name).map(|(_, value)| *value);
        let first = values.next()?;
        Some(test(first) || values.any(test))
    }
}

impl<const N: usize> Headers for [(&str, &str); N] {
    fn value(&self, name: &str) -> Option<Cow<'_, str>> {
        self.as_slice().value(name)
    }

    fn any_value(&self, name: &str, test: &mut dyn FnMut(&str) -> bool) -> Option<bool> {
        self.as_slice().any_value(name, test)
    }
}

impl MatchProfile {
    /// Returns the value of a header that matchers see: all values joined by commas. `None` if the
    /// header is absent or hidden.
    pub(crate) fn header<'a>(
        &self,
        headers: &'a (impl Headers + ?Sized),
        name: &str,
    ) -> Option<Cow<'a, str>> {
        if !self.headers.includes(name) {
            return None;
        }
        let of_absent = || self.content_type.filter(|_| name == "content-type");
        headers.value(name).or_else(|| of_absent().map(Cow::Borrowed))
    }

    /// Whether `test` accepts the value, or one of the values, that matchers see. `None` if the
    /// header is absent or hidden.
    fn any_header(
        &self,
        headers: &(impl Headers + ?Sized),
        name: &str,
        test: &mut dyn FnMut(&str) -> bool,
    ) -> Option<bool> {
        match self.values {
            HeaderValues::Each if self.headers.includes(name) => headers.any_value(name, test),
            HeaderValues::Each => None,
            HeaderValues::Joined => self.header(headers, name).map(|value| test(&value)),
        }
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
    /// Whether the headers of a call match, by the rules of gRPC.
    #[must_use]
    pub fn matches(&self, headers: &(impl Headers + ?Sized)) -> bool {
        self.matches_by(&MatchProfile::GRPC, headers)
    }

    /// Whether the headers of a request match.
    #[must_use]
    pub fn matches_by(&self, profile: &MatchProfile, headers: &(impl Headers + ?Sized)) -> bool {
        let mut test = |value: &str| self.accepts(value);
        let fits = profile.any_header(headers, &self.name, &mut test);
        let fits = match (&self.test, fits) {
            (HeaderTest::Present(expected), fits) => Some(fits.is_some() == *expected),
            (_, None) if self.missing_is_empty => Some(self.accepts("")),
            (_, fits) => fits,
        };
        fits.is_some_and(|fits| fits != self.invert)
    }

    /// Whether a value passes the test, before inversion.
    fn accepts(&self, value: &str) -> bool {
        match &self.test {
            HeaderTest::Text(text) => text.matches(value),
            HeaderTest::Range(start, end) => {
                value.parse::<i64>().is_ok_and(|number| (*start..*end).contains(&number))
            }
            HeaderTest::Present(_) => true,
        }
    }
}
