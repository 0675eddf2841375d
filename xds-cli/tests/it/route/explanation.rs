//! Explanations of `xds route explain`: routes, outcomes, missing resources.

use super::{
    Fields as _, GREETER, RESOURCES, SHOP, as_text, explain, explain_json, resources, shop, states,
};

#[test]
fn explanation_names_each_route_and_the_criterion_that_fails() {
    let directory = resources();
    let (code, json) =
        explain_json(directory.path(), &[&shop("/cart/1")[..], &["-H", "x-canary: no"]].concat());
    assert_eq!(code, Some(1), "no route is left: {json}");
    assert_eq!(json.at("/listener/name"), "ingress");
    assert_eq!(json.at("/listener/address"), "127.0.0.1:8080");
    assert_eq!((json.at("/route_config"), json.at("/rules")), (&"shop".into(), &"envoy".into()));
    assert_eq!(json.at("/virtual_host/name"), "shop");
    assert_eq!(json.at("/virtual_host/index"), 1);
    assert_eq!(json.at("/virtual_host/domain"), "shop.example.com");
    assert_eq!(
        states(&json)[..4],
        [
            ("no_match", "path `/health` does not match"),
            ("no_match", "prefix `/old` does not match"),
            ("no_match", "header x-canary is `no`: needed x-canary = `yes`"),
            ("no_match", "query parameter does not match: needed debug present"),
        ]
    );
    assert_eq!(json.at("/outcomes/0/reason"), "no route matches: Envoy answers 404");

    let (code, json) = explain_json(
        directory.path(),
        &[&shop("/cart/1?a")[..], &["-H", "X-Canary: yes"]].concat(),
    );
    assert_eq!(code, Some(0), "{json}");
    assert_eq!(states(&json)[2], ("used", ""));
    assert_eq!(json.at("/routes/2/name"), "canary");
    let outcome = json.at("/outcomes/0");
    assert_eq!((outcome.at("/route"), outcome.at("/share")), (&2.into(), &1.0.into()));
    assert_eq!(
        (outcome.at("/path"), outcome.at("/host")),
        (&"/v2/cart/1?a".into(), &"blue.internal".into())
    );
    assert_eq!(outcome.at("/settings/timeout"), "3s");
    let cluster = outcome.at("/clusters/0/cluster");
    assert_eq!(cluster.at("/type"), "EDS");
    let locality = cluster.at("/localities/0");
    assert_eq!(locality.at("/locality"), "eu/a");
    assert_eq!((locality.at("/priority"), locality.at("/weight")), (&1.into(), &2.into()));
    assert_eq!(locality.at("/endpoints/0/address"), "127.0.0.1:9000");
    assert_eq!(locality.at("/endpoints/0/health"), "HEALTHY");
}

#[test]
fn fractions_and_weights_give_shares() {
    let directory = resources();
    let (code, json) = explain_json(directory.path(), &shop("/split"));
    assert_eq!(code, Some(0), "{json}");
    let outcomes = json.at("/outcomes").as_array().unwrap();
    let shares: Vec<_> =
        outcomes.iter().map(|it| (it.at("/route").as_u64(), it.at("/share").as_f64())).collect();
    assert_eq!(shares, [(Some(4), Some(0.2)), (Some(5), Some(0.8))]);
    let clusters: Vec<_> = outcomes[1].at("/clusters").as_array().unwrap().iter().collect();
    let shares: Vec<_> =
        clusters.iter().map(|it| (it.at("/name").as_str(), it.at("/share").as_f64())).collect();
    assert_eq!(shares, [(Some("blue"), Some(0.25)), (Some("green"), Some(0.75))]);
    assert_eq!(outcomes[1].at("/settings/retries"), "2 on 5xx");
    assert_eq!(json.at("/notes/0"), "runtime key split may replace the fraction of route 4");
    let text = explain(directory.path(), &shop("/split")).stdout;
    assert!(text.contains("<- 20 % of requests") && text.contains("[::1]:9001"), "{text}");
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(80), "{text}");
}

