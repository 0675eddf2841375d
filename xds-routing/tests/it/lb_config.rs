//! LB policy configurations in JSON.

use serde_json::{Value, json};
use xds_routing::{
    Rules,
    lb::{InvalidPolicy, LeafPolicyConfig, PolicyConfig, PolicyRegistry},
    pattern::ExpressionLimits,
};

fn policies(list: Value) -> Result<PolicyConfig, String> {
    let read = PolicyRegistry::default().policies(&list.to_string());
    read.map_err(|invalid| invalid.to_string())
}

/// Returns the errors of a policy, or an empty text if it is valid.
fn fault(list: Value) -> String {
    policies(list).err().unwrap_or_default()
}

fn cds(name: &str) -> Value {
    json!([{"cds_experimental": {"cluster": name}}])
}

fn action(name: &str) -> Value {
    json!({"childPolicy": cds(name)})
}

/// Creates a configuration with one route, whose action is `a` by default.
fn with_route(route: Value) -> Value {
    with_routes(json!([route]))
}

fn with_routes(mut routes: Value) -> Value {
    for route in routes.as_array_mut().expect("routes") {
        route.as_object_mut().expect("an object").entry("action").or_insert_with(|| json!("a"));
    }
    json!([{"xds_routing_experimental": {"route": routes, "action": {"a": action("a")}}}])
}

