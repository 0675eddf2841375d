//! `xds get`: formats, exit codes and sources.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
};

use crate::support::{
    Ended, TempDir, Xds, clusters, endpoints, free_address, run, run_with, without_time,
};
use serde_json::{Value as Json, json};
use xds_format::{Format, Schema, parse};

/// Runs `xds get` against a server.
fn get(server: &str, args: &[&str]) -> Ended {
    run(&[&["get", "--server", server], args].concat())
}

fn names(format: Format, text: &str) -> Vec<String> {
    let document = parse(Schema::envoy(), "stdout", format, text.as_bytes()).unwrap();
    document.resources.into_iter().map(|it| it.name).collect()
}

#[test]
fn whole_type_is_printed_in_each_format() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one two"));
    let (_serve, address) = Xds::serve(directory.path());
    for variant in [&[][..], &["--delta"], &["--per-type"]] {
        let ended = get(&address, &[&["cds"], variant].concat());
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{variant:?}");
        assert_eq!(names(Format::Yaml, &ended.stdout), ["one", "two"]);
    }
    let printed = |format: &str, wanted: &str| {
        let ended = get(&address, &["-o", format, wanted]);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{format}");
        ended.stdout
    };
    assert_eq!(names(Format::Json, &printed("json", "cds:*")), ["one", "two"]);
    assert_eq!(names(Format::Text, &printed("textproto", "cds")), ["one", "two"]);
    assert_eq!(printed("names", "cds"), "cds:one\ncds:two");
    let table = printed("table", "cds");
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<_> = table.lines().map(cells).collect();
    assert_eq!(rows[0], ["TYPE", "NAME", "VERSION", "BYTES", "SUMMARY"]);
    assert_eq!(rows[2][..2], ["cds", "two"]);
    // A type without resources is an empty list, and no error.
    assert_eq!(printed("yaml", "lds"), "resources: []");
    assert_eq!(printed("names", "lds"), "");
}

/// Only for listeners and clusters does the state-of-the-world variant require a response without
/// resources.
#[test]
fn type_without_resources_is_empty_with_delta_and_otherwise_advises_a_name() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let (_serve, address) = Xds::serve(directory.path());
    for type_name in ["rds", "eds", "sds"] {
        let ended = get(&address, &["--delta", type_name]);
        assert_eq!((ended.code, &*ended.stdout), (Some(0), "resources: []"), "{}", ended.stderr);
        let ended = get(&address, &[type_name, "cds", "-o", "names"]);
        assert_eq!((ended.code, &*ended.stdout), (Some(1), "cds:one"), "{}", ended.stderr);
        let why = format!("xds: {type_name} collection: no answer within 5s (server {address}): ");
        assert!(ended.stderr.contains(&why), "{}", ended.stderr);
        let advice = format!("name resources ({type_name}:NAME) or use --delta");
        assert!(ended.stderr.contains(&advice), "{}", ended.stderr);
    }
    // The time limit of the option applies, also if it is longer.
    let ended = get(&address, &["eds", "--timeout", "6s"]);
    assert!(ended.stderr.contains("no answer within 6s"), "{}", ended.stderr);
}

#[test]
fn response_without_resources_is_an_empty_list() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let get = Xds::spawn(&["get", "--server", &address, "eds", "--poll", "1s"]);
    let (_, mut stream) = request(&listener);
    let type_url = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
    let body = json!({ "version_info": "1", "type_url": type_url, "resources": [] }).to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).unwrap();
    let ended = get.ended();
    assert_eq!((ended.code, &*ended.stdout), (Some(0), "resources: []"), "{}", ended.stderr);
}

