//! Route matches in JSON.

use alloc::{string::String, vec::Vec};

use serde_json::Value;

use super::field_reader::{FieldReader, one_of};
use crate::{
    pattern::{
        Fraction, FullMatch, HeaderMatcher, HeaderTest, LetterCase, PathMatcher, StringMatcher,
    },
    route::RouteMatch,
    validation::Validator,
};

/// Reads the matchers of a route: one for the path, any number for headers, and an optional
/// fraction.
// S2.035, X34, S2.039
pub(super) fn read(fields: &FieldReader<'_>, validator: &mut Validator<'_>) -> Option<RouteMatch> {
    let path = path(fields, validator);
    let mut headers = Vec::new();
    for (index, value) in fields.list("headers", validator).iter().enumerate() {
        headers.push(validator.element("headers", index, |validator| header(value, validator)));
    }
    let fraction = fields.number("matchFraction", validator).map(Fraction::from_millionths);
    Some(RouteMatch::new(path?, headers.into_iter().collect::<Option<_>>()?, fraction))
}

fn path(fields: &FieldReader<'_>, validator: &mut Validator<'_>) -> Option<PathMatcher> {
    let which = one_of(fields, &["path", "prefix", "regex"], validator)?;
    let text = fields.text(which, validator)?;
    let case = LetterCase::Sensitive;
    match which {
        "path" => Some(PathMatcher::Exact(String::from(text), case)),
        "prefix" => Some(PathMatcher::Prefix(String::from(text), case)),
        _ => expression(which, text, validator).map(PathMatcher::Expression),
    }
}

fn expression(name: &str, text: &str, validator: &mut Validator<'_>) -> Option<FullMatch> {
    validator.field(name, |validator| validator.expression(text))
}

const HEADER_TESTS: [&str; 6] =
    ["exactMatch", "regexMatch", "rangeMatch", "presentMatch", "prefixMatch", "suffixMatch"];

fn header(value: &Value, validator: &mut Validator<'_>) -> Option<HeaderMatcher> {
    let fields = FieldReader::of(value, validator)?;
    let name = fields.text("name", validator)?;
    if name.is_empty() {
        validator.error_in("name", "must not be empty");
    }
    let invert = fields.flag("invertMatch", validator).unwrap_or_default();
    let which = one_of(&fields, &HEADER_TESTS, validator)?;
    let test = match which {
        "rangeMatch" => range(&fields, validator)?,
        "presentMatch" => HeaderTest::Present(fields.flag(which, validator)?),
        _ => HeaderTest::Text(text_test(which, &fields, validator)?),
    };
    Some(HeaderMatcher { name: name.to_ascii_lowercase(), test, invert, missing_is_empty: false })
}

fn range(fields: &FieldReader<'_>, validator: &mut Validator<'_>) -> Option<HeaderTest> {
    let range = fields.get("rangeMatch", validator)?;
    validator.field("rangeMatch", |validator| {
        let fields = FieldReader::of(range, validator)?;
        let start = fields.wide_number("start", validator).unwrap_or_default();
        let end = fields.wide_number("end", validator).unwrap_or_default();
        if end < start {
            validator.error("the end must not be smaller than the start");
        }
        Some(HeaderTest::Range(start, end))
    })
}

fn text_test(
    which: &str,
    fields: &FieldReader<'_>,
    validator: &mut Validator<'_>,
) -> Option<StringMatcher> {
    let text = fields.text(which, validator)?;
    let case = LetterCase::Sensitive;
    match which {
        "exactMatch" => Some(StringMatcher::Exact(String::from(text), case)),
        "prefixMatch" => Some(StringMatcher::Prefix(String::from(text), case)),
        "suffixMatch" => Some(StringMatcher::Suffix(String::from(text), case)),
        _ => expression(which, text, validator).map(StringMatcher::Expression),
    }
}
