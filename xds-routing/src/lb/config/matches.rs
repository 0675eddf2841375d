//! Route matches in JSON.

use alloc::{string::String, vec::Vec};

use serde_json::Value;

use super::fields::{Fields, one_of};
use crate::{
    pattern::{
        Fraction, FullMatch, HeaderMatcher, HeaderTest, LetterCase, PathMatcher, TextMatcher,
    },
    route::RouteMatch,
    validation::Judge,
};

/// Reads the matchers of a route: one for the path, any number for headers, and an optional
/// fraction.
// S2.035, X34, S2.039
pub(super) fn read(fields: &Fields<'_>, judge: &mut Judge<'_>) -> Option<RouteMatch> {
    let path = path(fields, judge);
    let mut headers = Vec::new();
    for (index, value) in fields.list("headers", judge).iter().enumerate() {
        headers.push(judge.element("headers", index, |judge| header(value, judge)));
    }
    let fraction = fields.number("matchFraction", judge).map(Fraction::of_a_million);
    Some(RouteMatch { path: path?, headers: headers.into_iter().collect::<Option<_>>()?, fraction })
}

fn path(fields: &Fields<'_>, judge: &mut Judge<'_>) -> Option<PathMatcher> {
    let which = one_of(fields, &["path", "prefix", "regex"], judge)?;
    let text = fields.text(which, judge)?;
    let case = LetterCase::Sensitive;
    match which {
        "path" => Some(PathMatcher::Exact(String::from(text), case)),
        "prefix" => Some(PathMatcher::Prefix(String::from(text), case)),
        _ => expression(which, text, judge).map(PathMatcher::Expression),
    }
}

fn expression(name: &str, text: &str, judge: &mut Judge<'_>) -> Option<FullMatch> {
    judge.field(name, |judge| judge.expression(text))
}

const HEADER_TESTS: [&str; 6] =
    ["exactMatch", "regexMatch", "rangeMatch", "presentMatch", "prefixMatch", "suffixMatch"];

fn header(value: &Value, judge: &mut Judge<'_>) -> Option<HeaderMatcher> {
    let fields = Fields::of(value, judge)?;
    let name = fields.text("name", judge)?;
    if name.is_empty() {
        judge.fault_in("name", "must not be empty");
    }
    let invert = fields.flag("invertMatch", judge).unwrap_or_default();
    let which = one_of(&fields, &HEADER_TESTS, judge)?;
    let test = match which {
        "rangeMatch" => range(&fields, judge)?,
        "presentMatch" => HeaderTest::Present(fields.flag(which, judge)?),
        _ => HeaderTest::Text(text_test(which, &fields, judge)?),
    };
    Some(HeaderMatcher { name: name.to_ascii_lowercase(), test, invert, missing_is_empty: false })
}

fn range(fields: &Fields<'_>, judge: &mut Judge<'_>) -> Option<HeaderTest> {
    let range = fields.get("rangeMatch", judge)?;
    judge.field("rangeMatch", |judge| {
        let fields = Fields::of(range, judge)?;
        let start = fields.wide_number("start", judge).unwrap_or_default();
        let end = fields.wide_number("end", judge).unwrap_or_default();
        if end < start {
            judge.fault("the end must not be smaller than the start");
        }
        Some(HeaderTest::Range(start, end))
    })
}

fn text_test(which: &str, fields: &Fields<'_>, judge: &mut Judge<'_>) -> Option<TextMatcher> {
    let text = fields.text(which, judge)?;
    let case = LetterCase::Sensitive;
    match which {
        "exactMatch" => Some(TextMatcher::Exact(String::from(text), case)),
        "prefixMatch" => Some(TextMatcher::Prefix(String::from(text), case)),
        "suffixMatch" => Some(TextMatcher::Suffix(String::from(text), case)),
        _ => expression(which, text, judge).map(TextMatcher::Expression),
    }
}
