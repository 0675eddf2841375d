//! `xds route explain`.

use std::{fs, path::Path};

use crate::support::{Ended, TempDir, Xds, run};
use serde_json::Value as Json;

/// Resources of a proxy (listener `ingress`) and of a gRPC client (listener `greeter`).
const RESOURCES: &str = r#"
- "@type": type.googleapis.com/envoy.config.listener.v3.Listener
  name: ingress
  address: { socket_address: { address: 127.0.0.1, port_value: 8080 } }
  filter_chains:
  - filters:
    - name: http
      typed_config: &manager
        "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
        stat_prefix: x
        rds: { route_config_name: shop, config_source: { ads: {} } }
        http_filters:
        - name: envoy.filters.http.router
          typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
- "@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
  name: shop
  virtual_hosts:
  - name: secure
    domains: ["secure.example.com"]
    require_tls: ALL
    routes: [{ match: { prefix: / }, route: { cluster: blue } }]
  - name: shop
    domains: ["shop.example.com", "*.shop.example.com"]
    routes:
    - match: { path: /health }
      direct_response: { status: 204 }
    - match: { prefix: /old }
      redirect: { path_redirect: /new, host_redirect: new.example.com, https_redirect: true, response_code: FOUND }
    - name: canary
      match: { prefix: /cart, headers: [{ name: x-canary, string_match: { exact: "yes" } }] }
      route: { cluster: blue, prefix_rewrite: /v2/cart, host_rewrite_literal: blue.internal, timeout: 3s }
    - match: { prefix: /cart, query_parameters: [{ name: debug }] }
      route: { cluster: gren }
    - match: { prefix: /split, runtime_fraction: { default_value: { numerator: 20 }, runtime_key: split } }
      route: { cluster: blue }
    - match: { prefix: /split }
      route:
        weighted_clusters: { clusters: [{ name: blue, weight: 1 }, { name: green, weight: 3 }] }
        retry_policy: { retry_on: "5xx", num_retries: 2 }
    - match: { prefix: /pkg. }
      route: { cluster: blue }
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: blue
  connect_timeout: 1s
  type: EDS
  eds_cluster_config: { eds_config: { ads: {} } }
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: green
  connect_timeout: 1s
  type: STATIC
  load_assignment:
    cluster_name: green
    endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: "::1", port_value: 9001 } } } }] }]
- "@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
  cluster_name: blue
  endpoints:
  - locality: { region: eu, zone: a }
    priority: 1
    load_balancing_weight: 2
    lb_endpoints: [{ health_status: HEALTHY, endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 9000 } } } }]
"#;

/// Listener of a gRPC client with routes inside.
const GREETER: &str = r#"
"@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: greeter
api_listener:
  api_listener:
    "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
    http_filters:
    - name: router
      typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
    route_config:
      name: inside
      virtual_hosts:
      - name: all
        domains: ["*"]
        routes:
        - match: { prefix: "", query_parameters: [{ name: q }] }
          route: { cluster: green }
        - match: { path: /pkg.Greeter/Hello, headers: [{ name: ":method", exact_match: POST }] }
          route: { cluster: green }
        - match: { prefix: /pkg.Greeter/ }
          route: { cluster: blue, max_stream_duration: { max_stream_duration: 2s } }
        - match: { prefix: /pkg.Old/ }
          redirect: {}
"#;

fn resources() -> TempDir {
    let directory = TempDir::new();
    // The anchor in the text is for readers of the test only.
    directory.save("shop.yaml", &RESOURCES.replace(" &manager", ""));
    directory
}

fn explain(directory: &Path, args: &[&str]) -> Ended {
    let directory = directory.to_str().unwrap();
    run(&[&["route", "explain", directory, "--color", "never"], args].concat())
}

fn explain_json(directory: &Path, args: &[&str]) -> (Option<i32>, Json) {
    let ended = explain(directory, &[args, &["-o", "json"]].concat());
    let json = serde_json::from_str(&ended.stdout);
    (ended.code, json.unwrap_or_else(|why| panic!("{why}: {} {}", ended.stdout, ended.stderr)))
}

const SHOP: [&str; 2] = ["--host", "shop.example.com"];

fn shop(path: &str) -> Vec<&str> {
    [&SHOP[..], &["--path", path]].concat()
}

fn states(json: &Json) -> Vec<(&str, &str)> {
    let routes = json.at("/routes").as_array().unwrap().iter();
    routes.map(|it| (as_text(it.at("/state")), as_text(it.at("/reason")))).collect()
}

fn as_text(json: &Json) -> &str {
    json.as_str().unwrap_or_default()
}

trait Fields {
    fn at(&self, pointer: &str) -> &Self;
}

impl Fields for Json {
    fn at(&self, pointer: &str) -> &Self {
        self.pointer(pointer).unwrap_or(&Self::Null)
    }
}

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

