//! Matchers and objects in protobuf's JSON mapping.

use alloc::{
    format,
    string::{String, ToString as _},
    vec::Vec,
};

use serde_json::{Map, Value};

use crate::{
    pattern::{HeaderMatcher, HeaderTest, LetterCase, PathMatcher, StringMatcher},
    route::RouteMatch,
};

/// Fields of a JSON object.
pub(super) type ObjectFields = Vec<(&'static str, Value)>;

/// Creates an object with sorted fields, independent of the map type of `serde_json`.
pub(super) fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let mut fields: Vec<(&str, Value)> = fields.into_iter().collect();
    fields.sort_by_key(|(name, _)| *name);
    let fields = fields.into_iter().map(|(name, value)| (name.to_string(), value));
    Value::Object(fields.collect::<Map<String, Value>>())
}

/// Returns the matchers of a route. Those that A28's policy does not support become regular
/// expressions.
// S2.121, S2.122, S2.145
pub(super) fn matches(matches: &RouteMatch) -> Result<ObjectFields, &'static str> {
    let mut fields = Vec::from([path(&matches.path)]);
    if !matches.headers.is_empty() {
        let headers: Result<Vec<_>, _> = matches.headers.iter().map(header).collect();
        fields.push(("headers", Value::Array(headers?)));
    }
    if let Some(fraction) = matches.fraction {
        fields.push(("matchFraction", fraction.millionths().into()));
    }
    Ok(fields)
}

fn path(path: &PathMatcher) -> (&'static str, Value) {
    let sensitive = LetterCase::Sensitive;
    match path {
        PathMatcher::Exact(text, case) if *case == sensitive => ("path", text.as_str().into()),
        PathMatcher::Prefix(text, case) if *case == sensitive => ("prefix", text.as_str().into()),
        PathMatcher::Exact(text, _) => ("regex", expression("", text, "", LetterCase::Ignored)),
        PathMatcher::Prefix(text, _) => ("regex", expression("", text, ".*", LetterCase::Ignored)),
        PathMatcher::Expression(it) => ("regex", it.pattern().into()),
        // gRPC has no such routes.
        PathMatcher::SeparatedPrefix(prefix, _) => {
            ("regex", format!("{}(/.*)?", regex::escape(prefix)).into())
        }
    }
}

/// Returns a regular expression for a text between two other expressions.
fn expression(before: &str, text: &str, after: &str, case: LetterCase) -> Value {
    let flags = if case == LetterCase::Ignored { "(?is)" } else { "(?s)" };
    format!("{flags}{before}{}{after}", regex::escape(text)).into()
}

fn header(header: &HeaderMatcher) -> Result<Value, &'static str> {
    if header.missing_is_empty {
        return Err("treats a missing header as empty");
    }
    let how = match &header.test {
        HeaderTest::Present(present) => ("presentMatch", (*present).into()),
        HeaderTest::Range(start, end) => {
            // The JSON mapping has 64-bit integers as strings.
            let bounds = [("start", start.to_string().into()), ("end", end.to_string().into())];
            ("rangeMatch", object(bounds))
        }
        HeaderTest::Text(text) => text_match(text),
    };
    let mut fields = Vec::from([("name", header.name.as_str().into()), how]);
    if header.invert {
        fields.push(("invertMatch", true.into()));
    }
    Ok(object(fields))
}

fn text_match(text: &StringMatcher) -> (&'static str, Value) {
    let sensitive = LetterCase::Sensitive;
    match text {
        StringMatcher::Exact(text, case) if *case == sensitive => {
            ("exactMatch", text.as_str().into())
        }
        StringMatcher::Prefix(text, case) if *case == sensitive => {
            ("prefixMatch", text.as_str().into())
        }
        StringMatcher::Suffix(text, case) if *case == sensitive => {
            ("suffixMatch", text.as_str().into())
        }
        StringMatcher::Exact(text, case) => ("regexMatch", expression("", text, "", *case)),
        StringMatcher::Prefix(text, case) => ("regexMatch", expression("", text, ".*", *case)),
        StringMatcher::Suffix(text, case) => ("regexMatch", expression(".*", text, "", *case)),
        StringMatcher::Contains(text, case) => ("regexMatch", expression(".*", text, ".*", *case)),
        StringMatcher::Expression(it) => ("regexMatch", it.pattern().into()),
    }
}
