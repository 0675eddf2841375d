//! Validation of route configurations: gRFC A28 as amended, and later gRFCs.
#![allow(deprecated, reason = "servers still send what is")]

use bytes::Bytes;
use prost::Message;
use xds_routing::{
    Rules,
    pattern::{Fraction, HeaderTest, LetterCase, PathMatcher, StringMatcher},
    proto::envoy::{
        config::route::v3::{
            self as schema, QueryParameterMatcher, Route, RouteAction,
            header_matcher::HeaderMatchSpecifier as Header,
            route_action::{HashPolicy, hash_policy},
            route_match::{
                ConnectMatcher, GrpcRouteMatchOptions, PathSpecifier, TlsContextMatchOptions,
            },
        },
        r#type::{
            matcher::v3::RegexMatchAndSubstitute,
            v3::{Int64Range, fractional_percent::DenominatorType},
        },
    },
    route::{RouteConfiguration, SkipReason},
};

use crate::support::*;

fn one(route: Route) -> RouteConfiguration {
    valid(vec![route])
}

#[test]
fn route_requires_prefix_path_or_safe_regex() {
    let text = |matches| {
        one(route(matches, cluster("c"))).virtual_hosts()[0].routes()[0].matches.path.clone()
    };
    assert_eq!(text(prefix("/s/")), PathMatcher::Prefix("/s/".into(), LetterCase::Sensitive));
    assert_eq!(text(path("/s/m")), PathMatcher::Exact("/s/m".into(), LetterCase::Sensitive));
    assert!(
        matches!(text(safe_regex("/s/.*")), PathMatcher::Expression(it) if it.pattern() == "/s/.*")
    );

    let place = "virtual_hosts[0].routes[0].match.";
    let none = route(schema::RouteMatch::default(), cluster("c"));
    assert_eq!(fault(none), format!("{place}path_specifier: must be prefix, path or safe_regex"));
    let connect = route(on(PathSpecifier::ConnectMatcher(ConnectMatcher {})), cluster("c"));
    assert_eq!(fault(connect), format!("{place}connect_matcher: not supported by gRPC"));
    let separated = route(on(PathSpecifier::PathSeparatedPrefix("/s".into())), cluster("c"));
    assert_eq!(fault(separated), format!("{place}path_separated_prefix: not supported by gRPC"));
    let broken = fault(route(safe_regex("/s/(.*"), cluster("c")));
    assert_eq!(broken, format!("{place}safe_regex.regex: invalid expression: unclosed group"));
    println!("covers: S2.072 S2.073 S2.074 S2.075 S2.101");
}

/// The removed fields `regex` of a match (field 3) and `regex_match` of a header (field 5) are
/// unknown to the schema, so the resource is rejected.
#[test]
fn removed_regex_fields_are_rejected() {
    let mut matches = b"\x1a\x03a.*".to_vec();
    let config = |matches: &[u8]| {
        // match = 1 of a route, routes = 3 of a host, domains = 2, virtual_hosts = 2.
        let field =
            |number: u8, inner: &[u8]| [&[number << 3 | 2, inner.len() as u8], inner].concat();
        let action = field(2, &field(1, b"c"));
        let route = field(3, &[field(1, matches), action].concat());
        Bytes::from(field(2, &[field(2, b"*"), route].concat()))
    };
    let reason = RouteConfiguration::from_bytes(&config(&matches), &Rules::default()).unwrap_err();
    assert_eq!(reason.fields[0].path, "virtual_hosts[0].routes[0].match.path_specifier");

    // Prefix "/", and a header "h" with `regex_match`.
    matches = b"\x0a\x01/\x32\x06\x0a\x01h\x2a\x01a".to_vec();
    let reason = RouteConfiguration::from_bytes(&config(&matches), &Rules::default()).unwrap_err();
    assert_eq!(
        reason.fields[0].path,
        "virtual_hosts[0].routes[0].match.headers[0].header_match_specifier"
    );
    println!("covers: S2.077 S2.087 X35");
}

