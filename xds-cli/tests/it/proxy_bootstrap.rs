//! `xds watch --proxy-bootstrap`: resources that a proxy with this bootstrap would get.

use crate::support::{TempDir, Xds, clusters, endpoints, eventually};
use serde_json::{Value as Json, json};

fn static_cluster(name: &str, address: &str) -> Json {
    let (host, port) = address.rsplit_once(':').unwrap();
    let port: u16 = port.parse().unwrap();
    json!({
        "name": name,
        "connect_timeout": { "seconds": 5 },
        "upstream_connection_options": { "tcp_keepalive": { "keepalive_time": 10 } },
        "load_assignment": { "cluster_name": name, "endpoints": [{ "lb_endpoints": [
            { "endpoint": { "address": { "socket_address": { "address": host, "port_value": port } } } },
        ] }] },
    })
}

/// Bootstrap in the form of the API's documentation: an aggregated stream to a static cluster.
fn bootstrap(address: &str) -> Json {
    json!({
        "node": { "id": "proxy-1", "cluster": "edge" },
        "dynamic_resources": {
            "ads_config": {
                "api_type": "DELTA_GRPC",
                "transport_api_version": "V3",
                "grpc_services": [{ "envoy_grpc": { "cluster_name": "xds" } }],
            },
            "cds_config": { "resource_api_version": "V3", "ads": {} },
        },
        "static_resources": { "clusters": [static_cluster("xds", address)] },
    })
}

fn watch(file: &str, flags: &[&str]) -> Xds {
    Xds::spawn(&[&["watch", "-o", "ndjson", "--proxy-bootstrap", file, "cds"], flags].concat())
}

#[test]
fn static_and_served_clusters_are_both_watched() {
    println!("covers: S4.016 S4.017 S4.018 S4.019 S0.176");
    let (files, served) = (TempDir::new(), TempDir::new());
    served.save("cds.yaml", &clusters("one"));
    let (serve, address) = Xds::serve(served.path());
    files.save("bootstrap.json", &bootstrap(&address).to_string());
    let file = files.join("bootstrap.json").to_str().unwrap().to_owned();
    let seen = watch(&file, &[]);
    let mut names: Vec<_> = seen
        .wait_count("changed", 2)
        .iter()
        .map(|event| event["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["one", "xds"]);
    serve.wait_row("cds", |row| row["node"] == "proxy-1" && row["state"] == "ACKED");

    // The bootstrap as YAML, with another node id.
    files.save("bootstrap.yaml", &format!("# {address}\n{}", bootstrap(&address)));
    let file = files.join("bootstrap.yaml").to_str().unwrap().to_owned();
    let seen = watch(&file, &["--node", "other"]);
    seen.wait_count("changed", 2);
    serve.wait_row("cds", |row| row["node"] == "other");
}

#[test]
fn bootstrap_errors_name_the_file_and_field() {
    let files = TempDir::new();
    let file = files.join("bootstrap.json").to_str().unwrap().to_owned();
    let good = bootstrap("127.0.0.1:1");
    let with = |pointer: &str, value: Json| {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        bad
    };
    let socket = json!({ "name": "envoy.transport_sockets.tls" });
    let mut secured = good.clone();
    secured["static_resources"]["clusters"][0]["transport_socket"] = socket;
    for (bad, words) in [
        (with("/node/cluster", json!("")), "node.cluster"),
        (
            with("/dynamic_resources", json!({})),
            "neither listeners nor clusters have a config source",
        ),
        (with("/static_resources", json!({})), "static cluster \"xds\" is not defined"),
        (
            with("/static_resources/clusters/0/connect_timeout", json!("soon")),
            "clusters[0].connect_timeout",
        ),
        (with("/static_resources/clusters/0/load_assignment", json!({})), "has no endpoints"),
        (secured, "the transport socket of cluster \"xds\" is not read"),
    ] {
        files.save("bootstrap.json", &bad.to_string());
        let failed = watch(&file, &[]);
        failed.wait_stderr(words);
        failed.wait_stderr("bootstrap.json");
    }
}

/// Errors name the line of the file, in YAML and JSON, also in static resources.
#[test]
fn bootstrap_errors_state_the_line_in_the_file() {
    let files = TempDir::new();
    let good = bootstrap("127.0.0.1:1");
    let json = format!("{good:#}");
    let yaml = "node: { id: proxy-1, cluster: edge }
dynamic_resources:
  ads_config:
    api_type: GRPC
    grpc_services: [ { envoy_grpc: { cluster_name: xds } } ]
  cds_config: { ads: {} }
static_resources:
  clusters:
  - name: xds
    connect_timeout: 5s
    load_assignment:
      cluster_name: xds
      endpoints:
      - lb_endpoints:
        - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 1 } } }
