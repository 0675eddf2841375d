//! Route matching by the rules of Envoy, for tools that explain the routes of a proxy.
//!
//! Only the match criteria of routes are evaluated; what a proxy then does with a request is not
//! modelled. Regular expressions in the syntax that differs between RE2 and the `regex` crate are
//! rejected or match differently ([`crate::pattern`]).

use alloc::{boxed::Box, string::String, vec::Vec};

use bytes::Bytes;
use prost::Message as _;

use super::{
    DomainPattern, ExplainedRoute, NotEvaluated, ProxyCriteria, RouteMatch, Verdict,
    domains::DomainIndex,
    explain::verdict,
    matches::{letter_case, validate_path},
};
use crate::{
    matchers::{validate_header, validate_string_matcher},
    matching::{Call, RouteIndex},
    pattern::{
        Fraction, HeaderMatcher, HeaderTest, Headers, LetterCase, MatchProfile, PathMatcher,
        QueryMatcher, QueryTest,
    },
    proto::envoy::{
        config::route::v3::{
            self as schema, query_parameter_matcher::QueryParameterMatchSpecifier,
            route_match::PathSpecifier,
        },
        r#type::v3::{FractionalPercent, fractional_percent::DenominatorType},
    },
    rules::Rules,
    validation::{InvalidResource, Validator},
};

/// Virtual hosts and route matches of a route configuration, by the rules of Envoy.
#[derive(Clone, Debug)]
pub struct ProxyRoutes {
    hosts: Vec<ProxyHost>,
    index: DomainIndex,
    ignores_port: bool,
}

/// Virtual host of a proxy.
#[derive(Clone, Debug)]
pub struct ProxyHost {
    matches: Vec<RouteMatch>,
    index: RouteIndex,
}

impl ProxyRoutes {
    /// Decodes a route configuration, and validates domains and route matches. All other fields are
    /// ignored. Regular expressions are limited by the rules.
    ///
    /// # Errors
    ///
    /// Returns an error that lists the invalid fields.
    pub fn from_bytes(resource: &Bytes, rules: &Rules) -> Result<Self, InvalidResource> {
        let schema = schema::RouteConfiguration::decode(resource.clone())
            .map_err(|why| InvalidResource::unreadable(&why))?;
        let mut validator = Validator::new(rules, None);
        let (mut hosts, mut domains) = (Vec::new(), Vec::new());
        for (index, host) in schema.virtual_hosts.iter().enumerate() {
            validator.element("virtual_hosts", index, |validator| {
                domains.push(validate_domains(&host.domains, validator));
                hosts.push(validate_host(&host.routes, validator));
            });
        }
        let index = DomainIndex::new(domains.iter().map(Vec::as_slice));
        let ignores_port = schema.ignore_port_in_host_matching;
        validator.finish(Some(Self { hosts, index, ignores_port }))
    }

    /// Returns the index of the virtual host whose domains match a host most specifically, and the
    /// domain. Comparison ignores ASCII case.
    #[must_use]
    pub fn virtual_host(&self, host: &str) -> Option<(usize, DomainPattern)> {
        self.index.find_domain(if self.ignores_port { without_port(host) } else { host })
    }

    /// Returns a virtual host by its index in the resource.
    #[must_use]
    pub fn host(&self, index: usize) -> Option<&ProxyHost> {
        self.hosts.get(index)
    }
}

/// Number that decides all fractions of a request. A proxy draws one for each request.
pub type Drawn = u32;

/// Number of tests from which an explanation samples the numbers, so that shares are approximate.
const MOST_TESTS: u64 = 20_000_000;

impl ProxyHost {
    /// Returns the index of the route of a request.
    pub fn find<H: Headers + ?Sized>(&self, call: &Call<'_, H>, drawn: Drawn) -> Option<usize> {
        self.index.first(MatchProfile::ENVOY.path(call.path), |position, path| {
            let matches = self.matches.get(position)?;
            let mismatch = matches.mismatch(call, path, |_| takes(matches, drawn));
            mismatch.is_none().then_some(position)
        })
    }

    /// Explains which of the routes a request uses, in the order of the resource.
    pub fn explain<H: Headers + ?Sized>(&self, call: &Call<'_, H>) -> Vec<ExplainedRoute> {
        let verdicts: Vec<_> = self.matches.iter().map(|it| verdict(it, call)).collect();
        let matching = |index: &usize| matches!(verdicts.get(*index), Some(Verdict::Matches(_)));
        let candidates: Vec<usize> = (0..verdicts.len()).filter(matching).collect();
        // All numbers with the same remainder are equal, because each denominator divides the next.
        let draws = candidates.iter().filter_map(|&it| self.matches.get(it)?.proxy.as_ref()?.draw);
        let count = draws.map(|(_, denominator)| denominator).max().unwrap_or(1);
        let tests = u64::from(count) * candidates.len() as u64;
        let step = usize::try_from(tests / MOST_TESTS + 1).unwrap_or(usize::MAX);
        let (mut uses, mut last, mut numbers) = (Vec::new(), 0, 0_u32);
        uses.resize(verdicts.len(), 0_u32);
        for drawn in (0..count).step_by(step) {
            numbers += 1;
            let taken = candidates
                .iter()
                .copied()
                .find(|&it| self.matches.get(it).is_some_and(|it| takes(it, drawn)));
            if let Some(used) = taken.and_then(|taken| uses.get_mut(taken)) {
                *used += 1;
            }
            last = last.max(taken.unwrap_or(usize::MAX));
        }
        let explained = verdicts.into_iter().zip(uses).enumerate();
        explained
            .map(|(route, (verdict, uses))| ExplainedRoute {
                route,
                verdict,
                is_reached: route <= last,
                share: f64::from(uses) / f64::from(numbers),
            })
            .collect()
    }
}

