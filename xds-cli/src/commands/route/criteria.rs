//! Criteria of routes in words.

use serde_json::Value as Json;
use xds_routing::route::{Mismatch, NotEvaluated, SkipReason};

use super::{
    json::{is_true, list, text},
    report::RequestReport,
};
use crate::text::one_line;

/// Maximum number of characters of a criterion, and of a header's value.
const LONGEST: usize = 200;

/// Describes the criteria of a route.
pub(super) fn describe(matches: &Json) -> String {
    let mut parts = vec![path(matches)];
    parts.extend(list(matches, "/headers").iter().map(|it| format!("header {}", header(it))));
    parts
        .extend(list(matches, "/query_parameters").iter().map(|it| format!("query {}", query(it))));
    for (field, what) in [
        ("grpc", "gRPC"),
        ("tls_context", "client certificate"),
        ("dynamic_metadata", "dynamic metadata"),
        ("filter_state", "filter state"),
        ("cookies", "cookies"),
    ] {
        if matches.get(field).is_some() {
            parts.push(what.to_owned());
        }
    }
    if let Some(fraction) = fraction(matches) {
        parts.push(fraction);
    }
    one_line(&parts.join(", "), LONGEST)
}

/// Describes the criterion that a request does not meet.
pub(super) fn mismatch(matches: &Json, mismatch: Mismatch, request: &RequestReport) -> String {
    let why = match mismatch {
        Mismatch::Path => format!("{} does not match", path(matches)),
        Mismatch::Header(index) => {
            let Some(matcher) = list(matches, "/headers").get(index) else { return String::new() };
            let name = text(matcher, "/name").unwrap_or_default().to_ascii_lowercase();
            let values = request.headers.iter().filter(|(known, _)| *known == name);
            let values: Vec<_> = values.map(|(_, value)| format!("`{value}`")).collect();
            match values.is_empty() {
                true => format!("header {name} is absent: needed {}", header(matcher)),
                false => {
                    format!("header {name} is {}: needed {}", values.join(", "), header(matcher))
                }
            }
        }
        Mismatch::QueryParameter(index) => match list(matches, "/query_parameters").get(index) {
            Some(matcher) => format!("query parameter does not match: needed {}", query(matcher)),
            None => "query parameter does not match".to_owned(),
        },
        Mismatch::NotConnect => "the request is not CONNECT".to_owned(),
        Mismatch::NotGrpc => "the request is not gRPC (content-type)".to_owned(),
        Mismatch::ClientCertificate => {
            "a client certificate is required, and none is assumed".to_owned()
        }
        Mismatch::NotEvaluated(criterion) => {
            let what = match criterion {
                NotEvaluated::PathPolicy => "path_match_policy",
                NotEvaluated::DynamicMetadata => "dynamic_metadata",
                NotEvaluated::FilterState => "filter_state",
                NotEvaluated::Cookies => "cookies",
                _ => "the criterion",
            };
            format!("{what} is not evaluated, and assumed not to match")
        }
        Mismatch::Fraction => "the runtime fraction is 0".to_owned(),
        _ => "the request does not match".to_owned(),
    };
    one_line(&why, LONGEST)
}

/// Describes why gRPC skips a route.
pub(super) fn skipped(why: SkipReason) -> &'static str {
    match why {
        SkipReason::QueryParameters => "gRPC skips routes with query parameters",
        SkipReason::Path => "gRPC skips an invalid route whose path no call has",
        SkipReason::ClusterHeader => "gRPC skips routes with cluster_header",
        SkipReason::UnknownClusterSpecifier => {
            "gRPC skips routes without a known cluster specifier"
        }
        SkipReason::OptionalPlugin => "gRPC skips routes with an unknown optional plugin",
        _ => "gRPC skips the route",
    }
}

fn path(matches: &Json) -> String {
    let fields = [
        ("prefix", "/prefix"),
        ("path", "/path"),
        ("regex", "/safe_regex/regex"),
        ("path_separated_prefix", "/path_separated_prefix"),
        ("path_match_policy", "/path_match_policy/name"),
    ];
    let found = fields.into_iter().find_map(|(kind, pointer)| {
        Some(format!("{kind} `{}`", matches.pointer(pointer)?.as_str()?))
    });
    let shown = found.unwrap_or_else(|| match matches.get("connect_matcher") {
        Some(_) => "CONNECT".to_owned(),
        // Canonical JSON may omit an empty prefix.
        None => "prefix ``".to_owned(),
    });
    match matches.pointer("/case_sensitive").and_then(Json::as_bool) {
        Some(false) => format!("{shown} of any case"),
        _ => shown,
    }
}