";
    let cases = [
        (
            "b.yaml",
            yaml.replace("5s", "soon"),
            "b.yaml:10:22: static_resources.clusters[0].connect_timeout: ",
        ),
        (
            "b.yaml",
            yaml.replace("connect_timeout", "conect_timeout"),
            "b.yaml:10:5: static_resources.clusters[0]: unknown field `conect_timeout`",
        ),
        (
            "b.yaml",
            yaml.replace("name: xds\n    c", "name: xds\n    type: STATICC\n    c"),
            "b.yaml:10:11: static_resources.clusters[0].type: unknown value `STATICC`",
        ),
        (
            "b.yaml",
            yaml.replace("GRPC", "GRPCC"),
            "b.yaml:4:15: dynamic_resources.ads_config.api_type: ",
        ),
        (
            "b.yaml",
            yaml.replace("ads: {}", "adds: {}"),
            "b.yaml:6:23: dynamic_resources.cds_config.adds: unknown field",
        ),
        ("b.yaml", yaml.replace("node: {", "node: ["), "b.yaml:1:"),
        (
            "b.json",
            json.replace("\"name\": \"xds\"", "\"name\": \"xds\", \"type\": \"STATICC\""),
            ": static_resources.clusters[0].type: unknown value `STATICC`",
        ),
        // API version 2: the message is converted, and the error names the position of its parent.
        (
            "b.yaml",
            yaml.replace("5s", "5s\n    type: STATICC\n    http2_protocol_options: {}"),
            "b.yaml:11:11: static_resources.clusters[0].type: unknown value `STATICC`",
        ),
    ];
    for (name, text, words) in cases {
        files.save(name, &text);
        let file = files.join(name).to_str().unwrap().to_owned();
        let failed = watch(&file, &[]);
        failed.wait_stderr(words);
        let said = failed.stderr();
        let line = said.lines().find(|line| line.contains(words)).unwrap();
        assert_eq!(line.matches(name).count(), 1, "{line}");
        if name == "b.json" {
            let at = text.lines().position(|line| line.contains("STATICC")).unwrap() + 1;
            assert!(line.contains(&format!("b.json:{at}:")), "{line}");
        }
    }
}

/// The aggregated stream has listeners, clusters and the endpoints of one cluster. A file has the
/// endpoints of another cluster, and routes are polled.
#[test]
fn referenced_resources_come_from_their_configured_source() {
    println!("covers: S0.052 S0.053 S0.054");
    let (files, served) = (TempDir::new(), TempDir::new());
    let path = |name: &str| files.join(name).to_str().unwrap().to_owned();
    let eds = |cluster: &str, source: &Json| {
        json!({
            "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            "name": cluster, "type": "EDS", "connect_timeout": "1s",
            "eds_cluster_config": { "eds_config": source },
        })
    };
    let ads = json!({ "resource_api_version": "V3", "ads": {} });
    let file = json!({
        "resource_api_version": "V3", "path_config_source": { "path": path("endpoints.yaml") },
    });
    let rest = json!({
        "resource_api_version": "V3",
        "api_config_source": {
            "api_type": "REST", "transport_api_version": "V3", "cluster_names": ["xds-rest"],
            "refresh_delay": "0.1s",
        },
    });
    let listener = json!({
        "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "name": "ingress",
        "address": { "socket_address": { "address": "127.0.0.1", "port_value": 80 } },
        "filter_chains": [{ "filters": [{
            "name": "http",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                "stat_prefix": "ingress",
                "rds": { "route_config_name": "routes", "config_source": rest },
            },
        }] }],
    });
    let routes = json!({
        "@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", "name": "routes",
    });
    let both = json!([eds("streamed", &ads), eds("filed", &file)]);
    served.save("cds.json", &both.to_string());
    served.save("lds.json", &listener.to_string());
    served.save("rds.json", &routes.to_string());
    served.save("eds.yaml", &endpoints("streamed", &[1]));
    files.save("endpoints.yaml", &endpoints("filed", &[2]));
    // A proxy's request timeout is 1 s.
    let flags = ["--listen", "127.0.0.1:0", "--rest", "127.0.0.1:0", "--rest-hold", "300ms"];
    let (serve, address) = Xds::serve_with(served.path(), &flags);
    let serving = serve.wait_event("serving", |event| event["event"] == "serving");

    let mut bootstrap = bootstrap(&address);
    bootstrap["dynamic_resources"]["lds_config"] = ads;
    let polled = static_cluster("xds-rest", serving["rest"].as_str().unwrap());
    bootstrap["static_resources"]["clusters"].as_array_mut().unwrap().push(polled);
    files.save("bootstrap.json", &bootstrap.to_string());
    let seen = watch(&path("bootstrap.json"), &["lds", "--follow"]);
    let mut names: Vec<_> = seen
        .wait_count("changed", 8)
        .iter()
        .map(|event| {
            format!("{}:{}", event["type"].as_str().unwrap(), event["name"].as_str().unwrap())
        })
        .collect();
    names.sort_unstable();
    let all = [
        "cds:filed",
        "cds:streamed",
        "cds:xds",
        "cds:xds-rest",
        "eds:filed",
        "eds:streamed",
        "lds:ingress",
        "rds:routes",
    ];
    assert_eq!(names, all);
    assert!(seen.events_of("error").is_empty(), "{:?}", seen.events());

    // A change of the file affects only its endpoints. Resources without a reference are unwatched.
    files.replace("endpoints.yaml", &endpoints("filed", &[2, 3]));
    assert_eq!(seen.wait_count("changed", 9)[8]["name"], "filed");
    served.replace("cds.json", &json!([eds("filed", &file)]).to_string());
    seen.wait_event("the cluster is gone", |event| event["event"] == "removed");
    serve.wait_row("cds", |row| row["state"] == "ACKED" && row["responses"] == 2);
    eventually("nobody subscribes to its endpoints", || {
        let subscribed: Vec<_> = serve
            .events_of("status")
            .last()
            .and_then(|it| it["rows"].as_array().cloned())
            .unwrap_or_default()
            .into_iter()
            .filter(|row| row["type"] == "eds" && row["subscribed"] != 0)
            .collect();
        if subscribed.is_empty() { Ok(()) } else { Err(format!("{subscribed:?}")) }
    });
}