#[test]
fn header_matchers_of_grpc_are_parsed() {
    let test = |how| {
        let config = one(route(with_header(prefix(""), "H", how), cluster("c")));
        let header = config.virtual_hosts()[0].routes()[0].matches.headers[0].clone();
        assert_eq!(header.name, "h");
        header.test
    };
    let case = LetterCase::Sensitive;
    assert_eq!(
        test(Header::ExactMatch("v".into())),
        HeaderTest::Text(StringMatcher::Exact("v".into(), case))
    );
    assert_eq!(
        test(Header::PrefixMatch("v".into())),
        HeaderTest::Text(StringMatcher::Prefix("v".into(), case))
    );
    assert_eq!(
        test(Header::SuffixMatch("v".into())),
        HeaderTest::Text(StringMatcher::Suffix("v".into(), case))
    );
    assert_eq!(
        test(Header::ContainsMatch("v".into())),
        HeaderTest::Text(StringMatcher::Contains("v".into(), case))
    );
    assert_eq!(test(Header::PresentMatch(false)), HeaderTest::Present(false));
    assert_eq!(
        test(Header::RangeMatch(Int64Range { start: -1, end: 3 })),
        HeaderTest::Range(-1, 3)
    );
    assert!(matches!(
        test(Header::SafeRegexMatch(regex("v+"))),
        HeaderTest::Text(StringMatcher::Expression(_))
    ));

    let place = "virtual_hosts[0].routes[0].match.headers[0].";
    let with = |how| {
        let mut matches = prefix("");
        matches.headers.push(header("h", how));
        fault(route(matches, cluster("c")))
    };
    assert_eq!(
        with(None),
        format!("{place}header_match_specifier: must be one that gRPC supports")
    );
    assert!(
        with(Some(Header::SafeRegexMatch(regex("*"))))
            .starts_with(&format!("{place}safe_regex_match.regex: "))
    );
    let backwards = with(Some(Header::RangeMatch(Int64Range { start: 2, end: 1 })));
    assert_eq!(
        backwards,
        format!("{place}range_match: the end must not be smaller than the start")
    );
    let nameless =
        fault(route(with_header(prefix(""), "", Header::PresentMatch(true)), cluster("c")));
    assert!(nameless.starts_with(&format!("{place}name: ")), "{nameless}");
    println!("covers: S2.078");
}

#[test]
fn re2_program_size_is_ignored() {
    #[allow(deprecated, reason = "that is the point")]
    let sized = |pattern: &str| {
        use xds_core::proto::envoy::r#type::matcher::v3::regex_matcher::{EngineType, GoogleRe2};
        let mut matcher = regex(pattern);
        let engine = GoogleRe2 { max_program_size: number(1) };
        matcher.engine_type = Some(EngineType::GoogleRe2(engine));
        matcher
    };
    let long = "/[a-z]{20}/[a-z]{20}";
    let matches = on(PathSpecifier::SafeRegex(sized(long)));
    assert_eq!(fault(route(matches, cluster("c"))), "");
    let matches = with_header(prefix(""), "h", Header::SafeRegexMatch(sized(long)));
    assert_eq!(fault(route(matches, cluster("c"))), "");
    println!("covers: S2.076 S2.086");
}

#[test]
fn only_the_default_of_a_runtime_fraction_is_used() {
    let fraction = |numerator, of| {
        let matches = with_fraction(prefix(""), numerator, of);
        one(route(matches, cluster("c"))).virtual_hosts()[0].routes()[0].matches.fraction
    };
    assert_eq!(fraction(25, DenominatorType::Hundred), Some(Fraction::from_millionths(250_000)));
    assert_eq!(fraction(25, DenominatorType::TenThousand), Some(Fraction::from_millionths(2_500)));
    assert_eq!(fraction(25, DenominatorType::Million), Some(Fraction::from_millionths(25)));
    assert_eq!(fraction(u32::MAX, DenominatorType::Hundred), Some(Fraction::ALL));

    let mut without = prefix("");
    without.runtime_fraction = Some(Default::default());
    assert_eq!(
        one(route(without, cluster("c"))).virtual_hosts()[0].routes()[0].matches.fraction,
        None
    );
    let mut unknown = with_fraction(prefix(""), 1, DenominatorType::Hundred);
    if let Some(percent) =
        unknown.runtime_fraction.as_mut().and_then(|it| it.default_value.as_mut())
    {
        percent.denominator = 7;
    }
    assert!(
        fault(route(unknown, cluster("c"))).contains("runtime_fraction.default_value.denominator")
    );
    println!("covers: S2.088 S2.089 S2.122");
}

