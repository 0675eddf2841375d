//! Explanations of routes, by the rules of gRPC and of Envoy.
#![allow(deprecated, reason = "servers still send what is")]

use crate::{reference, support::*};
use proptest::prelude::*;
use prost::Message as _;
use xds_core::proto::{
    BoolValue, StringMatcher, envoy::r#type::matcher::v3::string_matcher::MatchPattern,
};
use xds_routing::{
    Call, Random, Rules,
    proto::envoy::{
        config::route::v3::{
            QueryParameterMatcher, Route as RouteSchema, RouteConfiguration as Schema, RouteMatch,
            header_matcher::HeaderMatchSpecifier as Header,
            query_parameter_matcher::QueryParameterMatchSpecifier as Query,
            route_match::{self, PathSpecifier},
        },
        r#type::v3::fractional_percent::DenominatorType,
    },
    route::{
        Action, ClusterChoice, DomainPattern, Drawn, ExplainedRoute, Mismatch, NotEvaluated,
        ProxyRoutes, SkipReason, Verdict,
    },
};

type Pairs<'a> = [(&'a str, &'a str)];

const ALL: Verdict = Verdict::Matches(xds_routing::pattern::Fraction::ALL);

fn verdicts(explained: &[ExplainedRoute]) -> Vec<Verdict> {
    explained.iter().map(|it| it.verdict).collect()
}

fn proxy(schema: &Schema) -> ProxyRoutes {
    ProxyRoutes::from_bytes(&schema.encode_to_vec().into(), &Rules::default()).unwrap()
}

fn proxy_routes(table: Vec<RouteSchema>) -> ProxyRoutes {
    proxy(&routes("r", vec![host(&["*"], table)]))
}

/// Explains the routes of the first virtual host of a proxy.
fn explained(routes: &ProxyRoutes, path: &str, headers: &Pairs<'_>) -> Vec<ExplainedRoute> {
    routes.host(0).unwrap().explain(&Call::new(path, headers))
}

fn to_a(matches: RouteMatch) -> RouteSchema {
    route(matches, cluster("a"))
}

#[test]
fn explanation_names_the_first_criterion_that_a_call_does_not_meet() {
    let asks = QueryParameterMatcher { name: "q".into(), ..Default::default() };
    let both = with_header(
        with_header(prefix("/s"), "h", Header::ExactMatch("v".into())),
        "i",
        Header::PresentMatch(true),
    );
    let config = valid(vec![
        to_a(path("/s/other")),
        to_a(both),
        to_a(RouteMatch { query_parameters: vec![asks], ..prefix("/s") }),
        to_a(with_fraction(prefix("/s"), 0, DenominatorType::Hundred)),
        to_a(prefix("/s")),
        to_a(prefix("")),
    ]);
    let explain =
        |headers: &Pairs<'_>| config.virtual_hosts()[0].explain(&Call::new("/s/m", headers));
    let rest = [
        Verdict::Skipped(SkipReason::QueryParameters),
        Verdict::Mismatch(Mismatch::Fraction),
        ALL,
        ALL,
    ];
    for (headers, second) in [
        (&[][..], Verdict::Mismatch(Mismatch::Header(0))),
        (&[("h", "v")], Verdict::Mismatch(Mismatch::Header(1))),
        (&[("h", "v"), ("i", "")], ALL),
    ] {
        let expected = [&[Verdict::Mismatch(Mismatch::Path), second], &rest[..]].concat();
        assert_eq!(verdicts(&explain(headers)), expected, "{headers:?}");
    }
    let explained = explain(&[]);
    let indices: Vec<_> = explained.iter().map(|it| it.route).collect();
    assert_eq!(indices, [0, 1, 2, 3, 4, 5], "skipped routes keep their places");
    let reached: Vec<_> = explained.iter().map(|it| it.is_reached).collect();
    assert_eq!(reached, [true, true, true, true, true, false]);
}