/// Whether a route takes a request with this number.
fn takes(matches: &RouteMatch, drawn: Drawn) -> bool {
    let draw = matches.proxy.as_ref().and_then(|proxy| proxy.draw);
    draw.is_none_or(|(numerator, denominator)| drawn % denominator < numerator)
}

/// Returns a host without its port.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if !port.is_empty()
                && port.bytes().all(|it| it.is_ascii_digit())
                // A colon in an IPv6 address without brackets does not begin a port.
                && (name.ends_with(']') || !name.contains(':')) =>
        {
            name
        }
        _ => host,
    }
}

fn validate_domains(domains: &[String], validator: &mut Validator<'_>) -> Vec<DomainPattern> {
    let mut valid = Vec::new();
    for (index, domain) in domains.iter().enumerate() {
        match DomainPattern::parse(domain) {
            Some(domain) => valid.push(domain),
            None => {
                let why = format_args!("`{domain}` is not a valid domain pattern");
                validator.element("domains", index, |validator| validator.error(why));
            }
        }
    }
    valid
}

fn validate_host(routes: &[schema::Route], validator: &mut Validator<'_>) -> ProxyHost {
    let mut matches = Vec::new();
    for (index, route) in routes.iter().enumerate() {
        let of_route = route.r#match.as_ref();
        let validated = validator.element("routes", index, |validator| {
            if of_route.is_none() {
                validator.error_in("match", "must be set");
            }
            validator.field("match", |validator| validate_match(of_route?, validator))
        });
        matches.extend(validated);
    }
    let index = RouteIndex::new(matches.iter().map(|it| &it.path));
    ProxyHost { matches, index }
}

fn validate_match(
    matches: &schema::RouteMatch,
    validator: &mut Validator<'_>,
) -> Option<RouteMatch> {
    let mut proxy = ProxyCriteria::default();
    let any = PathMatcher::Prefix(String::new(), LetterCase::Sensitive);
    let path = match matches.path_specifier.as_ref() {
        Some(PathSpecifier::ConnectMatcher(_)) => {
            proxy.connect = true;
            Some(any)
        }
        Some(PathSpecifier::PathSeparatedPrefix(prefix)) => {
            Some(PathMatcher::SeparatedPrefix(prefix.clone(), letter_case(matches)))
        }
        None => {
            proxy.not_evaluated = Some(NotEvaluated::PathPolicy);
            Some(any)
        }
        Some(_) => validate_path(matches, validator),
    };
    let mut headers = Vec::new();
    for (index, header) in matches.headers.iter().enumerate() {
        headers.extend(
            validator.element("headers", index, |validator| validate_any_header(header, validator)),
        );
    }
    for (index, parameter) in matches.query_parameters.iter().enumerate() {
        proxy.query.extend(
            validator.element("query_parameters", index, |validator| {
                validate_query(parameter, validator)
            }),
        );
    }
    proxy.grpc = matches.grpc.is_some();
    let certificate = matches.tls_context.as_ref();
    proxy.client_certificate = certificate.is_some_and(|it| {
        [it.presented, it.validated].into_iter().flatten().any(|required| required.value)
    });
    for (is_set, criterion) in [
        (!matches.dynamic_metadata.is_empty(), NotEvaluated::DynamicMetadata),
        (!matches.filter_state.is_empty(), NotEvaluated::FilterState),
        (!matches.cookies.is_empty(), NotEvaluated::Cookies),
    ] {
        if is_set {
            proxy.not_evaluated.get_or_insert(criterion);
        }
    }
    let percent = matches.runtime_fraction.as_ref().and_then(|it| it.default_value.as_ref());
    proxy.draw = percent.and_then(draw);
    let fraction = percent.and_then(Fraction::from_schema);
    if percent.is_some() && fraction.is_none() {
        validator.error_in("runtime_fraction.default_value.denominator", "unknown value");
    }
    Some(RouteMatch { proxy: Some(Box::new(proxy)), ..RouteMatch::new(path?, headers, fraction) })
}

/// Returns the numerator and the denominator of a fraction.
fn draw(percent: &FractionalPercent) -> Option<(u32, u32)> {
    let denominator = match DenominatorType::try_from(percent.denominator).ok()? {
        DenominatorType::Hundred => 100,
        DenominatorType::TenThousand => 10_000,
        DenominatorType::Million => 1_000_000,
    };
    Some((percent.numerator, denominator))
}

/// Validates a header matcher. Without a specifier, the header must be present.
fn validate_any_header(
    header: &schema::HeaderMatcher,
    validator: &mut Validator<'_>,
) -> Option<HeaderMatcher> {
    if header.header_match_specifier.is_some() {
        return validate_header(header, validator);
    }
    Some(HeaderMatcher {
        name: header.name.to_ascii_lowercase(),
        test: HeaderTest::Present(true),
        invert: header.invert_match,
        missing_is_empty: false,
    })
}

fn validate_query(
    parameter: &schema::QueryParameterMatcher,
    validator: &mut Validator<'_>,
) -> Option<QueryMatcher> {
    let test = match parameter.query_parameter_match_specifier.as_ref() {
        None => QueryTest::Present(true),
        Some(QueryParameterMatchSpecifier::PresentMatch(present)) => QueryTest::Present(*present),
        Some(QueryParameterMatchSpecifier::StringMatch(matcher)) => QueryTest::Text(
            validator
                .field("string_match", |validator| validate_string_matcher(matcher, validator))?,
        ),
    };
    Some(QueryMatcher::new(parameter.name.clone(), test))
}