fn header(matcher: &Json) -> String {
    let name = text(matcher, "/name").unwrap_or_default();
    let test = match (matcher.get("present_match"), matcher.get("range_match")) {
        (Some(present), _) if present == &Json::Bool(false) => "absent".to_owned(),
        (_, Some(range)) => {
            let bound = |field| range.get(field).map_or_else(|| "0".to_owned(), plain);
            format!("in [{}, {})", bound("start"), bound("end"))
        }
        _ => string(matcher).unwrap_or_else(|| "present".to_owned()),
    };
    let not = if is_true(matcher, "/invert_match") { "not " } else { "" };
    let empty = match is_true(matcher, "/treat_missing_header_as_empty") {
        true => " (missing is empty)",
        false => "",
    };
    format!("{name} {not}{test}{empty}")
}

fn query(matcher: &Json) -> String {
    let name = text(matcher, "/name").unwrap_or_default();
    let test = match matcher.get("present_match") {
        Some(Json::Bool(false)) => "absent".to_owned(),
        _ => string(matcher).unwrap_or_else(|| "present".to_owned()),
    };
    format!("{name} {test}")
}

/// Describes the text that a matcher requires, in any of the spellings of the API.
fn string(matcher: &Json) -> Option<String> {
    let newer = matcher.get("string_match");
    let tests = [
        ("=", "exact_match", "/exact"),
        ("prefix", "prefix_match", "/prefix"),
        ("suffix", "suffix_match", "/suffix"),
        ("containing", "contains_match", "/contains"),
        ("regex", "safe_regex_match", "/safe_regex"),
    ];
    let (how, value) = tests.into_iter().find_map(|(how, older, field)| {
        let value = matcher.get(older).or_else(|| newer?.pointer(field))?;
        Some((how, value))
    })?;
    let value = value.get("regex").unwrap_or(value);
    let case = match newer.is_some_and(|it| is_true(it, "/ignore_case")) {
        true => " of any case",
        false => "",
    };
    Some(format!("{how} `{}`{case}", plain(value)))
}

fn fraction(matches: &Json) -> Option<String> {
    let fraction = matches.get("runtime_fraction")?;
    let numerator =
        fraction.pointer("/default_value/numerator").map_or_else(|| "0".to_owned(), plain);
    let of = match text(fraction, "/default_value/denominator") {
        Some("TEN_THOUSAND") => " of 10000",
        Some("MILLION") => " of 1000000",
        _ => " %",
    };
    Some(format!("{numerator}{of} of requests"))
}

/// Returns the key by which a runtime may replace the fraction of a route.
pub(super) fn runtime_key(matches: &Json) -> Option<&str> {
    text(matches, "/runtime_fraction/runtime_key")
}

fn plain(json: &Json) -> String {
    json.as_str().map_or_else(|| json.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn criteria_are_described_in_words() {
        for (matches, expected) in [
            (json!({ "prefix": "/a" }), "prefix `/a`"),
            (json!({ "path": "/A", "case_sensitive": false }), "path `/A` of any case"),
            (
                json!({ "safe_regex": { "regex": "/.*" }, "headers": [
                    { "name": "h", "exact_match": "v", "invert_match": true },
                    { "name": "i", "string_match": { "prefix": "p", "ignore_case": true } },
                    { "name": "j", "range_match": { "start": "1", "end": "5" } },
                    { "name": "k", "present_match": false },
                    { "name": "l" },
                ] }),
                "regex `/.*`, header h not = `v`, header i prefix `p` of any case, \
                 header j in [1, 5), header k absent, header l present",
            ),
            (
                json!({ "connect_matcher": {}, "query_parameters": [{ "name": "q" }], "grpc": {},
                    "runtime_fraction": { "default_value": { "numerator": 5 } } }),
                "CONNECT, query q present, gRPC, 5 % of requests",
            ),
        ] {
            assert_eq!(describe(&matches), expected);
        }
    }
}