/// A route with query parameters is skipped without further validation, because the rest may be
/// for other clients.
#[test]
fn route_with_query_parameters_is_skipped_without_validation() {
    let mut matches = safe_regex("(");
    matches.query_parameters.push(QueryParameterMatcher { name: "q".into(), ..Default::default() });
    let config = valid(vec![route(matches, weighted(&[])), route(prefix(""), cluster("c"))]);
    let host = &config.virtual_hosts()[0];
    assert_eq!(host.routes().len(), 1);
    assert_eq!(host.skipped_routes()[0].route, 0);
    assert_eq!(host.skipped_routes()[0].why, SkipReason::QueryParameters);
    println!("covers: S2.090 X33");
}

#[test]
fn proxy_only_and_unknown_match_fields_are_ignored() {
    let mut matches = prefix("/s/");
    matches.grpc = Some(GrpcRouteMatchOptions {});
    matches.tls_context =
        Some(TlsContextMatchOptions { presented: boolean(true), ..Default::default() });
    let config = one(route(matches, cluster("c")));
    let matches = &config.virtual_hosts()[0].routes()[0].matches;
    assert!(matches.headers.is_empty() && matches.fraction.is_none());
    assert!(matches.path.matches("/s/m") && !matches.path.matches("/t/m"));

    // Unknown fields, such as field 1000 of the resource, are no errors.
    let mut bytes = table(vec![route(prefix(""), cluster("c"))]).encode_to_vec();
    bytes.extend([0xc2, 0x3e, 0x01, b'x']);
    assert!(RouteConfiguration::from_bytes(&bytes.into(), &Rules::default()).is_ok());
    println!("covers: S2.091 S2.092 S2.102");
}

#[test]
fn case_can_be_ignored_except_in_regexes() {
    let any_case = |mut matches: schema::RouteMatch| {
        matches.case_sensitive = boolean(false);
        matches
    };
    let fits = |matches, path: &str| {
        let config = one(route(matches, cluster("c")));
        config.virtual_hosts()[0].routes()[0].matches.path.matches(path)
    };
    assert!(fits(any_case(path("/S/m")), "/s/M") && !fits(path("/S/m"), "/s/M"));
    assert!(fits(any_case(prefix("/S/")), "/s/M") && !fits(prefix("/S/"), "/s/M"));
    assert!(!fits(any_case(safe_regex("/S/m")), "/s/M"));
    let mut stated = path("/S/m");
    stated.case_sensitive = boolean(true);
    assert!(!fits(stated, "/s/M"));

    let draft = RouteConfiguration::from_schema(
        &table(vec![route(any_case(prefix("")), cluster("c"))]),
        &Rules::initial_a28(),
    );
    assert!(draft.unwrap_err().to_string().ends_with("match.case_sensitive: must not be false"));
    println!("covers: S2.093 S2.094 X30");
}

#[test]
fn every_error_of_every_virtual_host_is_reported() {
    let config = routes(
        "r",
        vec![
            host(&["a"], vec![route(prefix(""), cluster("c"))]),
            host(
                &["b", "*c*"],
                vec![route(prefix(""), cluster("")), route(safe_regex("["), cluster("c"))],
            ),
            host(&[], vec![]),
        ],
    );
    let invalid = validated(&config).unwrap_err();
    let paths: Vec<_> = invalid.fields.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "virtual_hosts[1].domains[1]",
            "virtual_hosts[1].routes[0].route.cluster",
            "virtual_hosts[1].routes[1].match.safe_regex.regex",
            "virtual_hosts[2].domains",
        ]
    );
    let many = vec![route(prefix(""), cluster("")); 30];
    let invalid = validated(&table(many)).unwrap_err();
    assert_eq!((invalid.fields.len(), invalid.omitted), (10, 20));
    assert!(invalid.to_string().ends_with("; and 20 more"));
    println!("covers: S2.071 X32");
}

#[test]
fn same_route_match_may_occur_twice() {
    let config = valid(vec![route(prefix("/s"), cluster("a")), route(prefix("/s"), cluster("b"))]);
    assert_eq!(config.virtual_hosts()[0].routes().len(), 2);
    println!("covers: S2.041");
}

