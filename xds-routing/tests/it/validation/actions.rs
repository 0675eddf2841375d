//! Route actions: clusters, weights, retries, hash policies and filter overrides.
#![allow(deprecated, reason = "servers still send what is")]

use core::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    client::{
        Profile, ResourceType as _, ServerAddress, ServerFeature, ServerFeatures, ValidationContext,
    },
    proto::{Any, Duration as DurationSchema},
};
use xds_routing::{
    Random, RouteConfigurations, Rules,
    proto::envoy::{
        config::route::v3::{
            self as schema, RetryPolicy, Route, RouteAction,
            retry_policy::RetryBackOff,
            route_action::{ClusterSpecifier, HashPolicy, MaxStreamDuration, hash_policy},
        },
        r#type::matcher::v3::RegexMatchAndSubstitute,
    },
    route::{
        Action, ClusterChoice, Forward, HashSource, HostRewrite, RetryableStatus,
        RouteConfiguration, SkipReason,
    },
    rules::Routing,
};

use crate::support::*;

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
fn routes_with_unknown_cluster_specifiers_are_skipped() {
    let plugin = ClusterSpecifier::InlineClusterSpecifierPlugin(Default::default());
    let config = valid(vec![
        route(prefix("/1"), ClusterSpecifier::ClusterHeader("h".into())),
        route_to(prefix("/2"), RouteAction::default()),
        route(prefix("/3"), plugin),
    ]);
    let host = &config.virtual_hosts()[0];
    assert!(host.routes().is_empty());
    let why: Vec<_> = host.skipped_routes().iter().map(|it| it.why).collect();
    let unknown = SkipReason::UnknownClusterSpecifier;
    assert_eq!(why, [SkipReason::ClusterHeader, unknown, unknown]);
    println!("covers: S2.099 X31");
}

#[test]
fn unknown_cluster_specifier_plugin_is_rejected_unless_optional() {
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
    assert_eq!(optional.virtual_hosts()[0].skipped_routes()[0].why, SkipReason::OptionalPlugin);
    let unknown = with(false, false, "p").unwrap_err().to_string();
    assert!(unknown.contains("cluster_specifier_plugins[0].extension.typed_config: "), "{unknown}");
    let missing = with(false, true, "q").unwrap_err().to_string();
    assert!(
        missing.ends_with("route.cluster_specifier_plugin: plugin `q` is not defined"),
        "{missing}"
    );
}

