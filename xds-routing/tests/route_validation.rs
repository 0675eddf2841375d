//! What makes a route configuration valid: gRFC A28 as amended, and what came after it.
#![allow(deprecated, reason = "servers still send what is")]

mod support;

use core::time::Duration;

use bytes::Bytes;
use prost::Message;
use support::*;
use xds_core::proto::{Any, Duration as DurationSchema};
use xds_routing::{
    Random, Rules,
    pattern::{Fraction, HeaderTest, LetterCase, PathMatcher, TextMatcher},
    proto::envoy::{
        config::route::v3::{
            self as schema, FilterConfig, QueryParameterMatcher, RetryPolicy, Route, RouteAction,
            header_matcher::HeaderMatchSpecifier as Header,
            retry_policy::RetryBackOff,
            route_action::{ClusterSpecifier, HashPolicy, MaxStreamDuration, hash_policy},
            route_match::{
                ConnectMatcher, GrpcRouteMatchOptions, PathSpecifier, TlsContextMatchOptions,
            },
        },
        r#type::v3::{Int64Range, fractional_percent::DenominatorType},
    },
    route::{
        Action, ClusterChoice, Forward, HashSource, RetryableStatus, RouteConfiguration,
        WhyPassedOver,
    },
    rules::ROUTER,
};

fn forward(config: &RouteConfiguration) -> &Forward {
    match &config.virtual_hosts()[0].routes()[0].action {
        Action::Forward(forward) => forward,
        other => panic!("{other:?}"),
    }
}

fn one(route: Route) -> RouteConfiguration {
    valid(vec![route])
}

#[test]
fn a_path_has_to_look_in_one_of_three_ways() {
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
    println!("covers: S2.072 S2.073 S2.074 S2.075 S2.101 S2.105");
}