#[test]
fn named_resources_are_printed_without_a_list() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one two"));
    directory.save("eds.yaml", &endpoints("one", &[8080]));
    let (_serve, address) = Xds::serve(directory.path());
    let ended = get(&address, &["cds:two", "-o", "json"]);
    let printed: Json = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((ended.code, &printed["name"]), (Some(0), &json!("two")));
    let ended = get(&address, &["cds:two", "-o", "textproto"]);
    assert_eq!(names(Format::Text, &ended.stdout), ["two"]);
    // What `names` prints can be fetched. The order is that of the arguments.
    let listed = get(&address, &["eds:one", "cds", "cds:one", "-o", "names"]).stdout;
    let listed: Vec<_> = listed.lines().collect();
    assert_eq!(listed, ["eds:one", "cds:one", "cds:two"]);
    let ended = get(&address, &[&listed[..], &["-o", "names"]].concat());
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(0), 3), "{}", ended.stderr);
}

#[test]
fn collection_in_several_responses_is_fetched_completely() {
    // Two of these resources exceed the size of a response.
    let filler = "x".repeat(3 << 20);
    let directory = TempDir::new();
    let mut clusters = "resources:\n".to_owned();
    let mut routes = clusters.clone();
    for name in ["one", "two", "three"] {
        clusters += &format!(
            "- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: {name}\n  \
             alt_stat_name: {filler}\n"
        );
        routes += &format!(
            "- \"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\n  \
             name: {name}\n  virtual_hosts: [{{ name: {filler}, domains: ['*'] }}]\n"
        );
    }
    directory.save("cds.yaml", &clusters);
    directory.save("rds.yaml", &routes);
    let (_serve, address) = Xds::serve(directory.path());
    for args in [&["cds", "--delta"][..], &["rds", "--delta"], &["rds"]] {
        let ended = get(&address, &[args, &["-o", "names"]].concat());
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{args:?}");
        assert_eq!(ended.stdout.lines().count(), 3, "{args:?}: {}", ended.stdout);
    }
}

#[test]
fn missing_resource_exits_with_five() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let (_serve, address) = Xds::serve(directory.path());
    // The incremental variant reports it, the other does not.
    for (flags, why) in [
        (&["--delta"][..], "xds: cds none: does not exist: reported missing by the server"),
        (&["--timeout", "5s"], "xds: cds none: does not exist: not received within 5s"),
    ] {
        let ended = get(&address, &[&["cds:none", "cds:one", "-o", "names"], flags].concat());
        assert_eq!((ended.code, &*ended.stdout), (Some(5), "cds:one"), "{flags:?}");
        assert!(ended.stderr.contains(why), "{flags:?}: {}", ended.stderr);
    }
    let ended = get(&address, &["--delta", "cds:none"]);
    assert_eq!((ended.code, &*ended.stdout), (Some(5), ""));
    let ended = get(&address, &["--delta", "cds:none", "-o", "ndjson"]);
    let event = without_time(serde_json::from_str(&ended.stdout).unwrap());
    assert_eq!((&event["event"], &event["name"]), (&json!("error"), &json!("none")));
    assert_eq!(ended.code, Some(5));
}

#[test]
fn unreachable_server_exits_with_four() {
    let address = free_address();
    let ended = get(&address, &["cds", "eds:one"]);
    assert_eq!((ended.code, &*ended.stdout), (Some(4), ""));
    for subject in ["cds collection", "eds one"] {
        let why = format!("xds: {subject}: cannot connect: ");
        assert!(ended.stderr.contains(&why) && ended.stderr.contains(&address), "{}", ended.stderr);
    }
    // The error is printed once; -v adds the log.
    assert!(!ended.stderr.contains("WARN"), "{}", ended.stderr);
    let ended = get(&address, &["cds", "-v"]);
    assert!(ended.stderr.contains("WARN cannot connect"), "{}", ended.stderr);
    // Also a client that behaves like a proxy, which waits for its server.
    let files = TempDir::new();
    files.save("bootstrap.json", &proxy_bootstrap(&address).to_string());
    let file = files.join("bootstrap.json");
    let ended = run(&["get", "--proxy-bootstrap", file.to_str().unwrap(), "eds:one"]);
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);

    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let (_serve, fallback) = Xds::serve(directory.path());
    let ended = get(&address, &["--fallback", &fallback, "cds", "-o", "names"]);
    assert_eq!((ended.code, &*ended.stdout), (Some(0), "cds:one"), "{}", ended.stderr);
    // Only the log states that the fallback server is used.
    assert!(ended.stderr.contains("WARN cannot connect"), "{}", ended.stderr);
}