#[test]
fn route_without_a_cluster_action_is_unsupported() {
    assert_eq!(
        forward(&one(route(prefix(""), cluster("c")))).clusters,
        ClusterChoice::Cluster("c".into())
    );
    let unset = Route { r#match: Some(prefix("")), ..Route::default() };
    assert_eq!(one(unset.clone()).virtual_hosts()[0].routes()[0].action, Action::Unsupported);
    let draft = RouteConfiguration::from_schema(&table(vec![unset]), &Rules::initial_a28());
    let why = draft.unwrap_err().to_string();
    assert_eq!(why, "virtual_hosts[0].routes[0].action: must be route");
    let empty = fault(route(prefix(""), cluster("")));
    assert_eq!(empty, "virtual_hosts[0].routes[0].route.cluster: must not be empty");
    assert_eq!(fault(Route::default()), "virtual_hosts[0].routes[0].match: must be set");
    println!("covers: S2.095 S2.096");
}

#[test]
fn weighted_clusters_need_a_positive_sum() {
    let config = one(route(prefix(""), weighted(&[("a", 75), ("zero", 0), ("b", 25)])));
    let ClusterChoice::Weighted(weights) = &forward(&config).clusters else { panic!() };
    let shares: Vec<_> =
        weights.clusters().iter().map(|it| (it.name.as_str(), it.weight)).collect();
    assert_eq!((shares, weights.total()), (vec![("a", 75), ("b", 25)], 100));

    let place = "virtual_hosts[0].routes[0].route.weighted_clusters.";
    let none = fault(route(prefix(""), weighted(&[("a", 0)])));
    assert_eq!(none, format!("{place}clusters: must have a cluster with a positive weight"));
    let large = fault(route(prefix(""), weighted(&[("a", u32::MAX), ("b", 1)])));
    assert_eq!(large, format!("{place}clusters: the weights sum up to more than 4294967295"));
    let nameless = fault(route(prefix(""), weighted(&[("", 1)])));
    assert_eq!(nameless, format!("{place}clusters[0].name: must not be empty"));

    let total = |total, rules: &Rules| {
        let ClusterSpecifier::WeightedClusters(mut weights) = weighted(&[("a", 1), ("b", 2)])
        else {
            panic!()
        };
        #[allow(deprecated, reason = "servers still send the field")]
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
    assert_eq!(total(None, &Rules::initial_a28()), Some(draft));
    println!("covers: S2.097 S2.098 X29");
}

/// Over many draws, the fraction of each cluster is within four standard deviations of its weight.
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

fn seconds(seconds: i64) -> Option<DurationSchema> {
    Some(DurationSchema { seconds, nanos: 0 })
}

#[test]
fn max_stream_duration_limits_are_parsed() {
    let with = |limits| {
        let action = RouteAction { max_stream_duration: Some(limits), ..action(cluster("c")) };
        route_to(prefix(""), action)
    };
    let config = one(with(MaxStreamDuration {
        max_stream_duration: seconds(5),
        grpc_timeout_header_max: seconds(0),
    }));
    assert_eq!(forward(&config).max_stream_duration, Some(Duration::from_secs(5)));
    assert_eq!(forward(&config).timeout_header_max, Some(Duration::ZERO));
    let negative =
        fault(with(MaxStreamDuration { max_stream_duration: seconds(-1), ..Default::default() }));
    assert!(
        negative.contains("max_stream_duration.max_stream_duration: must be a duration"),
        "{negative}"
    );
}

/// `grpc_timeout_header_max` takes precedence (gRFC A31), so the other limit is not validated.
#[test]
fn unused_stream_duration_limit_is_not_validated() {
    let limits =
        MaxStreamDuration { max_stream_duration: seconds(-1), grpc_timeout_header_max: seconds(3) };
    let action = RouteAction { max_stream_duration: Some(limits), ..action(cluster("c")) };
    let config = one(route_to(prefix(""), action));
    assert_eq!(forward(&config).timeout_header_max, Some(Duration::from_secs(3)));
    assert_eq!(forward(&config).max_stream_duration, None);
}

/// A route without a known cluster is skipped, but its other errors count.
#[test]
fn skipped_routes_are_validated_otherwise() {
    let place = "virtual_hosts[0].routes[0].route.";
    let header = || Some(ClusterSpecifier::ClusterHeader("h".into()));
    for specifier in [None, header()] {
        let with = |change: fn(&mut RouteAction)| {
            let mut action =
                RouteAction { cluster_specifier: specifier.clone(), ..RouteAction::default() };
            change(&mut action);
            fault(route_to(prefix(""), action))
        };
        let retry = with(|it| {
            it.retry_policy = Some(RetryPolicy { num_retries: number(0), ..Default::default() });
        });
        assert_eq!(retry, format!("{place}retry_policy.num_retries: must be above zero"));
        let hash = with(|it| {
            let header = hash_policy::PolicySpecifier::Header(hash_policy::Header::default());
            it.hash_policy = vec![HashPolicy { policy_specifier: Some(header), terminal: false }];
        });
        assert_eq!(hash, format!("{place}hash_policy[0].header.header_name: must not be empty"));
        let duration = with(|it| {
            it.max_stream_duration = Some(MaxStreamDuration {
                max_stream_duration: seconds(-1),
                ..MaxStreamDuration::default()
            });
        });
        assert!(duration.contains("max_stream_duration: must be a duration"), "{duration}");
    }
}

/// Only a trusted server may rewrite the authority, because that could redirect calls (gRFC A81).
// B46
#[test]
fn authority_rewrite_requires_a_trusted_server() {
    let mut action = action(cluster("c"));
    action.host_rewrite_specifier =
        Some(schema::route_action::HostRewriteSpecifier::AutoHostRewrite(
            xds_core::proto::BoolValue { value: true },
        ));
    let bytes = table(vec![route_to(prefix(""), action)]).encode_to_vec().into();
    let of = |server: &ServerAddress| {
        let profile = Profile::grpc();
        let context = ValidationContext::new(server, &profile);
        let value = RouteConfigurations::default().validate(&bytes, &context);
        let value = value.expect("valid").expect("decoded").downcast::<RouteConfiguration>();
        forward(&value.expect("routes")).host_rewrite
    };
    assert_eq!(of(&ServerAddress::new("s")), HostRewrite::Keep);
    let trusted = ServerFeatures::NONE.with(ServerFeature::TrustedXdsServer);
    let trusted = ServerAddress::new("s").with_features(trusted);
    assert_eq!(of(&trusted), HostRewrite::Endpoint);
    // The sender is unknown.
    let unknown = RouteConfiguration::from_bytes(&bytes, &Rules::default()).unwrap();
    assert_eq!(forward(&unknown).host_rewrite, HostRewrite::Keep);
}

/// The retry policy of the route precedes that of its virtual host (gRFC A44).
#[test]
fn route_retry_policy_overrides_that_of_the_virtual_host() {
    let with = |of_host: Option<RetryPolicy>, of_route: Option<RetryPolicy>| {
        let action = RouteAction { retry_policy: of_route, ..action(cluster("c")) };
        let mut config = table(vec![route_to(prefix(""), action)]);
        config.virtual_hosts[0].retry_policy = of_host;
        validated(&config).map(|config| forward(&config).retry.clone())
    };
    let policy = |retries, base, max| RetryPolicy {
        retry_on: "unavailable, Cancelled,5xx".into(),
        num_retries: retries,
        retry_back_off: Some(RetryBackOff { base_interval: base, max_interval: max }),
    };
    let of_host = policy(number(3), seconds(1), None);
    let retry = with(Some(of_host.clone()), None).unwrap().unwrap();
    assert_eq!(retry.statuses, [RetryableStatus::Cancelled, RetryableStatus::Unavailable]);
    let codes: Vec<_> = retry.statuses.iter().map(|status| status.code().name()).collect();
    assert_eq!(codes, ["CANCELLED", "UNAVAILABLE"]);
    assert_eq!((retry.retries, retry.attempts()), (3, 4));
    let waits = (retry.base_interval, retry.max_interval);
    assert_eq!(waits, (Duration::from_secs(1), Duration::from_secs(10)));

    let every = "cancelled,deadline-exceeded,internal,resource-exhausted,unavailable,gateway-error";
    let own = RetryPolicy { retry_on: every.into(), ..RetryPolicy::default() };
    let retry = with(Some(of_host), Some(own)).unwrap().unwrap();
    assert_eq!(retry.statuses.len(), 5);
    assert_eq!((retry.retries, retry.attempts()), (1, 2));
    let waits = (retry.base_interval, retry.max_interval);
    assert_eq!(waits, (Duration::from_millis(25), Duration::from_millis(250)));
    let often = with(None, Some(policy(number(100), seconds(1), seconds(1)))).unwrap().unwrap();
    assert_eq!((often.retries, often.attempts()), (100, 5));
    assert_eq!(with(None, None).unwrap(), None);

    let place = "retry_policy.";
    for (policy, problem) in [
        (policy(number(0), seconds(1), None), "num_retries: must be above zero"),
        (policy(None, None, None), "retry_back_off.base_interval: must be set"),
        (policy(None, seconds(0), None), "retry_back_off.base_interval: must be above zero"),
        (
            policy(None, seconds(2), seconds(1)),
            "retry_back_off.max_interval: must not be below base_interval",
        ),
    ] {
        let of_route = with(None, Some(policy.clone())).unwrap_err().to_string();
        assert_eq!(of_route, format!("virtual_hosts[0].routes[0].route.{place}{problem}"));
        let of_host = with(Some(policy), None).unwrap_err().to_string();
        assert_eq!(of_host, format!("virtual_hosts[0].{place}{problem}"));
    }
    println!("covers: B33b");
}

/// Hash policies (gRFC A42).
#[test]
fn hash_policies_are_parsed() {
    let with = |policies: Vec<(Option<hash_policy::PolicySpecifier>, bool)>| {
        let policies = policies
            .into_iter()
            .map(|(policy_specifier, terminal)| HashPolicy { policy_specifier, terminal });
        let action = RouteAction { hash_policy: policies.collect(), ..action(cluster("c")) };
        route_to(prefix(""), action)
    };
    let header = |name: &str, rewrite| {
        Some(hash_policy::PolicySpecifier::Header(hash_policy::Header {
            header_name: name.into(),
            regex_rewrite: rewrite,
        }))
    };
    let state = |key: &str| {
        let state = hash_policy::FilterState { key: key.into() };
        Some(hash_policy::PolicySpecifier::FilterState(state))
    };
    let rewrite = |pattern: &str| {
        let (pattern, substitution) = (Some(regex(pattern)), "\\1".into());
        Some(RegexMatchAndSubstitute { pattern, substitution })
    };
    let config = one(with(vec![
        (header("User", None), true),
        (header("h", rewrite("(a+)b")), false),
        (state("io.grpc.channel_id"), true),
        // Neither policy produces a hash.
        (state("another"), true),
        (None, true),
    ]));
    let policies = &forward(&config).hash_policies;
    assert_eq!(policies.iter().map(|it| it.is_terminal).collect::<Vec<_>>(), [true, false, true]);
    assert!(
        matches!(&policies[0].source, HashSource::Header { name, rewrite: None } if name == "user")
    );
    assert!(matches!(&policies[1].source, HashSource::Header { rewrite: Some(rewrite), .. }
        if rewrite.apply("xaabxab") == "xaaxa"));
    assert!(matches!(policies[2].source, HashSource::Channel));
    let place = "virtual_hosts[0].routes[0].route.hash_policy[0].header.";
    let nameless = fault(with(vec![(header("", None), false)]));
    assert_eq!(nameless, format!("{place}header_name: must not be empty"));
    let nothing = fault(with(vec![(header("h", rewrite("")), false)]));
    assert_eq!(nothing, format!("{place}regex_rewrite.pattern.regex: must not be empty"));
    let broken = fault(with(vec![(header("h", rewrite("(")), false)]));
    assert!(broken.starts_with(&format!("{place}regex_rewrite.pattern.regex: ")), "{broken}");
    println!("covers: B33a");
}

/// Without routing, only the last route of a virtual host is used, as in gRFC A27. The other routes
/// are not read, so their errors do not matter.
// S2.065
#[test]
fn disabled_routing_validates_only_the_last_route() {
    let rules = Rules::default().with_routing(Routing::LastRoute);
    let validator = |routes: Vec<Route>| {
        let validated = RouteConfiguration::from_schema(&table(routes), &rules);
        validated.map_err(|invalid| invalid.to_string())
    };
    let last = || route(prefix(""), cluster("last"));
    let odd = vec![
        route(path("/s/m"), weighted(&[("a", 1), ("b", 1)])),
        route(safe_regex("(broken"), cluster("a")),
        Route::default(),
    ];
    assert!(!fault(odd[1].clone()).is_empty() && !fault(odd[2].clone()).is_empty());
    let config =
        validator(odd.into_iter().chain([last()]).collect()).expect("the last one is valid");
    let host = &config.virtual_hosts()[0];
    assert_eq!(host.routes().len(), 1);
    let find = |path: &str| {
        let found = host.find(&xds_routing::Call::new(path, &[]), &mut Random::new(0));
        match &found.expect("it is for all calls").action {
            Action::Forward(forward) => forward.clusters.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(find("/s/m"), ClusterChoice::Cluster("last".into()));
    assert_eq!(find("/else"), ClusterChoice::Cluster("last".into()));
    validator(vec![route(prefix("/"), cluster("c"))]).expect("another way to say all");

    let place = "virtual_hosts[0].routes";
    let why = |routes| validator(routes).expect_err("invalid");
    assert_eq!(why(vec![]), format!("{place}: must not be empty"));
    let narrow =
        format!("{place}[1].match.prefix: must be empty, because only the last route is used");
    assert_eq!(why(vec![last(), route(prefix("/s"), cluster("c"))]), narrow);
    assert_eq!(why(vec![last(), route(path("/s/m"), cluster("c"))]), narrow);
    let split = why(vec![route(prefix(""), weighted(&[("a", 1), ("b", 1)]))]);
    assert_eq!(
        split,
        format!("{place}[0].route.cluster: must be set, because calls are not split")
    );
    // With routing, the default, gRFC A28 applies.
    assert!(RouteConfiguration::from_schema(&table(vec![]), &Rules::default()).is_ok());
    println!("covers: S2.063 S2.064 S2.065");
}