#[test]
fn regex_length_and_compiled_size_are_limited() {
    let long = "a".repeat(5_000);
    assert!(
        fault(route(safe_regex(&long), cluster("c")))
            .contains("expression of 5000 bytes exceeds the limit of 4096")
    );
    let large = fault(route(safe_regex("(\\w{100}){100}"), cluster("c")));
    assert!(large.contains("bytes when compiled"), "{large}");
    // `a)(b` would be valid between the anchors, and a comment would hide the closing one.
    assert!(fault(route(safe_regex("a)(b"), cluster("c"))).contains("invalid expression"));
    assert!(
        fault(route(safe_regex("(?x)/s/ m # a method"), cluster("c")))
            .contains("invalid expression")
    );
    assert!(fault(route(safe_regex("(a)\\1"), cluster("c"))).contains("backreferences"));
    let mut rules = Rules::default();
    rules.expressions.count = 2;
    let many = (0..3).map(|n| route(safe_regex(&format!("/{n}")), cluster("c"))).collect();
    let why = RouteConfiguration::from_schema(&table(many), &rules).unwrap_err().to_string();
    assert!(why.contains("more than 2 different expressions"), "{why}");
    // Small expressions are charged 4 KiB each, including those of rewrites.
    let mut rules = Rules::default();
    rules.expressions.total = 3 * 4 * 1024;
    let small = |count: usize| {
        let mut routes: Vec<_> =
            (0..count).map(|n| route(safe_regex(&format!("/{n}")), cluster("c"))).collect();
        // Equal expressions are charged once.
        routes.push(route(safe_regex("/0"), cluster("c")));
        let rewrite =
            RegexMatchAndSubstitute { pattern: Some(regex("a")), substitution: "b".into() };
        let header = hash_policy::Header { header_name: "h".into(), regex_rewrite: Some(rewrite) };
        let policy = HashPolicy {
            policy_specifier: Some(hash_policy::PolicySpecifier::Header(header)),
            terminal: false,
        };
        let hashed = RouteAction { hash_policy: vec![policy], ..action(cluster("c")) };
        routes.push(route_to(prefix(""), hashed));
        RouteConfiguration::from_schema(&table(routes), &rules).map_err(|it| it.to_string())
    };
    assert!(small(2).is_ok());
    let why = small(3).unwrap_err();
    let place =
        "virtual_hosts[0].routes[4].route.hash_policy[0].header.regex_rewrite.pattern.regex";
    assert_eq!(
        why,
        format!("{place}: the expressions of the resource exceed 12288 bytes when compiled")
    );
    println!("covers: X37");
}

/// No gRPC call can match these routes, so their errors do not matter.
#[test]
fn route_that_no_grpc_path_matches_is_skipped_without_validation() {
    let odd = |matches| with_header(matches, "", Header::PresentMatch(true));
    let never = ["a", "//", "//m", "/s/m/", "/s/m/x"].map(prefix);
    let never = never.into_iter().chain(["", "/", "s/m", "/s", "/s/", "//m", "/s/m/x"].map(path));
    for matches in never {
        let config = valid(vec![
            route(odd(matches.clone()), weighted(&[])),
            route(prefix(""), cluster("c")),
        ]);
        let host = &config.virtual_hosts()[0];
        assert_eq!(host.routes().len(), 1, "{matches:?}");
        assert_eq!(host.skipped_routes()[0].why, SkipReason::Path, "{matches:?}");
    }
    let some = ["", "/", "/s", "/s/", "/s/m"].map(prefix).into_iter().chain([path("/s/m")]);
    for matches in some {
        assert!(fault(route(odd(matches.clone()), cluster("c"))).contains("headers[0]"));
    }
}

/// The expression itself determines case sensitivity.
#[test]
fn regex_header_matcher_with_ignore_case_is_rejected() {
    let matcher = xds_core::proto::StringMatcher {
        ignore_case: true,
        match_pattern: Some(
            xds_core::proto::envoy::r#type::matcher::v3::string_matcher::MatchPattern::SafeRegex(
                regex("a+"),
            ),
        ),
    };
    let told =
        fault(route(with_header(prefix(""), "h", Header::StringMatch(matcher)), cluster("c")));
    assert!(told.contains("headers[0].string_match.ignore_case"), "{told}");
}