/// A server that accepts connections and says nothing was not reached as an xDS server.
#[test]
fn server_that_does_not_answer_exits_with_one() {
    let directory = TempDir::new();
    directory.save("cds.yaml", "{");
    let (serve, address) = Xds::serve(directory.path());
    serve.wait_count("not_ready", 1);
    let ended = get(&address, &["cds", "--timeout", "5s"]);
    assert_eq!((ended.code, &*ended.stdout), (Some(1), ""));
    let why = format!("xds: cds collection: no answer within 5s (server {address})");
    assert!(ended.stderr.contains(&why), "{}", ended.stderr);
}

#[test]
fn rejected_resource_exits_with_one() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("good=1s bad=0s"));
    let (_serve, address) = Xds::serve(directory.path());
    for wanted in
        [&["cds"][..], &["cds:bad", "cds:good", "--delta"], &["cds", "cds:none", "--delta"]]
    {
        let ended = get(&address, &[wanted, &["-o", "names"]].concat());
        assert_eq!((ended.code, &*ended.stdout), (Some(1), "cds:good"), "{wanted:?}");
        let why = "cds bad: invalid: connect_timeout: must be greater than 0s, is 0s";
        assert!(ended.stderr.contains(why), "{wanted:?}: {}", ended.stderr);
    }
    // gRPC clients do not check the constraints.
    let bootstrap = json!({
        "node": { "id": "n" },
        "xds_servers": [{ "server_uri": address, "channel_creds": [{ "type": "insecure" }] }],
    });
    directory.save(".bootstrap", &bootstrap.to_string());
    let file = directory.join(".bootstrap");
    let ended = run(&["get", "--bootstrap", file.to_str().unwrap(), "cds", "-o", "names"]);
    assert_eq!((ended.code, &*ended.stdout), (Some(0), "cds:bad\ncds:good"), "{}", ended.stderr);
    // A glob is not possible without the incremental variant.
    let glob = "lds:xdstp://eu/envoy.config.listener.v3.Listener/edge/*";
    let ended = get(&address, &[glob]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("incremental"), "{}", ended.stderr);
}

/// A server that does not have the service does not get it by waiting.
#[test]
fn server_without_discovery_exits_with_one() {
    let directory = TempDir::new();
    let (_serve, _, csds) = Xds::serve_with_csds(directory.path());
    let ended = get(&csds, &["cds", "--timeout", "1h"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("stream closed with status 12 (UNIMPLEMENTED)"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("is it that of --csds?"), "{}", ended.stderr);
}

/// The time of the connection is shorter than that of the command.
#[test]
fn silent_server_is_reported_with_what_it_did_not_send() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let ended = get(&address, &["cds:a", "--timeout", "5s"]);
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    assert!(ended.stderr.contains("no connection within 4.5s: "), "{}", ended.stderr);
    assert!(ended.stderr.contains("sent no HTTP/2 SETTINGS"), "{}", ended.stderr);
}

#[test]
fn fallback_is_tried_after_a_silent_server() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let (_serve, address) = Xds::serve(directory.path());
    let silent = silent.local_addr().unwrap().to_string();
    let ended = get(&silent, &["--fallback", &address, "cds:one", "-o", "names"]);
    assert_eq!((ended.code, &*ended.stdout), (Some(0), "cds:one"), "{}", ended.stderr);
}

