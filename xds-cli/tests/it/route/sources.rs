//! Sources of the resources: a server, and a dump of Envoy.

use super::{GREETER, explain, resources};
use crate::support::{TempDir, Xds, run};

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
