//! Sources of the resources: a server, and a dump of Envoy.

use super::{GREETER, explain, resources};
use crate::support::{Ended, TempDir, Xds, run};

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

/// Runs `xds route explain` for `http://a/b` with a dump of these members of `configs`.
fn explain_dump(configs: &str) -> Ended {
    let file = TempDir::new();
    file.save("dump.json", &format!("{{\n\"configs\": [\n{configs}]}}"));
    let dump = file.join("dump.json");
    let dump = dump.to_str().unwrap();
    run(&["route", "explain", "--dump", dump, "--host", "a", "--path", "/b"])
}

const LISTENER: &str = r#"{ "active_state": { "listener": {
    "@type": "type.googleapis.com/envoy.config.listener.v3.Listener", "name": "l",
    "filter_chains": [{ "filters": [{ "name": "hcm", "typed_config": {
      "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
      "rds": { "route_config_name": "r", "config_source": { "ads": {} } },
      "http_filters": [{ "name": "f", "typed_config": { "@type": "type.googleapis.com/acme.Filter", "a": 1 } }] } }] }] } } },
    { "route_config": { "@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", "name": "r",
      "virtual_hosts": [{ "name": "all", "domains": ["*"], "routes": [
        { "match": { "prefix": "/" }, "route": { "cluster": "c" } }] }] } }"#;

#[test]
fn unknown_types_in_a_dump_are_ignored_with_their_positions() {
    let cluster = |members: &str| {
        let url = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
        format!(r#"{{ "cluster": {{ "@type": "{url}", "name": "c", {members} }} }}"#)
    };
    let options = r#""typed_extension_protocol_options": {
        "x.y": { "@type": "type.googleapis.com/acme.Options", "a": 1 } }"#;
    let ended = explain_dump(&format!("{},\n{LISTENER}", cluster(options)));
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    for part in [
        "dump.json:4:",
        ": configs[0].cluster.typed_extension_protocol_options[\"x.y\"]",
        "acme.Options",
        "acme.Filter",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    // A resource that cannot be read otherwise exists.
    let ended = explain_dump(&format!("{},\n{LISTENER}", cluster(r#""connect_timeout": "soon""#)));
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("the cluster `c` cannot be read"), "{}", ended.stdout);
    assert!(ended.stderr.contains("the cluster `c` is ignored"), "{}", ended.stderr);
}

#[test]
fn json_that_is_not_a_dump_is_an_error() {
    let file = TempDir::new();
    let dump = file.join("dump.json");
    let dump = dump.to_str().unwrap();
    for content in ["", "5", "null", "[]", "{\"hello\": 1}"] {
        file.save("dump.json", content);
        let ended = run(&["route", "explain", "--dump", dump, "--host", "a"]);
        assert_eq!(ended.code, Some(1), "{content}: {}{}", ended.stdout, ended.stderr);
        assert!(
            ended.stderr.contains("is not a configuration dump"),
            "{content}: {}",
            ended.stderr
        );
    }
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