/// Only a file that was read shows that a resource does not exist.
#[test]
fn file_that_is_not_read_in_time_exits_with_one() {
    let directory = TempDir::new();
    let names: Vec<_> = (0..20_000).map(|at| format!("one-{at}")).collect();
    directory.save("cds.yaml", &clusters(&names.join(" ")));
    let file = directory.join("cds.yaml");
    let args = ["get", "--file", file.to_str().unwrap(), "cds:one-7", "--timeout", "1ms"];
    let ended = run(&args);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let expected = format!("xds: cds one-7: {} was not read within 1ms", file.display());
    assert_eq!(ended.stderr, expected);
}

#[test]
fn polled_server_without_any_response_is_not_reached() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    for subscription in ["cds:a", "cds"] {
        let ended = get(&address, &[subscription, "--poll", "1s", "--timeout", "1s"]);
        assert_eq!(ended.code, Some(4), "{}", ended.stderr);
        assert!(ended.stderr.contains("no response within 900ms"), "{}", ended.stderr);
    }
}

#[test]
fn missing_resource_of_a_polled_server_does_not_exist() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let flags = ["--listen", "127.0.0.1:0", "--rest", "127.0.0.1:0"];
    let (serve, _) = Xds::serve_with(directory.path(), &flags);
    let serving = serve.wait_event("serving", |event| event["event"] == "serving");
    let rest = serving["rest"].as_str().unwrap();
    let ended = get(rest, &["cds:a", "--poll", "1s", "--timeout", "1500ms"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("cds a: does not exist: not received within 1.5s"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains("no response"), "{}", ended.stderr);
}

#[test]
fn polling_a_grpc_port_gives_advice() {
    let directory = TempDir::new();
    let (_serve, address) = Xds::serve(directory.path());
    let ended = get(&address, &["cds", "--poll", "1s", "--timeout", "2s"]);
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    assert!(ended.stderr.contains("status 14 (UNAVAILABLE)"), "{}", ended.stderr);
    assert!(ended.stderr.contains("is it a gRPC port?"), "{}", ended.stderr);
}

fn proxy_bootstrap(address: &str) -> Json {
    let (host, port) = address.rsplit_once(':').unwrap();
    let port: u16 = port.parse().unwrap();
    let socket = json!({ "socket_address": { "address": host, "port_value": port } });
    json!({
        "node": { "id": "proxy-1", "cluster": "edge" },
        "dynamic_resources": {
            "ads_config": {
                "api_type": "GRPC",
                "transport_api_version": "V3",
                "grpc_services": [{ "envoy_grpc": { "cluster_name": "xds" } }],
            },
            "cds_config": { "resource_api_version": "V3", "ads": {} },
        },
        "static_resources": { "clusters": [{ "name": "xds", "load_assignment": {
            "cluster_name": "xds",
            "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": socket } }] }],
        } }] },
    })
}

#[test]
fn resources_come_from_any_source() {
    let (files, directory) = (TempDir::new(), TempDir::new());
    directory.save("cds.yaml", &clusters("one"));
    let flags = ["--listen", "127.0.0.1:0", "--rest", "127.0.0.1:0", "--rest-hold", "1s"];
    let (serve, address) = Xds::serve_with(directory.path(), &flags);
    let serving = serve.wait_event("serving", |event| event["event"] == "serving");
    let rest = serving["rest"].as_str().unwrap();
    files.save("bootstrap.json", &proxy_bootstrap(&address).to_string());
    files.save("cds.yaml", &clusters("filed"));
    let path = |name: &str| files.join(name).to_str().unwrap().to_owned();
    let (bootstrap, file) = (path("bootstrap.json"), path("cds.yaml"));
    for (flags, expected) in [
        (["--server", rest, "--poll", "1s"].as_slice(), "cds:one"),
        (&["--proxy-bootstrap", &bootstrap], "cds:one\ncds:xds"),
        (&["--file", &file], "cds:filed"),
    ] {
        let ended = run(&[&["get", "cds", "-o", "names"], flags].concat());
        assert_eq!(
            (ended.code, &*ended.stdout),
            (Some(0), expected),
            "{flags:?}: {}",
            ended.stderr
        );
    }
    // A static resource has no version.
    let args = ["get", "--proxy-bootstrap", &bootstrap, "cds:xds", "-o", "ndjson"];
    let event: Json = serde_json::from_str(&run(&args).stdout).unwrap();
    assert_eq!((&event["static"], &event["version"]), (&json!(true), &Json::Null));
    // An unreadable file is reported with its place.
    files.save("cds.yaml", "resources: [{}]");
    let ended = run(&["get", "--file", &file, "cds", "-o", "ndjson"]);
    let event: Json = serde_json::from_str(&ended.stdout).unwrap();
    let place = [&event["file"], &event["line"], &event["column"]];
    assert_eq!(place, [&json!(file), &json!(1), &json!(13)]);
    assert_eq!(ended.code, Some(1));
}