#[test]
fn redirects_and_direct_responses_are_outcomes() {
    let directory = resources();
    let outcome = |args: &[&str]| {
        let (code, json) = explain_json(directory.path(), args);
        assert_eq!(code, Some(0), "{json}");
        json.at("/outcomes/0").clone()
    };
    let redirect = outcome(&shop("/old/1?q=2"));
    assert_eq!((redirect.at("/action"), redirect.at("/status")), (&"redirect".into(), &302.into()));
    assert_eq!(redirect.at("/location"), "https://new.example.com/new?q=2");
    let health = outcome(&shop("/health"));
    assert_eq!(
        (health.at("/action"), health.at("/status")),
        (&"direct_response".into(), &204.into())
    );
    let secure = outcome(&["--host", "SECURE.example.com", "--path", "/x"]);
    assert_eq!(secure.at("/location"), "https://SECURE.example.com/x");
    let over_tls = outcome(&["--host", "secure.example.com", "--scheme", "https"]);
    assert_eq!(over_tls.at("/action"), "forward");
}

#[test]
fn missing_resources_are_reported_with_a_similar_name() {
    let directory = resources();
    let problem = |args: &[&str]| {
        let (code, json) = explain_json(directory.path(), args);
        assert_eq!(code, Some(1), "{json}");
        as_text(json.at("/problems/0")).to_owned()
    };
    assert_eq!(
        problem(&shop("/cart?debug")),
        "the cluster `gren` does not exist: did you mean `green`?"
    );
    assert_eq!(
        problem(&[&SHOP[..], &["--listener", "ingres"]].concat()),
        "the listener `ingres` does not exist: did you mean `ingress`?"
    );
    assert_eq!(
        problem(&[&SHOP[..], &["--route-config", "shops"]].concat()),
        "the route configuration `shops` does not exist: did you mean `shop`?"
    );
    assert_eq!(problem(&["--host", "other"]), "no virtual host is for `other`");
    directory.save("greeter.yaml", GREETER);
    assert_eq!(
        problem(&SHOP),
        "there are several listeners: choose with --listener (greeter, ingress)"
    );
    // A cluster whose endpoints are missing is there.
    directory.replace(
        "shop.yaml",
        RESOURCES
            .replace(" &manager", "")
            .split("- \"@type\": type.googleapis.com/envoy.config.endpoint")
            .next()
            .unwrap(),
    );
    let (code, json) =
        explain_json(directory.path(), &[&shop("/pkg.x")[..], &["--listener", "ingress"]].concat());
    assert_eq!(code, Some(0), "{json}");
    let notes = json.at("/notes").as_array().unwrap();
    assert!(notes.contains(&"the resource with endpoints `blue` does not exist".into()), "{json}");
    assert_eq!(json.at("/problems").as_array().map(Vec::len), Some(0), "{json}");
}

#[test]
fn grpc_target_is_explained_by_the_rules_of_grpc() {
    let directory = resources();
    directory.save("greeter.yaml", GREETER);
    let target = ["--target", "xds:///greeter", "--method"];
    let (code, json) =
        explain_json(directory.path(), &[&target[..], &["/pkg.Greeter/Hello"]].concat());
    assert_eq!(code, Some(0), "{json}");
    assert_eq!(json.at("/rules"), "grpc");
    assert_eq!(
        states(&json)[..3],
        [
            ("skipped", "gRPC skips routes with query parameters"),
            ("no_match", "header :method is absent: needed :method = `POST`"),
            ("used", ""),
        ]
    );
    assert_eq!(json.at("/outcomes/0/settings/max_stream_duration"), "2s");
    // Each kind of rules has its part of the listener.
    let problem = |args: &[&str]| {
        let (code, json) = explain_json(directory.path(), args);
        assert_eq!(code, Some(1), "{json}");
        as_text(json.at("/problems/0")).to_owned()
    };
    assert_eq!(
        problem(&[&target[..], &["/pkg.Greeter/Hello", "--rules", "envoy"]].concat()),
        "the listener `greeter` has no HTTP connection manager in a filter chain; its \
         `api_listener` is used with --rules grpc"
    );
    let proxy = "the listener `ingress` has no HTTP connection manager in an `api_listener`, which \
                 gRPC clients need; its filter chains are used with --rules envoy";
    assert_eq!(problem(&["--target", "xds:///ingress", "--method", "/pkg.x/y"]), proxy);
    directory.remove("greeter.yaml");
    assert_eq!(problem(&[&SHOP[..], &["--rules", "grpc", "--method", "/pkg.x/y"]].concat()), proxy);
    directory.save("greeter.yaml", GREETER);

    let (code, json) = explain_json(directory.path(), &[&target[..], &["/pkg.Old/Hello"]].concat());
    assert_eq!(code, Some(1));
    assert_eq!(json.at("/outcomes/0/action"), "fail");
}