#[test]
fn fractions_split_calls_independently_in_grpc_and_by_one_number_in_envoy() {
    let percent = |percent| with_fraction(prefix(""), percent, DenominatorType::Hundred);
    let table = || vec![to_a(percent(25)), to_a(percent(50)), to_a(prefix(""))];
    let shares = |explained: Vec<ExplainedRoute>| -> Vec<f64> {
        explained.into_iter().map(|it| it.share).collect()
    };
    let grpc = valid(table());
    let of_grpc = grpc.virtual_hosts()[0].explain(&Call::new("/s/m", &[] as &Pairs<'_>));
    assert_eq!(shares(of_grpc), [0.25, 0.375, 0.375]);
    assert_eq!(shares(explained(&proxy_routes(table()), "/s/m", &[])), [0.25, 0.25, 0.5]);
    // Without a route for the rest.
    let part = explained(&proxy_routes(vec![to_a(percent(25))]), "/s/m", &[]);
    assert_eq!(shares(part), [0.25]);
}

#[test]
fn query_string_is_part_of_the_path_only_in_grpc() {
    let parameter = |name: &str, how| QueryParameterMatcher {
        name: name.into(),
        query_parameter_match_specifier: how,
    };
    let is_one = StringMatcher {
        match_pattern: Some(MatchPattern::Exact("1".into())),
        ..Default::default()
    };
    let asks = |it| RouteMatch { query_parameters: vec![it], ..prefix("/") };
    let table = vec![
        to_a(path("/s/m")),
        to_a(asks(parameter("q", None))),
        to_a(asks(parameter("q", Some(Query::StringMatch(is_one))))),
        to_a(asks(parameter("q", Some(Query::PresentMatch(false))))),
    ];
    let missing = Verdict::Mismatch(Mismatch::QueryParameter(0));
    let routes = proxy_routes(table.clone());
    for (path, expected) in [
        ("/s/m", [ALL, missing, missing, ALL]),
        ("/s/m?q=1", [ALL, ALL, ALL, missing]),
        ("/s/m?p&q=2&q=1", [ALL, ALL, missing, missing]),
    ] {
        assert_eq!(verdicts(&explained(&routes, path, &[])), expected, "{path}");
    }
    let grpc = valid(table);
    let of_grpc = grpc.virtual_hosts()[0].explain(&Call::new("/s/m?q=1", &[] as &Pairs<'_>));
    assert_eq!(of_grpc[0].verdict, Verdict::Mismatch(Mismatch::Path));
}

#[test]
fn proxies_see_binary_headers_pseudo_headers_and_each_value() {
    let routes = proxy_routes(vec![
        to_a(with_header(prefix(""), "h-bin", Header::PresentMatch(true))),
        to_a(with_header(prefix(""), ":method", Header::ExactMatch("GET".into()))),
        to_a(with_header(prefix(""), "k", Header::ExactMatch("one".into()))),
        to_a(with_header(prefix(""), "content-type", Header::PresentMatch(false))),
    ]);
    let absent = Verdict::Mismatch(Mismatch::Header(0));
    let headers = [("h-bin", "AQID"), (":method", "GET"), ("k", "two"), ("k", "one")];
    assert_eq!(verdicts(&explained(&routes, "/", &headers)), [ALL; 4]);
    let headers = [(":method", "POST"), ("k", "one,two"), ("content-type", "text/plain")];
    assert_eq!(verdicts(&explained(&routes, "/", &headers)), [absent; 4]);
}

#[test]
fn proxies_read_criteria_that_grpc_rejects_or_ignores() {
    let of = |path_specifier| RouteMatch { path_specifier, ..Default::default() };
    let separated = |text: &str| of(Some(PathSpecifier::PathSeparatedPrefix(text.into())));
    let certificate = route_match::TlsContextMatchOptions {
        presented: Some(BoolValue { value: true }),
        validated: None,
    };
    let mut header = with_header(prefix("/s"), "k", Header::PresentMatch(true));
    header.headers[0].header_match_specifier = None;
    let routes = proxy_routes(vec![
        to_a(of(Some(PathSpecifier::ConnectMatcher(route_match::ConnectMatcher {})))),
        to_a(separated("/s")),
        to_a(RouteMatch { case_sensitive: Some(BoolValue { value: false }), ..separated("/S") }),
        to_a(of(None)),
        to_a(RouteMatch { grpc: Some(route_match::GrpcRouteMatchOptions {}), ..prefix("/s") }),
        to_a(RouteMatch { tls_context: Some(certificate), ..prefix("/s") }),
        to_a(RouteMatch { cookies: vec![Default::default()], ..prefix("/s") }),
        to_a(RouteMatch { dynamic_metadata: vec![Default::default()], ..prefix("/s") }),
        to_a(RouteMatch { filter_state: vec![Default::default()], ..prefix("/s") }),
        to_a(header),
    ]);
    let no = Verdict::Mismatch;
    let open = |criterion| no(Mismatch::NotEvaluated(criterion));
    let end = [
        no(Mismatch::ClientCertificate),
        open(NotEvaluated::Cookies),
        open(NotEvaluated::DynamicMetadata),
        open(NotEvaluated::FilterState),
    ];
    let of_path = open(NotEvaluated::PathPolicy);
    let get = [(":method", "GET"), ("content-type", "application/grpc-web"), ("k", "")];
    let expected =
        [&[no(Mismatch::NotConnect), ALL, ALL, of_path, no(Mismatch::NotGrpc)], &end[..], &[ALL]];
    assert_eq!(verdicts(&explained(&routes, "/s/m?x", &get)), expected.concat());
    let post = [(":method", "POST"), ("content-type", "application/grpc+proto")];
    let absent = no(Mismatch::Header(0));
    let expected = [&[no(Mismatch::NotConnect), ALL, ALL, of_path, ALL], &end[..], &[absent]];
    assert_eq!(verdicts(&explained(&routes, "/s", &post)), expected.concat());
    let other = explained(&routes, "/sm", &post);
    assert_eq!(other[1].verdict, no(Mismatch::Path), "a prefix ends at a slash");

    // Only the route for CONNECT requests matches one without a path.
    let connect = explained(&routes, "", &[(":method", "CONNECT")]);
    let matching: Vec<_> =
        connect.iter().filter(|it| it.verdict == ALL).map(|it| it.route).collect();
    assert_eq!(matching, [0]);
}

#[test]
fn virtual_host_of_a_proxy_is_found_by_its_most_specific_domain() {
    let mut schema = routes(
        "r",
        vec![host(&["*"], vec![]), host(&["a.com", "*.a.com"], vec![]), host(&["b.*"], vec![])],
    );
    let find = |schema: &Schema, name: &str| {
        proxy(schema).virtual_host(name).map(|(host, domain)| (host, domain.to_string()))
    };
    let of = |host: usize, domain: &str| Some((host, domain.to_owned()));
    assert_eq!(find(&schema, "A.com"), of(1, "a.com"));
    assert_eq!(find(&schema, "x.a.com"), of(1, "*.a.com"));
    assert_eq!(find(&schema, "b.org:80"), of(2, "b.*"));
    assert_eq!(find(&schema, "a.com:80"), of(0, "*"));
    schema.ignore_port_in_host_matching = true;
    assert_eq!(find(&schema, "a.com:80"), of(1, "a.com"));
    for host in ["[::1]:80", "::1", "a.com:http", "a.com:"] {
        assert_eq!(find(&schema, host), of(0, "*"), "{host}");
    }
    let grpc = validated(&schema).unwrap();
    assert_eq!(grpc.matched_domain("x.a.com"), Some((1, DomainPattern::Suffix(".a.com".into()))));
}

#[test]
fn invalid_matches_of_a_proxy_are_rejected_with_their_paths() {
    let schema =
        routes("r", vec![host(&["a*b"], vec![to_a(safe_regex("a(")), RouteSchema::default()])]);
    let error = ProxyRoutes::from_bytes(&schema.encode_to_vec().into(), &Rules::default());
    let paths: Vec<_> = error.unwrap_err().fields.into_iter().map(|it| it.path).collect();
    assert_eq!(
        paths,
        [
            "virtual_hosts[0].domains[0]",
            "virtual_hosts[0].routes[0].match.safe_regex.regex",
            "virtual_hosts[0].routes[1].match",
        ]
    );
    assert!(ProxyRoutes::from_bytes(&b"\xff".as_slice().into(), &Rules::default()).is_err());
}

/// Random tables whose routes take some share of the calls.
fn tables_with_fractions() -> impl Strategy<Value = Vec<RouteSchema>> {
    let percents = prop::collection::vec(prop::option::weighted(0.4, 0..=100_u32), 60);
    (reference::tables(), percents).prop_map(|(table, percents)| {
        let both = table.into_iter().zip(percents);
        let routes = both.map(|(mut route, percent)| {
            if let Some(percent) = percent {
                let matches = route.r#match.take().unwrap();
                route.r#match = Some(with_fraction(matches, percent, DenominatorType::Hundred));
            }
            route
        });
        routes.collect()
    })
}

fn pairs(headers: &[(String, String)]) -> Vec<(&str, &str)> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

proptest! {
    /// An explanation, with the fractions drawn in its order, gives the route that is found with the
    /// same seed.
    #[test]
    fn explanation_agrees_with_the_route_that_is_found(
        table in tables_with_fractions(),
        calls in reference::calls(),
        seed: u64,
    ) {
        let config = valid(table);
        let host = &config.virtual_hosts()[0];
        let (mut finding, mut explaining) = (Random::new(seed), Random::new(seed));
        for (path, headers) in &calls {
            let headers = pairs(headers);
            let call = Call::new(path, headers.as_slice());
            let found = host.find(&call, &mut finding).ok().map(|route| match &route.action {
                Action::Forward(forward) => match &forward.clusters {
                    ClusterChoice::Cluster(name) => name.as_str().parse::<usize>().unwrap(),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            });
            let explained = host.explain(&call);
            let expected = explained.iter().find(|it| match it.verdict {
                // A route without a fraction draws no number.
                Verdict::Matches(fraction) => {
                    let position = explained[..it.route].iter();
                    let skipped = position.filter(|it| matches!(it.verdict, Verdict::Skipped(_)));
                    let route = &host.routes()[it.route - skipped.count()];
                    route.matches.fraction.is_none() || fraction.draw(&mut explaining)
                }
                Verdict::Mismatch(Mismatch::Fraction) => {
                    // It was drawn too.
                    let _ = xds_routing::pattern::Fraction::ALL.draw(&mut explaining);
                    false
                }
                _ => false,
            });
            prop_assert_eq!(found, expected.map(|it| it.route), "{} {:?}", path, headers);
            prop_assert!(expected.is_none_or(|it| it.share > 0.0 && it.is_reached));
            let shares: f64 = explained.iter().map(|it| it.share).sum();
            prop_assert!((0.0..=1.000_001).contains(&shares));
        }
    }

    /// Each number that a proxy may draw gives a route with a positive share, and the shares are the
    /// frequencies of the routes.
    #[test]
    fn explanation_of_a_proxy_agrees_with_the_routes_that_are_found(
        table in tables_with_fractions(),
        calls in reference::calls(),
    ) {
        let routes = proxy_routes(table);
        let host = routes.host(0).unwrap();
        for (path, headers) in &calls {
            let headers = pairs(headers);
            let call = Call::new(path, headers.as_slice());
            let explained = host.explain(&call);
            let mut counts = vec![0_u32; explained.len()];
            for drawn in 0..100 as Drawn {
                let Some(found) = host.find(&call, drawn) else { continue };
                prop_assert!(matches!(explained[found].verdict, Verdict::Matches(_)));
                counts[found] += 1;
            }
            for (explained, count) in explained.iter().zip(counts) {
                prop_assert!((explained.share * 100.0 - f64::from(count)).abs() < 1e-6);
            }
        }
    }
}