#[test]
fn expectations_are_checked_row_by_row() {
    let directory = resources();
    let file = TempDir::new();
    file.save(
        "tests.yaml",
        r#"
tests:
- name: canary
  request: { host: shop.example.com, path: /cart/1, headers: { x-canary: "yes" } }
  expect: { virtual_host: shop, route: canary, cluster: blue, path: /v2/cart/1, host: blue.internal }
- request: { host: shop.example.com, path: /split }
  expect: { clusters: { blue: 40, green: 60 } }
- name: nobody
  request: { host: other.example.com }
  expect: { virtual_host: none, route: none, cluster: none }
- name: moved
  request: { host: shop.example.com, path: /old, method: POST, scheme: https }
  expect: { route: 1, cluster: none, redirect: "https://new.example.com/new", status: 302 }
"#,
    );
    let args = |name: &str| file.join(name).to_str().unwrap().to_owned();
    let passed = explain(directory.path(), &["--expect", &args("tests.yaml")]);
    assert_eq!(passed.code, Some(0), "{}{}", passed.stdout, passed.stderr);
    let lines: Vec<_> = passed.stdout.lines().collect();
    assert_eq!(
        lines,
        ["ok   canary", "ok   tests[1]", "ok   nobody", "ok   moved", "4 requests, 0 differ"]
    );

    let text = fs::read_to_string(file.join("tests.yaml")).unwrap();
    file.save(
        "wrong.yaml",
        &text.replace("cluster: blue,", "cluster: green,").replace("blue: 40", "blue: 30"),
    );
    let failed = explain(directory.path(), &["--expect", &args("wrong.yaml")]);
    assert_eq!(failed.code, Some(1));
    assert!(
        failed.stdout.starts_with("FAIL canary: cluster is `blue`, expected `green`\n"),
        "{}",
        failed.stdout
    );
    assert!(failed.stdout.trim_end().ends_with("4 requests, 2 differ"), "{}", failed.stdout);
    let failed = explain(directory.path(), &["--expect", &args("wrong.yaml"), "-o", "json"]);
    let first: Json = serde_json::from_str(failed.stdout.lines().next().unwrap()).unwrap();
    assert_eq!((first.at("/test"), first.at("/passed")), (&"canary".into(), &false.into()));
    assert_eq!(first.at("/differences/0/found"), "blue");

    file.save(
        "unnamed.yaml",
        "tests: [{ request: { host: shop.example.com, path: /old }, expect: { route: \"1\" } }]",
    );
    let failed = explain(directory.path(), &["--expect", &args("unnamed.yaml")]);
    let expected = "FAIL tests[0]: route is `index 1, without a name`, expected `1`\n";
    assert!(failed.stdout.starts_with(expected), "{}", failed.stdout);
}

#[test]
fn errors_of_an_expect_file_have_place_and_test() {
    let directory = resources();
    let file = TempDir::new();
    for (wrong, why) in [
        (
            "tests:\n- { name: first, request: { host: a }, expect: { clustr: b } }",
            "bad.yaml:2:58: first: expect.clustr: unknown field `clustr`",
        ),
        (
            "tests: [{ request: { path: /a }, expect: {} }]",
            "bad.yaml:1:20: tests[0]: the request needs a host",
        ),
        ("tests: [{ request: { host: a, scheme: ftp }, expect: {} }]", "unknown scheme `ftp`"),
        ("tests: [{ request: { host: a } }]", "bad.yaml:1:9: tests[0]: missing field `expect`"),
        ("tests: [{ request: 5, expect: {} }]", "bad.yaml:1:20: tests[0]: request: invalid type"),
        ("tests: []", "bad.yaml:1:8: there are no tests"),
        ("tests: {}", "bad.yaml:1:8: `tests` is not a list"),
        ("test: []", "bad.yaml:1:7: unknown field `test`, expected `tests`"),
        ("{}", "bad.yaml:1:1: there is no list `tests`"),
        ("tests: [", "bad.yaml:"),
        (
            "tests:\n- { test_name: t, input: { authority: a, path: /, x: 1 }, validate: {} }",
            "bad.yaml:2:54: t: input.x: unknown field `x`",
        ),
        (
            "tests: [{ test_name: t, input: { authority: a, path: x }, validate: {} }]",
            "bad.yaml:1:32: t: the path must begin with a slash",
        ),
    ] {
        file.save("bad.yaml", wrong);
        let path = file.join("bad.yaml");
        let bad = explain(directory.path(), &["--expect", path.to_str().unwrap()]);
        assert_eq!(bad.code, Some(2), "{wrong}: {}", bad.stderr);
        assert!(bad.stderr.contains(why), "{wrong}: {}", bad.stderr);
    }
}