/// The retired `regex` is field 3 of a match, and `regex_match` field 5 of a header, of which the schema
/// knows nothing any more.
#[test]
fn retired_expressions_are_rejected() {
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
fn headers_can_be_matched_in_every_way_that_grpc_has() {
    let test = |how| {
        let config = one(route(with_header(prefix(""), "H", how), cluster("c")));
        let header = config.virtual_hosts()[0].routes()[0].matches.headers[0].clone();
        assert_eq!(header.name, "h");
        header.test
    };
    let case = LetterCase::Sensitive;
    assert_eq!(
        test(Header::ExactMatch("v".into())),
        HeaderTest::Text(TextMatcher::Exact("v".into(), case))
    );
    assert_eq!(
        test(Header::PrefixMatch("v".into())),
        HeaderTest::Text(TextMatcher::Prefix("v".into(), case))
    );
    assert_eq!(
        test(Header::SuffixMatch("v".into())),
        HeaderTest::Text(TextMatcher::Suffix("v".into(), case))
    );
    assert_eq!(
        test(Header::ContainsMatch("v".into())),
        HeaderTest::Text(TextMatcher::Contains("v".into(), case))
    );
    assert_eq!(test(Header::PresentMatch(false)), HeaderTest::Present(false));
    assert_eq!(
        test(Header::RangeMatch(Int64Range { start: -1, end: 3 })),
        HeaderTest::Range(-1, 3)
    );
    assert!(matches!(
        test(Header::SafeRegexMatch(regex("v+"))),
        HeaderTest::Text(TextMatcher::Expression(_))
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
fn a_program_size_of_another_engine_is_ignored() {
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
fn only_the_default_of_a_runtime_fraction_counts() {
    let fraction = |numerator, of| {
        let matches = with_fraction(prefix(""), numerator, of);
        one(route(matches, cluster("c"))).virtual_hosts()[0].routes()[0].matches.fraction
    };
    assert_eq!(fraction(25, DenominatorType::Hundred), Some(Fraction::of_a_million(250_000)));
    assert_eq!(fraction(25, DenominatorType::TenThousand), Some(Fraction::of_a_million(2_500)));
    assert_eq!(fraction(25, DenominatorType::Million), Some(Fraction::of_a_million(25)));
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

/// Such a route is not judged any further: the rest may be for others than gRPC.
#[test]
fn a_route_that_asks_for_parameters_is_passed_over_before_all_else() {
    let mut matches = safe_regex("(");
    matches.query_parameters.push(QueryParameterMatcher { name: "q".into() });
    let config = valid(vec![route(matches, weighted(&[])), route(prefix(""), cluster("c"))]);
    let host = &config.virtual_hosts()[0];
    assert_eq!(host.routes().len(), 1);
    assert_eq!(host.passed_over()[0].route, 0);
    assert_eq!(host.passed_over()[0].why, WhyPassedOver::QueryParameters);
    println!("covers: S2.090 X33");
}

#[test]
fn clusters_that_are_named_in_unknown_ways_are_passed_over() {
    let plugin = ClusterSpecifier::InlineClusterSpecifierPlugin(Default::default());
    let config = valid(vec![
        route(prefix("/1"), ClusterSpecifier::ClusterHeader("h".into())),
        route_to(prefix("/2"), RouteAction::default()),
        route(prefix("/3"), plugin),
    ]);
    let host = &config.virtual_hosts()[0];
    assert!(host.routes().is_empty());
    let why: Vec<_> = host.passed_over().iter().map(|it| it.why).collect();
    let unknown = WhyPassedOver::UnknownClusterSpecifier;
    assert_eq!(why, [WhyPassedOver::ClusterHeader, unknown, unknown]);
    println!("covers: S2.099 X31");
}

#[test]
fn plugins_have_to_be_known() {
    let with = |is_optional, known: bool, used: &str| {
        let mut config =
            table(vec![route(prefix(""), ClusterSpecifier::ClusterSpecifierPlugin(used.into()))]);
        let url = "type.googleapis.com/a.Chooser";
        config.cluster_specifier_plugins.push(schema::ClusterSpecifierPlugin {
            extension: Some(xds_routing::proto::envoy::config::core::v3::TypedExtensionConfig {
                name: "p".into(),
                typed_config: Some(Any { type_url: url.into(), value: Bytes::new() }),
            }),
            is_optional,
        });
        let mut rules = Rules::default();
        rules.cluster_specifiers.extend(known.then(|| url.to_owned()));
        RouteConfiguration::from_schema(&config, &rules)
    };
    let known = with(false, true, "p").unwrap();
    assert!(matches!(&forward(&known).clusters, ClusterChoice::Plugin { name, .. } if name == "p"));
    let optional = with(true, false, "p").unwrap();
    assert_eq!(optional.virtual_hosts()[0].passed_over()[0].why, WhyPassedOver::OptionalPlugin);
    let unknown = with(false, false, "p").unwrap_err().to_string();
    assert!(unknown.contains("cluster_specifier_plugins[0].extension.typed_config: "), "{unknown}");
    let missing = with(false, true, "q").unwrap_err().to_string();
    assert!(
        missing.ends_with("route.cluster_specifier_plugin: `q` is not among the plugins"),
        "{missing}"
    );
}

#[test]
fn what_is_for_proxies_or_not_known_is_ignored() {
    let mut matches = prefix("/s/");
    matches.grpc = Some(GrpcRouteMatchOptions {});
    matches.tls_context =
        Some(TlsContextMatchOptions { presented: boolean(true), ..Default::default() });
    let config = one(route(matches, cluster("c")));
    let matches = &config.virtual_hosts()[0].routes()[0].matches;
    assert!(matches.headers.is_empty() && matches.fraction.is_none());
    assert!(matches.path.matches("/s/m") && !matches.path.matches("/t/m"));

    // Field 1000 of the resource, and what the schema leaves out, are no fault.
    let mut bytes = table(vec![route(prefix(""), cluster("c"))]).encode_to_vec();
    bytes.extend([0xc2, 0x3e, 0x01, b'x']);
    assert!(RouteConfiguration::from_bytes(&bytes.into(), &Rules::default()).is_ok());
    println!("covers: S2.091 S2.092 S2.102");
}

#[test]
fn case_can_be_ignored_except_in_expressions() {
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
        &Rules::of_the_draft(),
    );
    assert!(draft.unwrap_err().to_string().ends_with("match.case_sensitive: must not be false"));
    println!("covers: S2.093 S2.094 X30");
}

#[test]
fn an_action_is_to_route_to_a_cluster_or_calls_fail() {
    assert_eq!(
        forward(&one(route(prefix(""), cluster("c")))).clusters,
        ClusterChoice::Cluster("c".into())
    );
    let unset = Route { r#match: Some(prefix("")), ..Route::default() };
    assert_eq!(one(unset.clone()).virtual_hosts()[0].routes()[0].action, Action::Unsupported);
    let draft = RouteConfiguration::from_schema(&table(vec![unset]), &Rules::of_the_draft());
    let why = draft.unwrap_err().to_string();
    assert_eq!(why, "virtual_hosts[0].routes[0].action: must be route");
    let empty = fault(route(prefix(""), cluster("")));
    assert_eq!(empty, "virtual_hosts[0].routes[0].route.cluster: must not be empty");
    assert_eq!(fault(Route::default()), "virtual_hosts[0].routes[0].match: must be set");
    println!("covers: S2.095 S2.096 S2.006");
}

#[test]
fn weights_have_to_sum_up() {
    let config = one(route(prefix(""), weighted(&[("a", 75), ("zero", 0), ("b", 25)])));
    let ClusterChoice::Weighted(weights) = &forward(&config).clusters else { panic!() };
    let shares: Vec<_> =
        weights.clusters().iter().map(|it| (it.name.as_str(), it.weight)).collect();
    assert_eq!((shares, weights.total()), (vec![("a", 75), ("b", 25)], 100));

    let place = "virtual_hosts[0].routes[0].route.weighted_clusters.";
    let none = fault(route(prefix(""), weighted(&[("a", 0)])));
    assert_eq!(none, format!("{place}clusters: must have one with a weight above zero"));
    let large = fault(route(prefix(""), weighted(&[("a", u32::MAX), ("b", 1)])));
    assert_eq!(large, format!("{place}clusters: the weights sum up to more than 4294967295"));
    let nameless = fault(route(prefix(""), weighted(&[("", 1)])));
    assert_eq!(nameless, format!("{place}clusters[0].name: must not be empty"));

    let total = |total, rules: &Rules| {
        let ClusterSpecifier::WeightedClusters(mut weights) = weighted(&[("a", 1), ("b", 2)])
        else {
            panic!()
        };
        #[allow(deprecated, reason = "servers still send it")]
        {
            weights.total_weight = total;
        }
        let route = route(prefix(""), ClusterSpecifier::WeightedClusters(weights));
        RouteConfiguration::from_schema(&table(vec![route]), rules).err().map(|it| it.to_string())
    };
    assert_eq!(total(None, &Rules::default()), None);
    assert_eq!(total(number(3), &Rules::default()), None);
    let wrong = format!("{place}total_weight: is 4, but the weights sum up to 3");
    assert_eq!(total(number(4), &Rules::default()), Some(wrong));
    let draft = format!("{place}total_weight: is 100, but the weights sum up to 3");
    assert_eq!(total(None, &Rules::of_the_draft()), Some(draft));
    println!("covers: S2.097 S2.098 X29");
}

/// The share of each cluster over many draws is its weight's, within four standard deviations.
#[test]
fn calls_are_split_by_weight() {
    let config = one(route(prefix(""), weighted(&[("a", 75), ("b", 24), ("c", 1)])));
    let ClusterChoice::Weighted(weights) = &forward(&config).clusters else { panic!() };
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let draws = 100_000;
        let mut counts = [0_u32; 3];
        for _ in 0..draws {
            let name = weights.choose(&mut random).name.as_str().as_bytes()[0];
            counts[usize::from(name - b'a')] += 1;
        }
        for (count, share) in counts.into_iter().zip([0.75, 0.24, 0.01]) {
            let mean = f64::from(draws) * share;
            let deviation = (mean * (1.0 - share)).sqrt();
            assert!((f64::from(count) - mean).abs() < 4.0 * deviation, "{counts:?}");
        }
    }
    println!("covers: S2.001");
}

#[test]
fn all_virtual_hosts_are_judged_and_every_fault_is_named() {
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
    let invalid = judged(&config).unwrap_err();
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
    let invalid = judged(&table(many)).unwrap_err();
    assert_eq!((invalid.fields.len(), invalid.omitted), (10, 20));
    assert!(invalid.to_string().ends_with("; and 20 more"));
    println!("covers: S2.071 X32");
}

#[test]
fn the_same_match_may_come_twice() {
    let config = valid(vec![route(prefix("/s"), cluster("a")), route(prefix("/s"), cluster("b"))]);
    assert_eq!(config.virtual_hosts()[0].routes().len(), 2);
    println!("covers: S2.100 S2.041");
}

#[test]
fn expressions_are_bounded() {
    let long = "a".repeat(5_000);
    assert!(
        fault(route(safe_regex(&long), cluster("c")))
            .contains("expression of 5000 bytes exceeds the limit of 4096")
    );
    let large = fault(route(safe_regex("(\\w{100}){100}"), cluster("c")));
    assert!(large.contains("bytes when compiled"), "{large}");
    // `a)(b` is two halves of one between anchors, and a comment must not swallow the second.
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
    println!("covers: X37");
}

#[test]
fn retries_timeouts_and_hashes_are_read() {
    let seconds = |seconds| Some(DurationSchema { seconds, nanos: 0 });
    let policy = RetryPolicy {
        retry_on: "unavailable, Cancelled,5xx".into(),
        num_retries: number(3),
        retry_back_off: Some(RetryBackOff { base_interval: seconds(1), max_interval: None }),
    };
    let hash = HashPolicy {
        policy_specifier: Some(hash_policy::PolicySpecifier::Header(hash_policy::Header {
            header_name: "User".into(),
            regex_rewrite: None,
        })),
        terminal: true,
    };
    let action = RouteAction {
        hash_policy: vec![hash],
        max_stream_duration: Some(MaxStreamDuration {
            max_stream_duration: seconds(5),
            grpc_timeout_header_max: seconds(0),
        }),
        ..action(cluster("c"))
    };
    let mut config = table(vec![route_to(prefix(""), action)]);
    config.virtual_hosts[0].retry_policy = Some(policy);
    let config = judged(&config).unwrap();
    let forward = forward(&config);
    assert_eq!(forward.max_stream_duration, Some(Duration::from_secs(5)));
    assert_eq!(forward.timeout_header_max, Some(Duration::ZERO));
    let source = &forward.hash_policies[0].source;
    assert!(matches!(source, HashSource::Header { name, rewrite: None } if name == "user"));
    let retry = forward.retry.as_ref().unwrap();
    assert_eq!(retry.statuses, [RetryableStatus::Cancelled, RetryableStatus::Unavailable]);
    assert_eq!((retry.retries, retry.max_interval), (3, Duration::from_secs(10)));

    let with = |policy: RetryPolicy| {
        fault(route_to(
            prefix(""),
            RouteAction { retry_policy: Some(policy), ..support::action(cluster("c")) },
        ))
    };
    let place = "virtual_hosts[0].routes[0].route.retry_policy.";
    let none = with(RetryPolicy { num_retries: number(0), ..RetryPolicy::default() });
    assert_eq!(none, format!("{place}num_retries: must be above zero"));
    let unset = with(RetryPolicy {
        retry_back_off: Some(RetryBackOff::default()),
        ..RetryPolicy::default()
    });
    assert_eq!(unset, format!("{place}retry_back_off.base_interval: must be set"));
    let negative = RouteAction {
        max_stream_duration: Some(MaxStreamDuration {
            max_stream_duration: seconds(-1),
            ..Default::default()
        }),
        ..support::action(cluster("c"))
    };
    assert!(
        fault(route_to(prefix(""), negative))
            .contains("max_stream_duration.max_stream_duration: must be a duration")
    );
}

#[test]
fn settings_of_filters_are_for_known_ones() {
    let with = |config: Any| {
        let mut route = route(prefix(""), cluster("c"));
        route.typed_per_filter_config.insert("f".into(), config);
        fault(route)
    };
    let empty = |url: &str| Any { type_url: url.into(), value: Bytes::new() };
    let unknown = "type.googleapis.com/a.Filter";
    assert_eq!(with(empty(ROUTER)), "");
    assert_eq!(
        with(empty(unknown)),
        "virtual_hosts[0].routes[0].typed_per_filter_config[f]: no HTTP filter is known for `type.googleapis.com/a.Filter`"
    );
    let wrapped = |is_optional| packed(&FilterConfig { config: Some(empty(unknown)), is_optional });
    assert_eq!(with(wrapped(true)), "");
    assert!(with(wrapped(false)).contains("no HTTP filter is known"));
    assert!(with(empty("nothing")).contains("type_url: `nothing` names no type"));
}