#[test]
fn valid_lb_config_is_parsed_to_a_policy_tree() {
    let routes = json!([
        {"path": "/s/m", "action": "one"},
        {"prefix": "/s", "action": "split", "matchFraction": 5,
         "headers": [{"name": "H", "exactMatch": "v"}]},
        {"prefix": "/s", "action": "one"},
        {"regex": "/t/.*", "action": "rr"},
    ]);
    let split = json!({"childPolicy": [{"weighted_target_experimental": {"targets": {
        "x": {"weight": 3, "childPolicy": cds("x")},
        "y": {"weight": "1", "childPolicy": [{"round_robin": {}}]},
    }}}]});
    let actions = json!({
        "one": action("c"), "split": split, "rr": {"childPolicy": [{"round_robin": {"x": 1}}]},
    });
    let config =
        policies(json!([{"xds_routing_experimental": {"route": routes, "action": actions}}]));
    let Ok(PolicyConfig::Routing(routing)) = config else { panic!("{config:?}") };
    let of: Vec<_> = routing.routes().iter().map(|route| route.action.as_str()).collect();
    assert_eq!(of, ["one", "split", "one", "rr"]);
    let second = &routing.routes()[1].matches;
    assert_eq!((second.headers[0].name.as_str(), second.headers.len()), ("h", 1));
    assert_eq!(second.fraction.map(|it| it.millionths()), Some(5));
    assert_eq!(routing.routes()[0].matches.headers.len(), 0);
    let leaf = |config: &PolicyConfig| match config {
        PolicyConfig::Leaf(LeafPolicyConfig::Cluster(name)) => format!("cluster {name}"),
        PolicyConfig::Leaf(LeafPolicyConfig::Named { policy, config }) => {
            format!("{policy} {config}")
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(leaf(&routing.actions()["one"]), "cluster c");
    assert_eq!(leaf(&routing.actions()["rr"]), r#"round_robin {"x":1}"#);
    let PolicyConfig::WeightedTarget(targets) = &routing.actions()["split"] else {
        panic!("{:?}", routing.actions())
    };
    let targets: Vec<_> =
        targets.iter().map(|(name, it)| (name.as_str(), it.weight, leaf(&it.config))).collect();
    assert_eq!(targets, [("x", 3, "cluster x".into()), ("y", 1, "round_robin {}".into())]);
    println!("covers: S2.008 S2.022 S2.023 S2.024 S2.025 S2.053 X34");
}

#[test]
fn route_has_one_path_matcher_and_any_number_of_header_matchers() {
    let route = |route| fault(with_route(route));
    let at = "[0].xds_routing_experimental.route[0]";
    assert_eq!(route(json!({"prefix": ""})), "");
    assert_eq!(route(json!({"prefix": "", "path": null, "headers": []})), "");
    assert_eq!(route(json!({})), format!("{at}: must have one of path, prefix, regex"));
    assert_eq!(
        route(json!({"path": "/s/m", "prefix": "/"})),
        format!("{at}: must have only one of path, prefix")
    );
    let expression = route(json!({"regex": "("}));
    assert!(expression.starts_with(&format!("{at}.regex: invalid expression: ")), "{expression}");

    assert_eq!(route(json!({"prefix": "", "matchFraction": 2_000_000})), "");
    assert_eq!(route(json!({"prefix": "", "match_fraction": 1})), "");
    assert_eq!(
        route(json!({"prefix": "", "match_fraction": 1, "matchFraction": 1})),
        format!("{at}.matchFraction: must not be set together with match_fraction")
    );
    assert_eq!(
        route(json!({"prefix": "", "matchFraction": -1})),
        format!("{at}.matchFraction: must be from 0 to 4294967295")
    );

    let header = |header: Value| {
        route(json!({"prefix": "", "headers": [{"name": "x", "exactMatch": "v"}, header]}))
    };
    let at = format!("{at}.headers[1]");
    for test in [
        json!({"name": "h", "exactMatch": "v", "invertMatch": true}),
        json!({"name": "h", "regexMatch": "v+"}),
        json!({"name": "h", "rangeMatch": {"start": "-1", "end": 2}}),
        json!({"name": "h", "rangeMatch": {"end": "9223372036854775807"}}),
        json!({"name": "h", "presentMatch": true}),
        json!({"name": "h", "prefixMatch": "v"}),
        json!({"name": "h", "suffix_match": "v", "unknown": [1]}),
    ] {
        assert_eq!(header(test.clone()), "", "{test}");
    }
    assert_eq!(
        header(json!({"name": "h"})),
        format!(
            "{at}: must have one of exactMatch, regexMatch, rangeMatch, presentMatch, prefixMatch, suffixMatch"
        )
    );
    assert_eq!(
        header(json!({"name": "h", "exactMatch": "", "presentMatch": true})),
        format!("{at}: must have only one of exactMatch, presentMatch")
    );
    assert_eq!(header(json!({"exactMatch": ""})), format!("{at}.name: must not be empty"));
    assert_eq!(
        header(json!({"name": "h", "rangeMatch": {"start": 2, "end": 1}})),
        format!("{at}.rangeMatch: the end must not be smaller than the start")
    );
    assert_eq!(
        header(json!({"name": "h", "presentMatch": "yes"})),
        format!("{at}.presentMatch: must be true or false")
    );
    println!("covers: S2.026 S2.027 S2.028 S2.035 S2.036 S2.037 S2.038 S2.039 X34 X25");
}

/// One error rejects the whole configuration, and every error is listed.
#[test]
fn missing_or_unused_action_is_rejected_and_all_errors_listed() {
    let same = json!([{"prefix": "/s"}, {"prefix": "/s"}]);
    assert_eq!(fault(with_routes(same)), "");
    let at = "[0].xds_routing_experimental";
    assert_eq!(
        fault(with_routes(json!([{"prefix": "/s"}, {"prefix": "/t", "action": "b"}]))),
        format!("{at}.route[1].action: action `b` is not defined")
    );
    let mut unused = with_route(json!({"prefix": "/s"}));
    unused[0]["xds_routing_experimental"]["action"]["b.c"] = action("b");
    assert_eq!(fault(unused), format!("{at}.action[\"b.c\"]: is not used by any route"));

    let action = |action: Value| {
        let mut config = with_route(json!({"prefix": "/s"}));
        config[0]["xds_routing_experimental"]["action"]["a"] = action;
        fault(config)
    };
    let at = format!("{at}.action[\"a\"]");
    assert_eq!(action(json!({})), format!("{at}.childPolicy: must be set"));
    assert_eq!(action(json!({"childPolicy": []})), format!("{at}.childPolicy: must not be empty"));
    assert_eq!(action(json!(7)), format!("{at}: must be an object"));
    println!("covers: S2.040 S2.041 S2.043 S2.044 S2.045");
}

#[test]
fn first_known_policy_is_used_and_later_ones_ignored() {
    let of = |list: Value| match policies(list) {
        Ok(PolicyConfig::Leaf(LeafPolicyConfig::Named { policy, .. })) => policy,
        Ok(other) => panic!("{other:?}"),
        Err(why) => why,
    };
    assert_eq!(of(json!([{"new_one": {}}, {"pick_first": {}}, {"round_robin": {}}])), "pick_first");
    assert_eq!(
        of(json!([{"new_one": {}}, {"newer": 1}])),
        "none of these policies is known: new_one, newer"
    );
    // The first known policy is invalid. The valid one after it is not used.
    assert_eq!(
        of(json!([{"new_one": 1}, {"cds_experimental": {}}, {"round_robin": {}}])),
        "[1].cds_experimental.cluster: must not be empty"
    );
    // Entries after the first known policy are ignored.
    assert_eq!(of(json!([{"round_robin": {}}, {"cds_experimental": 1}, 7])), "round_robin");
    assert_eq!(
        of(json!([{"new_one": {}, "round_robin": {}}])),
        "[0] must be an object with one field"
    );
    assert_eq!(of(json!({"round_robin": {}})), "must be a list of policies");

    let known = PolicyRegistry::default().with_policy("new_one");
    assert!(known.policies(r#"[{"new_one":{}}]"#).is_ok());
    println!("covers: S2.048 S2.049 S2.050 S2.051");
}

#[test]
fn weighted_targets_require_a_weight_and_a_policy() {
    let target = |target: Value| {
        fault(json!([{"weighted_target_experimental": {"targets": {"t": target}}}]))
    };
    let at = "[0].weighted_target_experimental.targets[\"t\"]";
    assert_eq!(target(json!({"weight": 1, "childPolicy": cds("c")})), "");
    assert_eq!(target(json!({"weight": 1, "child_policy": cds("c")})), "");
    let weight = format!("{at}.weight: must be a number above zero");
    assert_eq!(target(json!({"childPolicy": cds("c")})), weight);
    assert_eq!(target(json!({"weight": 0, "childPolicy": cds("c")})), weight);
    assert_eq!(target(json!({"weight": 1})), format!("{at}.childPolicy: must be set"));
    assert_eq!(
        target(json!({"weight": 1, "childPolicy": [{"cds_experimental": {}}]})),
        format!("{at}.childPolicy[0].cds_experimental.cluster: must not be empty")
    );
    let many = json!([{"weighted_target_experimental": {"targets": {
        "a": {"weight": u32::MAX, "childPolicy": cds("c")},
        "b": {"weight": 1, "childPolicy": cds("c")},
    }}}]);
    assert_eq!(
        fault(many),
        "[0].weighted_target_experimental.targets: the weights sum up to more than 4294967295"
    );
    println!("covers: S2.008");
}

#[test]
fn invalid_json_and_invalid_config_have_different_errors() {
    let registry = PolicyRegistry::default();
    let json = registry.service_config("{\n  \"loadBalancingConfig\": ]}").unwrap_err();
    assert!(
        matches!(json, InvalidPolicy::Json(_)) && json.to_string().contains("line 2"),
        "{json}"
    );
    let none = registry.service_config("{}").unwrap_err().to_string();
    assert_eq!(none, "loadBalancingConfig: must be set");
    let deep = format!("{}[]{}", "[{\"x\":".repeat(200), "}]".repeat(200));
    assert!(matches!(registry.policies(&deep), Err(InvalidPolicy::Json(_))));

    let mut rules = Rules::default();
    rules.expressions = ExpressionLimits::default();
    rules.expressions.length = 3;
    let config = with_route(json!({"regex": "a{99}"})).to_string();
    let long = PolicyRegistry::new(rules).policies(&config).unwrap_err().to_string();
    assert!(long.contains("regex: expression of 5 bytes exceeds the limit of 3"), "{long}");
}
