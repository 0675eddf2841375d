//! Route matches.

use alloc::{boxed::Box, string::String, vec::Vec};

use super::criteria::{Mismatch, ProxyCriteria};
use crate::{
    matchers::validate_header,
    matching::{Call, PathTest},
    pattern::{Fraction, HeaderMatcher, Headers, LetterCase, MatchProfile, PathMatcher},
    proto::envoy::config::route::v3 as schema,
    random::Random,
    rules::CaseInsensitive,
    validation::Validator,
};
use schema::route_match::PathSpecifier;

/// Conditions of a route. A call matches if it meets all of them.
// S2.046
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteMatch {
    /// Path matcher.
    pub path: PathMatcher,
    /// Header matchers, all of which must match.
    pub headers: Vec<HeaderMatcher>,
    /// Fraction of the otherwise matching calls. `None` means all.
    // S2.032
    pub fraction: Option<Fraction>,
    /// Criteria that only proxies read. `None` in a route of gRPC.
    pub proxy: Option<Box<ProxyCriteria>>,
}

impl RouteMatch {
    /// Creates a match of the criteria that gRPC reads.
    pub(crate) const fn new(
        path: PathMatcher,
        headers: Vec<HeaderMatcher>,
        fraction: Option<Fraction>,
    ) -> Self {
        Self { path, headers, fraction, proxy: None }
    }

    /// Creates a match for every call.
    pub(crate) const fn for_all() -> Self {
        Self::new(PathMatcher::Prefix(String::new(), LetterCase::Sensitive), Vec::new(), None)
    }

    /// Whether a call matches. Draws a random number only for calls that meet all other conditions.
    pub fn matches<H: Headers + ?Sized>(&self, call: &Call<'_, H>, random: &mut Random) -> bool {
        self.mismatch(call, PathTest::Needed, |fraction| fraction.draw(random)).is_none()
    }

    /// Returns the first criterion that a call does not meet: of the path, the headers, the criteria
    /// of proxies and the fraction, in this order. `draw` decides about the fraction.
    pub(crate) fn mismatch<H: Headers + ?Sized>(
        &self,
        call: &Call<'_, H>,
        path: PathTest,
        draw: impl FnOnce(Fraction) -> bool,
    ) -> Option<Mismatch> {
        let profile = match self.proxy {
            None => &MatchProfile::GRPC,
            Some(_) => &MatchProfile::ENVOY,
        };
        if path == PathTest::Needed && !self.path.matches(profile.path(call.path)) {
            return Some(Mismatch::Path);
        }
        let fits = |header: &HeaderMatcher| header.matches_by(profile, call.headers);
        if let Some(header) = self.headers.iter().position(|header| !fits(header)) {
            return Some(Mismatch::Header(header));
        }
        let of_proxy = self.proxy.as_deref().and_then(|proxy| proxy.mismatch(profile, call));
        let is_drawn = |fraction| !draw(fraction);
        of_proxy.or_else(|| self.fraction.is_some_and(is_drawn).then_some(Mismatch::Fraction))
    }

    /// Whether every call matches.
    #[must_use]
    pub fn is_catch_all(&self) -> bool {
        let is_all = self.fraction.is_none_or(|fraction| fraction == Fraction::ALL);
        self.path.matches_all() && self.headers.is_empty() && self.proxy.is_none() && is_all
    }
}

/// Whether the path of some gRPC call can match.
pub(crate) fn can_match(matches: &schema::RouteMatch) -> bool {
    let case = LetterCase::Sensitive;
    match matches.path_specifier.as_ref() {
        Some(PathSpecifier::Prefix(prefix)) => {
            PathMatcher::Prefix(prefix.clone(), case).can_match()
        }
        Some(PathSpecifier::Path(path)) => PathMatcher::Exact(path.clone(), case).can_match(),
        _ => true,
    }
}

pub(crate) fn validate_match(
    matches: &schema::RouteMatch,
    validator: &mut Validator<'_>,
) -> Option<RouteMatch> {
    let path = validate_path(matches, validator);
    let mut headers = Vec::new();
    for (index, header) in matches.headers.iter().enumerate() {
        headers.extend(
            validator.element("headers", index, |validator| validate_header(header, validator)),
        );
    }
    // `runtime_key` is for Envoy's runtime, which gRPC does not have (S2.089).
    let fraction = matches.runtime_fraction.as_ref().and_then(|it| it.default_value.as_ref());
    let fraction = fraction.map(|percent| {
        let fraction = Fraction::from_schema(percent);
        if fraction.is_none() {
            validator.error_in("runtime_fraction.default_value.denominator", "unknown value");
        }
        fraction
    });
    let fraction = match fraction {
        Some(known) => Some(known?),
        None => None,
    };
    Some(RouteMatch::new(path?, headers, fraction))
}

/// Validates the case sensitivity and the path specifier.
pub(crate) fn validate_path(
    matches: &schema::RouteMatch,
    validator: &mut Validator<'_>,
) -> Option<PathMatcher> {
    let case = letter_case(matches);
    if case == LetterCase::Ignored && validator.rules.case_insensitive == CaseInsensitive::Rejected
    {
        validator.error_in("case_sensitive", "must not be false");
    }
    match matches.path_specifier.as_ref() {
        Some(PathSpecifier::Prefix(prefix)) => Some(PathMatcher::Prefix(prefix.clone(), case)),
        Some(PathSpecifier::Path(path)) => Some(PathMatcher::Exact(path.clone(), case)),
        Some(PathSpecifier::SafeRegex(regex)) => validator
            .field("safe_regex.regex", |validator| validator.expression(&regex.regex))
            .map(PathMatcher::Expression),
        Some(PathSpecifier::ConnectMatcher(_)) => {
            validator.error_in("connect_matcher", "not supported by gRPC");
            None
        }
        Some(PathSpecifier::PathSeparatedPrefix(_)) => {
            validator.error_in("path_separated_prefix", "not supported by gRPC");
            None
        }
        None => {
            validator.error_in("path_specifier", "must be prefix, path or safe_regex");
            None
        }
    }
}

/// Returns the case sensitivity of the path.
pub(crate) fn letter_case(matches: &schema::RouteMatch) -> LetterCase {
    match matches.case_sensitive.as_ref().is_none_or(|it| it.value) {
        true => LetterCase::Sensitive,
        false => LetterCase::Ignored,
    }
}