#[test]
fn router_check_tests_of_envoy_are_accepted() {
    let directory = resources();
    let file = TempDir::new();
    let test = |name: &str, input: &str, validate: &str| {
        format!(
            "- test_name: {name}\n  input: {{ authority: shop.example.com, {input} }}\n  validate: {{ {validate} }}\n"
        )
    };
    let tests = [
        test("first fifth", "path: /split, random_value: 19", "cluster_name: blue"),
        test(
            "weighted",
            "path: /split, random_value: 21",
            "cluster_name: green, virtual_host_name: shop",
        ),
        test("weight zero", "path: /split, random_value: 20", "cluster_name: blue"),
        test("none", "path: /none, method: GET", "cluster_name: ''"),
        test(
            "moved",
            "path: /old, ssl: true",
            "path_redirect: 'https://new.example.com/new', code_redirect: 302",
        ),
        test(
            "canary",
            "path: /cart, additional_request_headers: [{ key: X-Canary, value: 'yes' }]",
            "path_rewrite: /v2/cart, host_rewrite: blue.internal",
        ),
        test("wrong", "path: /split, random_value: 0", "cluster_name: green"),
    ];
    file.save("check.yaml", &format!("tests:\n{}", tests.concat()));
    let check = file.join("check.yaml");
    let checked = explain(directory.path(), &["--expect", check.to_str().unwrap()]);
    assert_eq!(checked.code, Some(1), "{}", checked.stderr);
    let failed: Vec<_> = checked.stdout.lines().filter(|line| !line.starts_with("ok ")).collect();
    assert_eq!(
        failed,
        ["FAIL wrong: cluster_name is `blue`, expected `green`", "7 requests, 1 differ"],
        "{}",
        checked.stdout
    );
    file.save(
        "check.yaml",
        &format!("tests:\n{}", test("v", "path: /", "virtual_cluster_name: x")),
    );
    let unsupported = explain(directory.path(), &["--expect", check.to_str().unwrap()]);
    assert_eq!(unsupported.code, Some(2));
    assert!(unsupported.stderr.contains("virtual_cluster_name"), "{}", unsupported.stderr);
}

#[test]
fn server_and_dump_give_the_same_explanation_as_the_files() {
    let directory = resources();
    directory.save("greeter.yaml", GREETER);
    let (_server, address) = Xds::serve(directory.path());
    for args in [
        &["--listener", "ingress", "--host", "shop.example.com", "--path", "/split", "-o", "json"]
            [..],
        &["--target", "xds:///greeter", "--method", "/pkg.Greeter/Bye", "-o", "json"],
    ] {
        let of_files = explain(directory.path(), args);
        assert_eq!(of_files.code, Some(0), "{}", of_files.stderr);
        let of_server = run(&[&["route", "explain", "--server", &address], args].concat());
        assert_eq!(
            (of_server.code, &of_server.stdout),
            (Some(0), &of_files.stdout),
            "{}",
            of_server.stderr
        );
    }
    // Without --listener, all listeners are fetched.
    let several = run(&["route", "explain", "--server", &address, "--host", "shop.example.com"]);
    assert_eq!(several.code, Some(1));
    assert!(several.stdout.contains("several listeners"), "{}", several.stdout);
}

#[test]
fn dump_of_envoy_gives_its_active_resources() {
    let file = TempDir::new();
    let cluster = r#"{ "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "NAME", "field_of_the_future": 1 }"#;
    let dump = format!(
        r#"{{ "configs": [
        {{ "@type": "type.googleapis.com/envoy.admin.v3.ClustersConfigDump",
           "dynamic_active_clusters": [{{ "cluster": {} }}],
           "dynamic_warming_clusters": [{{ "cluster": {} }}] }},
        {{ "@type": "type.googleapis.com/envoy.admin.v3.RoutesConfigDump",
           "static_route_configs": [{{ "route_config": {{
             "@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", "name": "r",
             "virtual_hosts": [{{ "name": "all", "domains": ["*"], "routes": [
               {{ "match": {{ "path": "/b" }}, "route": {{ "cluster": "warming" }} }},
               {{ "match": {{ "prefix": "/" }}, "route": {{ "cluster": "active" }} }} ] }}] }} }}] }} ] }}"#,
        cluster.replace("NAME", "active"),
        cluster.replace("NAME", "warming"),
    );
    file.save("dump.json", &dump);
    let dump = file.join("dump.json");
    let explain = |path: &str| {
        run(&[
            "route",
            "explain",
            "--dump",
            dump.to_str().unwrap(),
            "--host",
            "a",
            "--path",
            path,
            "-o",
            "json",
        ])
    };
    let active = explain("/a");
    assert_eq!(active.code, Some(0), "{}{}", active.stdout, active.stderr);
    let warming = explain("/b");
    assert_eq!(warming.code, Some(1), "{}", warming.stdout);
    assert!(warming.stdout.contains("the cluster `warming` does not exist"), "{}", warming.stdout);

    file.save("dump.json", "{");
    assert_eq!(explain("/a").code, Some(1));
}

#[test]
fn unreachable_server_and_wrong_arguments_have_their_exit_codes() {
    let refused =
        run(&["route", "explain", "--server", "127.0.0.1:1", "--host", "a", "--timeout", "5s"]);
    assert_eq!(refused.code, Some(4), "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("cannot reach 127.0.0.1:1"), "{}", refused.stderr);
    let directory = resources();
    for args in [
        &["--host", "a", "--path", "x"][..],
        &["--host", "a", "--header", "x"],
        &["--target", "xds:///greeter"],
        &["--host", "a", "--method", "/s/m", "--path", "/x"],
        &["--path", "/"],
    ] {
        let wrong = explain(directory.path(), args);
        assert_eq!(wrong.code, Some(2), "{args:?}: {}", wrong.stderr);
    }
}