/// The scopes of a listener come over the listener's stream, and the routes they name from a file.
#[test]
fn scoped_routes_come_from_the_source_set_by_the_listener() {
    println!("covers: S0.052 S0.056");
    let (files, served) = (TempDir::new(), TempDir::new());
    let path = |name: &str| files.join(name).to_str().unwrap().to_owned();
    let listener = json!({
        "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "name": "ingress",
        "address": { "socket_address": { "address": "127.0.0.1", "port_value": 80 } },
        "filter_chains": [{ "filters": [{
            "name": "http",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                "stat_prefix": "ingress",
                "scoped_routes": {
                    "name": "scopes",
                    "scope_key_builder": { "fragments": [{ "header_value_extractor": { "name": "host" } }] },
                    "rds_config_source": { "path_config_source": { "path": path("routes.yaml") } },
                    "scoped_rds": { "scoped_rds_config_source": { "self": {} } },
                },
            },
        }] }],
    });
    let scope = |name: &str, routes: &str| {
        json!({
            "@type": "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration",
            "name": name,
            "route_configuration_name": routes,
            "key": { "fragments": [{ "string_key": name }] },
        })
    };
    let routes = |name: &str| {
        json!({
            "@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", "name": name,
        })
    };
    served.save("lds.json", &listener.to_string());
    served.save("srds.json", &json!([scope("a", "first"), scope("b", "second")]).to_string());
    files.save(
        "routes.yaml",
        &json!([routes("first"), routes("second"), routes("third")]).to_string(),
    );
    let (_serve, address) = Xds::serve(served.path());
    let mut bootstrap = bootstrap(&address);
    bootstrap["dynamic_resources"]["lds_config"] = json!({ "ads": {} });
    files.save("bootstrap.json", &bootstrap.to_string());
    let seen = watch(&path("bootstrap.json"), &["lds", "--follow"]);
    let names = |count| {
        let mut names: Vec<_> = seen
            .wait_count("changed", count)
            .iter()
            .map(|event| {
                format!("{}:{}", event["type"].as_str().unwrap(), event["name"].as_str().unwrap())
            })
            .collect();
        names.sort_unstable();
        names
    };
    let first = ["cds:xds", "lds:ingress", "rds:first", "rds:second", "srds:a", "srds:b"];
    assert_eq!(names(6), first);

    // A changed scope refers to other routes.
    let changed = json!([scope("a", "first"), scope("b", "third")]);
    served.replace("srds.json", &changed.to_string());
    assert!(names(8).contains(&"rds:third".to_owned()));
    assert!(seen.events_of("error").is_empty(), "{:?}", seen.events());
}
