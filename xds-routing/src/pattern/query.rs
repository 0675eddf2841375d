//! Matchers for query parameters.

use alloc::string::String;

use super::StringMatcher;

/// Matcher for one query parameter of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueryMatcher {
    /// Name of the parameter.
    pub name: String,
    /// Test of its first value, which is not percent-decoded.
    pub test: QueryTest,
}

/// Test of a query parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueryTest {
    /// The value matches the text matcher.
    Text(StringMatcher),
    /// The parameter is present or, with `false`, absent.
    Present(bool),
}

impl QueryMatcher {
    pub(crate) const fn new(name: String, test: QueryTest) -> Self {
        Self { name, test }
    }

    /// Whether a query string, without the question mark, matches.
    #[must_use]
    pub fn matches(&self, query: &str) -> bool {
        match (&self.test, first_value(query, &self.name)) {
            (QueryTest::Present(expected), value) => value.is_some() == *expected,
            (QueryTest::Text(text), Some(value)) => text.matches(value),
            (QueryTest::Text(_), None) => false,
        }
    }
}

/// Returns the first value of a parameter. A parameter without an equals sign is empty.
fn first_value<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut parameters = query.split('&').filter(|parameter| !parameter.is_empty());
    parameters.find_map(|parameter| {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        (key == name).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::LetterCase;

    #[test]
    fn query_matcher_sees_the_first_value_of_its_parameter() {
        let is =
            |text: &str| QueryTest::Text(StringMatcher::Exact(text.into(), LetterCase::Sensitive));
        for (test, query, expected) in [
            (QueryTest::Present(true), "a=1&q", true),
            (QueryTest::Present(true), "a=1", false),
            (QueryTest::Present(false), "", true),
            (QueryTest::Present(false), "q=", false),
            (is("1"), "q=1&q=2", true),
            (is("2"), "q=1&q=2", false),
            (is(""), "q&&a", true),
            (is(""), "qq=", false),
            (is("a=b"), "q=a=b", true),
        ] {
            let matcher = QueryMatcher::new("q".into(), test);
            assert_eq!(matcher.matches(query), expected, "{matcher:?}: {query}");
        }
    }
}