/// Returns the JSON body of one request over HTTP/1.1, and its connection.
fn request(listener: &TcpListener) -> (Json, TcpStream) {
    let (stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (serde_json::from_slice(&body).unwrap(), reader.into_inner())
}

/// Node that `xds get` sends over REST-JSON.
fn sent_node(flags: &[&str]) -> Json {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let args = ["get", "--server", &address, "cds", "--poll", "1s"];
    let _get = Xds::spawn(&[&args, flags].concat());
    request(&listener).0["node"].take()
}

#[test]
fn node_flags_reach_the_server() {
    let node = sent_node(
        [
            ["--node-id", "me"],
            ["--node-cluster", "edge"],
            ["--locality", "eu/eu-1/rack"],
            ["--metadata", "role=ingress"],
            ["--metadata", r#"{"weights": [1, 2], "deep": {"on": true}}"#],
        ]
        .as_flattened(),
    );
    assert_eq!((&node["id"], &node["cluster"]), (&json!("me"), &json!("edge")));
    let locality = json!({ "region": "eu", "zone": "eu-1", "sub_zone": "rack" });
    assert_eq!(node["locality"], locality);
    let metadata = json!({ "deep": { "on": true }, "role": "ingress", "weights": [1, 2] });
    assert_eq!(node["metadata"].to_string().replace(".0", ""), metadata.to_string());
    // The default, and the aliases.
    assert_eq!(sent_node(&[])["id"], "xds-get");
    let node = sent_node(&["--node", "you", "--cluster", "core"]);
    assert_eq!((&node["id"], &node["cluster"]), (&json!("you"), &json!("core")));
}

#[test]
fn environment_variable_names_the_server() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let (_serve, address) = Xds::serve(directory.path());
    let ended = run_with(&["get", "cds", "-o", "names"], &[("XDS_SERVER", &address)]);
    assert_eq!((ended.code, &*ended.stdout), (Some(0), "cds:one"), "{}", ended.stderr);
    assert_eq!(ended.stderr, format!("xds: using the server {address} (XDS_SERVER)"));
    let ended = run_with(&["get", "cds"], &[("XDS_SERVER", "localhost")]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
}

#[test]
fn secrets_are_not_printed() {
    let directory = TempDir::new();
    directory.save(
        "sds.yaml",
        "\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\n\
         name: key\ngeneric_secret: { secret: { inline_string: hush } }\n",
    );
    let (_serve, address) = Xds::serve(directory.path());
    for format in ["yaml", "json", "ndjson", "textproto", "table", "names"] {
        let ended = get(&address, &["-vv", "-o", format, "sds:key"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stdout.contains("key"), "{format}: {}", ended.stdout);
        for output in [&ended.stdout, &ended.stderr] {
            assert!(!output.contains("hush") && !output.contains("aHVzaA"), "{format}: {output}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn interrupted_get_exits_with_130() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let (serve, address) = Xds::serve(directory.path());
    let mut get = Xds::spawn(&["get", "--server", &address, "eds:none", "--node-id", "me"]);
    serve.wait_row("eds", |row| row["node"] == "me");
    assert_eq!(get.signal("INT").code(), Some(130));
}
