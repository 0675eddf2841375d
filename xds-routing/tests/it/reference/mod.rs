//! Reference implementation of route matching by the text of gRFC A28 and its amendments,
//! independent of the crate. It tests each condition of each route of the resource in order.
//! Includes random routes and calls for comparisons.
#![allow(deprecated, reason = "servers still send what is")]

use proptest::prelude::*;
use xds_core::proto::{StringMatcher, envoy::r#type::matcher::v3::string_matcher::MatchPattern};
use xds_routing::proto::envoy::{
    config::route::v3::{
        HeaderMatcher, QueryParameterMatcher, Route, RouteMatch,
        header_matcher::HeaderMatchSpecifier as Header, route_match::PathSpecifier,
    },
    r#type::v3::{Int64Range, fractional_percent::DenominatorType},
};

use crate::support::*;

/// Returns the index of the first route that matches a call.
pub(crate) fn first(table: &[Route], path: &str, headers: &[(&str, &str)]) -> Option<usize> {
    table.iter().position(|route| {
        let matches = route.r#match.as_ref().expect("a match");
        // A route with query parameters is skipped.
        matches.query_parameters.is_empty()
            && path_fits(matches, path)
            && matches.headers.iter().all(|header| header_fits(header, headers))
            && chance_allows(matches)
    })
}

fn path_fits(matches: &RouteMatch, path: &str) -> bool {
    let ignores_case = matches.case_sensitive.as_ref().is_some_and(|it| !it.value);
    let fold = |text: &str| match ignores_case {
        true => text.to_ascii_lowercase(),
        false => text.to_owned(),
    };
    match matches.path_specifier.as_ref().expect("a path") {
        PathSpecifier::Prefix(prefix) => fold(path).starts_with(&fold(prefix)),
        PathSpecifier::Path(whole) => fold(path) == fold(whole),
        PathSpecifier::SafeRegex(regex) => expression_fits(&regex.regex, path),
        other => panic!("{other:?}"),
    }
}

/// Whether a fraction of none or all of the calls allows the call. Other fractions are compared in
/// another test.
fn chance_allows(matches: &RouteMatch) -> bool {
    let share = matches.runtime_fraction.as_ref().and_then(|it| it.default_value.as_ref());
    share.is_none_or(|share| share.numerator >= 100)
}

fn header_fits(matcher: &HeaderMatcher, headers: &[(&str, &str)]) -> bool {
    let name = matcher.name.to_ascii_lowercase();
    let values: Vec<&str> = headers
        .iter()
        .filter(|(key, _)| *key == name && !name.ends_with("-bin"))
        .map(|(_, value)| *value)
        .collect();
    let mut value = (!values.is_empty()).then(|| values.join(","));
    let specifier = matcher.header_match_specifier.as_ref().expect("a specifier");
    if let Header::PresentMatch(present) = specifier {
        return (value.is_some() == *present) ^ matcher.invert_match;
    }
    if matcher.treat_missing_header_as_empty {
        value.get_or_insert_default();
    }
    // An absent header does not match, inverted or not.
    let Some(value) = value else { return false };
    let fits = match specifier {
        Header::ExactMatch(exact) => value == *exact,
        Header::PrefixMatch(prefix) => value.starts_with(prefix),
        Header::SuffixMatch(suffix) => value.ends_with(suffix),
        Header::ContainsMatch(part) => value.contains(part),
        Header::SafeRegexMatch(regex) => expression_fits(&regex.regex, &value),
        Header::RangeMatch(range) => {
            whole_number(&value).is_some_and(|it| range.start <= it && it < range.end)
        }
        Header::StringMatch(matcher) => text_fits(matcher, &value),
        other => panic!("{other:?}"),
    };
    fits ^ matcher.invert_match
}

fn text_fits(matcher: &StringMatcher, value: &str) -> bool {
    let fold = |text: &str| match matcher.ignore_case {
        true => text.to_ascii_lowercase(),
        false => text.to_owned(),
    };
    match matcher.match_pattern.as_ref().expect("a pattern") {
        MatchPattern::Exact(exact) => fold(value) == fold(exact),
        MatchPattern::Prefix(prefix) => fold(value).starts_with(&fold(prefix)),
        MatchPattern::Suffix(suffix) => fold(value).ends_with(&fold(suffix)),
        MatchPattern::Contains(part) => fold(value).contains(&fold(part)),
        MatchPattern::SafeRegex(regex) => expression_fits(&regex.regex, value),
        other => panic!("{other:?}"),
    }
}

fn whole_number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Whether an expression matches the whole text. Supports letters, `.` and sets of letters, each
/// once or with `+` or `*`.
fn expression_fits(expression: &str, text: &str) -> bool {
    let Some(first) = expression.chars().next() else { return text.is_empty() };
    let (set, rest) = match expression.strip_prefix('[') {
        Some(rest) => rest.split_once(']').expect("a set has an end"),
        None => expression.split_at(first.len_utf8()),
    };
    let fits = |letter: char| first == '.' || set.contains(letter);
    let (least, most, rest) = match rest.chars().next() {
        Some('*') => (0, usize::MAX, &rest[1..]),
        Some('+') => (1, usize::MAX, &rest[1..]),
        _ => (1, 1, rest),
    };
    let longest = text.chars().take_while(|letter| fits(*letter)).count().min(most);
    // All letters are ASCII.
    (least..=longest).any(|count| expression_fits(rest, &text[count..]))
}

fn text() -> impl Strategy<Value = String> {
    "[/abAB]{0,4}"
}

fn expression() -> impl Strategy<Value = String> {
    "([/abAB.]|\\[ab\\]|a\\*|\\.\\*|\\[/B\\]\\+|b\\+){0,4}"
}

fn string_matcher() -> impl Strategy<Value = StringMatcher> {
    let pattern = prop_oneof![
        "[abAB]{0,3}".prop_map(MatchPattern::Exact),
        "[abAB]{1,2}".prop_map(MatchPattern::Prefix),
        "[abAB]{1,2}".prop_map(MatchPattern::Suffix),
        "[abAB]{1,2}".prop_map(MatchPattern::Contains),
        expression().prop_map(|it| MatchPattern::SafeRegex(regex(&it))),
    ];
    (pattern, any::<bool>()).prop_map(|(pattern, ignore_case)| {
        let ignore_case = ignore_case && !matches!(pattern, MatchPattern::SafeRegex(_));
        StringMatcher { match_pattern: Some(pattern), ignore_case }
    })
}

fn header_matcher() -> impl Strategy<Value = HeaderMatcher> {
    let how = prop_oneof![
        "[abAB]{0,2}".prop_map(Header::ExactMatch),
        "[ab]".prop_map(Header::PrefixMatch),
        "[ab]".prop_map(Header::SuffixMatch),
        "[ab,]".prop_map(Header::ContainsMatch),
        expression().prop_map(|it| Header::SafeRegexMatch(regex(&it))),
        (-20..20_i64, 0..20_i64).prop_map(|(start, length)| {
            Header::RangeMatch(Int64Range { start, end: start + length })
        }),
        any::<bool>().prop_map(Header::PresentMatch),
        string_matcher().prop_map(Header::StringMatch),
    ];
    ("[hHi]|h-bin", how, any::<bool>(), any::<bool>()).prop_map(|(name, how, invert, empty)| {
        HeaderMatcher {
            invert_match: invert,
            treat_missing_header_as_empty: empty,
            ..header(&name, Some(how))
        }
    })
}

fn matches() -> impl Strategy<Value = RouteMatch> {
    let path = prop_oneof![
        3 => text().prop_map(|it| path(&it)),
        2 => text().prop_map(|it| prefix(&it)),
        2 => expression().prop_map(|it| safe_regex(&it)),
    ];
    let headers = prop_oneof![
        3 => Just(Vec::new()),
        2 => prop::collection::vec(header_matcher(), 1..3),
    ];
    let share = prop_oneof![4 => Just(None), 1 => Just(Some(0)), 1 => Just(Some(100))];
    let case = prop_oneof![2 => Just(None), 1 => any::<bool>().prop_map(Some)];
    let asks = prop::bool::weighted(0.1);
    (path, headers, share, case, asks).prop_map(|(mut matches, headers, share, case, asks)| {
        matches.headers = headers;
        matches.case_sensitive = case.and_then(boolean);
        if asks {
            let parameter = QueryParameterMatcher { name: "q".into(), ..Default::default() };
            matches.query_parameters = vec![parameter];
        }
        match share {
            Some(percent) => with_fraction(matches, percent, DenominatorType::Hundred),
            None => matches,
        }
    })
}

/// Random tables, short ones that are tested in order and long ones that are indexed. The cluster
/// of each route is named by its index.
pub(crate) fn tables() -> impl Strategy<Value = Vec<Route>> {
    let list = prop_oneof![
        1 => prop::collection::vec(matches(), 0..16),
        3 => prop::collection::vec(matches(), 17..60),
    ];
    list.prop_map(|list| {
        let named = list.into_iter().enumerate();
        named.map(|(index, matches)| route(matches, cluster(&index.to_string()))).collect()
    })
}

/// Random calls: a path and headers.
pub(crate) fn calls() -> impl Strategy<Value = Vec<(String, Vec<(String, String)>)>> {
    let value = "[abAB]{0,3}|-?[0-9]{1,2}|5\\.0|[ab],[ab]";
    let headers = prop::collection::vec(("h|i|h-bin", value), 0..4);
    prop::collection::vec((text(), headers), 1..30)
}
