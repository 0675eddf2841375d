//! Index from the path of a call to the routes that may match it.
//!
//! A path can match one exact text, a chain of prefixes each of which starts with the next shorter
//! one, and any regular expression. Each of these has a sorted list of route positions. The lists
//! are merged lazily, so routes are visited in the order of the resource and none after the first
//! match is visited. Prefixes are sorted: the last one that is not greater than the path starts
//! with every prefix of the path. One binary search and the links to the next shorter prefix find
//! them all.

use alloc::{
    string::{String, ToString as _},
    vec::Vec,
};

use crate::pattern::{LetterCase, PathMatcher};

/// Positions of routes, in ascending order.
type Positions = Vec<u32>;

/// Sorted texts with the routes of each.
#[derive(Clone, Debug, Default)]
struct Exact(Vec<(String, Positions)>);

impl Exact {
    fn new(texts: Vec<(String, u32)>) -> Self {
        Self(grouped(texts))
    }

    fn find(&self, path: &str) -> Option<&[u32]> {
        let place = self.0.binary_search_by(|(text, _)| text.as_str().cmp(path)).ok()?;
        self.0.get(place).map(|(_, positions)| positions.as_slice())
    }
}

/// Sorted prefixes.
#[derive(Clone, Debug, Default)]
struct Prefixes(Vec<Prefix>);

#[derive(Clone, Debug)]
struct Prefix {
    text: String,
    positions: Positions,
    /// Index of the longest other prefix that this one starts with.
    next: Option<usize>,
}

impl Prefixes {
    fn new(texts: Vec<(String, u32)>) -> Self {
        let mut prefixes: Vec<Prefix> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        for (index, (text, positions)) in grouped(texts).into_iter().enumerate() {
            let begins_with = |&other: &usize| {
                prefixes.get(other).is_some_and(|other| text.starts_with(&other.text))
            };
            while open.last().is_some_and(|last| !begins_with(last)) {
                open.pop();
            }
            let next = open.last().copied();
            open.push(index);
            prefixes.push(Prefix { text, positions, next });
        }
        Self(prefixes)
    }

    /// Returns the routes of all prefixes of the path, longest prefix first.
    fn chain<'a>(&'a self, path: &str) -> impl Iterator<Item = &'a [u32]> {
        let after = self.0.partition_point(|prefix| prefix.text.as_str() <= path);
        let mut at = after.checked_sub(1);
        while let Some(prefix) = at.and_then(|at| self.0.get(at)) {
            if path.starts_with(&prefix.text) {
                break;
            }
            at = prefix.next;
        }
        core::iter::from_fn(move || {
            let prefix = self.0.get(at?)?;
            at = prefix.next;
            Some(prefix.positions.as_slice())
        })
    }
}

/// Sorts texts and merges equal ones.
fn grouped(mut texts: Vec<(String, u32)>) -> Vec<(String, Positions)> {
    texts.sort();
    let mut groups: Vec<(String, Positions)> = Vec::new();
    for (text, position) in texts {
        match groups.last_mut() {
            Some((last, positions)) if *last == text => positions.push(position),
            _ => groups.push((text, Vec::from([position]))),
        }
    }
    groups
}

/// Index of the routes of a virtual host by path matcher.
#[derive(Clone, Debug, Default)]
pub(crate) struct RouteIndex {
    exact: Exact,
    prefixes: Prefixes,
    /// Case-insensitive matchers, in lower case.
    exact_of_any_case: Exact,
    prefixes_of_any_case: Prefixes,
    /// Routes whose path matcher must be evaluated.
    expressions: Positions,
}

/// Number of routes up to which testing them one by one is faster than an index lookup.
const FEW: usize = 16;

impl RouteIndex {
    pub(crate) fn new<'a>(paths: impl ExactSizeIterator<Item = &'a PathMatcher>) -> Self {
        if paths.len() <= FEW {
            let expressions = (0..u32::MAX).zip(paths).map(|(position, _)| position).collect();
            return Self { expressions, ..Self::default() };
        }
        let (mut exact, mut prefixes) = (Vec::new(), Vec::new());
        let (mut exact_any, mut prefixes_any) = (Vec::new(), Vec::new());
        let mut expressions = Vec::new();
        for (position, path) in (0..u32::MAX).zip(paths) {
            match path {
                PathMatcher::Exact(text, LetterCase::Sensitive) => {
                    exact.push((text.to_string(), position));
                }
                PathMatcher::Exact(text, LetterCase::Ignored) => {
                    exact_any.push((text.to_ascii_lowercase(), position));
                }
                PathMatcher::Prefix(text, LetterCase::Sensitive) => {
                    prefixes.push((text.to_string(), position));
                }
                PathMatcher::Prefix(text, LetterCase::Ignored) => {
                    prefixes_any.push((text.to_ascii_lowercase(), position));
                }
                PathMatcher::Expression(_) | PathMatcher::SeparatedPrefix(..) => {
                    expressions.push(position);
                }
            }
        }
        Self {
            exact: Exact::new(exact),
            prefixes: Prefixes::new(prefixes),
            exact_of_any_case: Exact::new(exact_any),
            prefixes_of_any_case: Prefixes::new(prefixes_any),
            expressions,
        }
    }

    /// Returns the first result of `take` for the routes whose paths may match. `take` receives the
    /// position of the route and whether its path must be tested.
    pub(crate) fn first<T>(
        &self,
        path: &str,
        mut take: impl FnMut(usize, PathTest) -> Option<T>,
    ) -> Option<T> {
        self.candidates(path).find_map(|(position, test)| take(position, test))
    }

    /// Returns the routes whose paths may match, in order.
    fn candidates(&self, path: &str) -> Candidates<'_> {
        let mut lists = Vec::new();
        lists.extend(self.exact.find(path));
        lists.extend(self.prefixes.chain(path));
        if !self.exact_of_any_case.0.is_empty() || !self.prefixes_of_any_case.0.is_empty() {
            let lower = path.to_ascii_lowercase();
            lists.extend(self.exact_of_any_case.find(&lower));
            lists.extend(self.prefixes_of_any_case.chain(&lower));
        }
        Candidates { lists, expressions: &self.expressions }
    }
}

/// Iterator over routes in order, merged from several lists.
#[derive(Debug)]
struct Candidates<'a> {
    /// Routes whose paths match.
    lists: Vec<&'a [u32]>,
    /// Routes whose paths may match.
    expressions: &'a [u32],
}

/// Whether the path of a call must be tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathTest {
    /// The path is known to match.
    Passed,
    /// The path matcher must be evaluated.
    Needed,
}

impl Iterator for Candidates<'_> {
    type Item = (usize, PathTest);

    fn next(&mut self) -> Option<(usize, PathTest)> {
        let heads = self.lists.iter_mut().filter(|list| !list.is_empty());
        let least = heads.min_by_key(|list| list.first().copied());
        let of_expressions = self.expressions.split_first();
        let sure = least.as_ref().and_then(|list| list.first().copied());
        match (sure, of_expressions) {
            (sure, Some((&first, rest))) if sure.is_none_or(|sure| first < sure) => {
                self.expressions = rest;
                Some((first as usize, PathTest::Needed))
            }
            (Some(position), _) => {
                if let Some(list) = least {
                    *list = list.get(1..).unwrap_or_default();
                }
                Some((position as usize, PathTest::Passed))
            }
            (None, _) => None,
        }
    }
}
