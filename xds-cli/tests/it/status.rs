//! `xds status` against real servers and clients, and against a stand-in for Envoy's admin
//! interface.

use core::{
    convert::Infallible,
    task::{Context, Poll},
};
use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use crate::support::{self, Ended, TempDir, Xds, clusters, eventually, free_address, run};
use serde_json::{Value as Json, json};
use tokio::runtime::{Builder, Runtime};
use tonic::{Status, body::Body, server::NamedService, service::Routes};
use tower_service::Service;
use xds_core::{
    client::{ClientConfig, Node, OpaqueType, ServerAddress},
    server::ServerConfig,
    types,
};
use xds_tokio::{
    ClientHandle, ClientOptions, Credentials, ManagementServer, ServerOptions,
    client::{self, GetError, http_get, open_calls},
    csds::CsdsService,
};

fn status(args: &[&str]) -> Ended {
    run(&[&["status"][..], args].concat())
}

/// Runs `xds status -o ndjson` and returns the events.
#[track_caller]
fn events(args: &[&str]) -> Vec<Json> {
    let ended = status(&[args, &["-o", "ndjson"]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns type, name and status of each resource.
#[track_caller]
fn rows(args: &[&str]) -> Vec<String> {
    let row = |it: &Json| {
        let text = |field: &str| it[field].as_str().unwrap().to_owned();
        format!("{} {} {}", text("type"), text("name"), text("status"))
    };
    events(args).iter().map(row).collect()
}

#[track_caller]
fn wait_rows(args: &[&str], expected: &[&str]) {
    eventually("rows", || {
        let rows = rows(args);
        if rows == expected { Ok(()) } else { Err(format!("{rows:?}")) }
    });
}

#[test]
fn resources_of_each_client_of_a_server_are_shown() {
    let directory = TempDir::new();
    directory.save("clusters.yaml", &clusters("a b"));
    directory.save("endpoints.yaml", &support::endpoints("a", &[80]));
    let (_serve, discovery, csds) = Xds::serve_with_csds(directory.path());
    assert_eq!(status(&[&csds]).stdout, "no clients");
    assert_eq!(status(&[&csds, "-o", "ndjson"]).stdout, "");

    let watch = Xds::watch(&discovery, &["cds", "eds:a", "eds:missing"]);
    watch.wait_count("changed", 3);
    let all = ["cds a SYNCED", "cds b SYNCED", "eds a SYNCED", "eds missing NOT_SENT"];
    wait_rows(&[&csds], &all);
    // The protocol is found out, also if the address says HTTP.
    wait_rows(&[&format!("http://{csds}")], &all);
    wait_rows(&[&csds, "eds:a", "cds:b"], &["cds b SYNCED", "eds a SYNCED"]);
    wait_rows(&[&csds, "--node", "test", "cds"], &all[..2]);
    wait_rows(&[&csds, "--node", "other"], &[]);
    wait_rows(&[&csds, "lds"], &[]);

    let event = &events(&[&csds, "cds:a"])[0];
    assert_eq!((&event["node"], &event["error"]), (&json!("test"), &Json::Null));
    assert_eq!(event["resource"]["connect_timeout"], "1s");
    assert!(event["last_updated"].as_str().unwrap().ends_with('Z'), "{event}");
    let version = event["version"].as_str().unwrap();
    let document: Json = serde_json::from_str(&status(&[&csds, "-o", "json"]).stdout).unwrap();
    assert_eq!(document["clients"][0]["resources"].as_array().unwrap().len(), 4);
    assert_eq!(document["clients"][0]["resources"][0]["version"], version);
    let yaml = status(&[&csds, "-o", "yaml", "cds:a"]).stdout;
    assert!(yaml.starts_with("---\n# test\n# cds a SYNCED version "), "{yaml}");
    assert!(yaml.ends_with("\nname: a\nconnect_timeout: 1s"), "{yaml}");

    let table = status(&[&csds]).stdout;
    let lines: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["test"]);
    assert_eq!(lines[1], ["TYPE", "NAME", "VERSION", "LAST", "UPDATED", "STATUS"]);
    assert_eq!((lines[2][..3].to_vec(), lines[2][4]), (vec!["cds", "a", version], "SYNCED"));
    assert_eq!(lines[5], ["eds", "missing", "-", "-", "NOT_SENT"]);
}

#[test]
fn rejected_resource_is_shown_with_the_reason() {
    let directory = TempDir::new();
    directory.save("clusters.yaml", &clusters("a=0s"));
    let (_serve, discovery, csds) = Xds::serve_with_csds(directory.path());
    let _watch = Xds::watch(&discovery, &["cds"]);
    wait_rows(&[&csds], &["cds a ERROR"]);
    let event = &events(&[&csds])[0];
    let details = event["error"]["details"].as_str().unwrap();
    assert!(details.contains("connect_timeout"), "{event}");
    assert_eq!(event["error"]["version"], event["version"]);
    let table = status(&[&csds]).stdout;
    let error = table.lines().last().unwrap();
    let begin = format!("      error in version {} at ", event["version"].as_str().unwrap());
    assert!(error.starts_with(&begin) && error.contains("connect_timeout"), "{table}");
}

#[test]
fn secrets_are_not_shown() {
    let directory = TempDir::new();
    directory.save(
        "all.yaml",
        "resources:\n\
         - \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\n  \
         name: key\n  generic_secret: { secret: { inline_string: hush } }\n\
         - \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: a\n  \
         transport_socket:\n    name: tls\n    typed_config:\n      \
         \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext\n      \
         common_tls_context:\n        tls_certificates:\n        \
         - { certificate_chain: { inline_string: chain }, private_key: { inline_string: hush } }\n",
    );
    let (_serve, discovery, csds) = Xds::serve_with_csds(directory.path());
    let watch = Xds::watch(&discovery, &["cds", "sds:key"]);
    watch.wait_count("changed", 2);
    wait_rows(&[&csds], &["cds a SYNCED", "sds key SYNCED"]);
    for format in ["table", "json", "ndjson", "yaml"] {
        let shown = status(&[&csds, "-o", format]).stdout;
        assert!(shown.contains("key") && !shown.contains("hush"), "{shown}");
        // The server omits the contents of a resource with a private key.
        assert!(!shown.contains("chain"), "{shown}");
    }
}

#[test]
fn two_servers_are_compared() {
    let (one, other) = (TempDir::new(), TempDir::new());
    one.save("clusters.yaml", &clusters("a b=1s c"));
    other.save("clusters.yaml", &clusters("a b=2s d"));
    let (_first, first_discovery, first) = Xds::serve_with_csds(one.path());
    let (_second, second_discovery, second) = Xds::serve_with_csds(other.path());
    let watches = [&first_discovery, &second_discovery].map(|it| Xds::watch(it, &["cds"]));
    watches.iter().for_each(|watch| drop(watch.wait_count("changed", 3)));
    wait_rows(&[&first], &["cds a SYNCED", "cds b SYNCED", "cds c SYNCED"]);
    wait_rows(&[&second], &["cds a SYNCED", "cds b SYNCED", "cds d SYNCED"]);

    let ended = status(&[&first, &second]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), "xds: 3 differences"));
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[..2], [format!("first   {first}"), format!("second  {second}")]);
    assert!(lines[2].starts_with("~ cds b version "), "{}", ended.stdout);
    assert_eq!(
        lines[3..],
        [
            "    connect_timeout: \"1s\" → \"2s\"",
            "- cds c only in the first, SYNCED",
            "+ cds d only in the second, SYNCED",
            "1 same, 1 different, 1 only in the first, 1 only in the second",
        ]
    );

    let ended = status(&[&first, &second, "-o", "ndjson", "cds:b", "cds:a"]);
    let events: Vec<Json> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(ended.code, Some(1));
    assert_eq!(events[0]["difference"], "content");
    assert_eq!(events[0]["fields"], json!(["connect_timeout: \"1s\" → \"2s\""]));
    assert_eq!(events[0]["first"]["status"], "SYNCED");
    assert_eq!((&events[1]["event"], &events[1]["same"]), (&json!("compared"), &json!(1)));
    assert_eq!(events.len(), 2);
    let document = status(&[&first, &second, "-o", "json"]).stdout;
    let document: Json = serde_json::from_str(&document).unwrap();
    let kinds: Vec<_> = document["differences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["difference"].as_str().unwrap())
        .collect();
    assert_eq!(
        (kinds, &document["same"]),
        (vec!["content", "only_first", "only_second"], &json!(1))
    );

    other.replace("clusters.yaml", &clusters("a b=1s c"));
    eventually("no difference", || {
        let ended = status(&[&first, &second]);
        let is_same = ended.code == Some(0) && ended.stdout.contains("\n3 same, 0 different");
        if is_same { Ok(()) } else { Err(ended.stdout) }
    });
}

/// Application with a client, which reports itself over CSDS.
struct Application {
    runtime: Runtime,
    _client: ClientHandle,
    csds: CsdsService,
}

impl Application {
    fn new(server: &str) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let _entered = runtime.enter();
        let config = ClientConfig::new(Node::new("app"), ServerAddress::new(server))
            .with_type(OpaqueType::new(types::CLUSTER));
        let client = client::connect(config, ClientOptions::default());
        let csds = CsdsService::new();
        csds.register("xds:///app", &client);
        let mut watch = client.watch_untyped(types::CLUSTER, "a");
        runtime.spawn(async move { while watch.next().await.is_some() {} });
        Self { runtime, _client: client, csds }
    }

    /// Serves routes. Returns the address.
    fn serve(&self, routes: Routes) -> String {
        let _entered = self.runtime.enter();
        let listener = self.runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
        self.runtime.spawn(server.serve_routes(listener, routes));
        address
    }
}

#[test]
fn own_view_of_a_client_is_compared_with_that_of_its_server() {
    let directory = TempDir::new();
    directory.save("clusters.yaml", &clusters("a b"));
    let (_serve, discovery, server) = Xds::serve_with_csds(directory.path());
    let application = Application::new(&discovery);
    let own = application.serve(Routes::new(application.csds.clone()));
    wait_rows(&[&own], &["cds a ACKED"]);
    assert_eq!(events(&[&own])[0]["scope"], "xds:///app");
    // Another client of the server does not matter.
    let watch = Xds::watch(&discovery, &["cds"]);
    watch.wait_count("changed", 2);
    wait_rows(&[&server], &["cds a SYNCED", "cds a SYNCED", "cds b SYNCED"]);
    let ended = status(&[&server, &own]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("\n1 same, 0 different, 0 only"), "{}", ended.stdout);
}

/// CSDS without its unary method.
#[derive(Clone)]
struct OnlyStream(CsdsService);

impl NamedService for OnlyStream {
    const NAME: &'static str = CsdsService::NAME;
}

impl Service<http::Request<Body>> for OnlyStream {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = <CsdsService as Service<http::Request<Body>>>::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if request.uri().path().ends_with("/FetchClientStatus") {
            let refusal = Status::unimplemented("only streams").into_http();
            return Box::pin(core::future::ready(Ok(refusal)));
        }
        self.0.call(request)
    }
}

#[test]
fn stream_is_used_where_the_unary_method_is_missing() {
    let directory = TempDir::new();
    directory.save("clusters.yaml", &clusters("a"));
    let (_serve, discovery) = Xds::serve(directory.path());
    let application = Application::new(&discovery);
    let own = application.serve(Routes::new(OnlyStream(application.csds.clone())));
    wait_rows(&[&own], &["cds a ACKED"]);
}

/// HTTP/1 server that answers every request with this status and body. Returns the address, and
/// sends the first line of each request.
fn http_server(status: &'static str, body: String) -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, lines) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.windows(4).any(|it| it == b"\r\n\r\n") {
                match connection.read(&mut buffer) {
                    Ok(count) if count > 0 => request.extend_from_slice(&buffer[..count]),
                    _ => break,
                }
            }
            let text = String::from_utf8_lossy(&request).into_owned();
            let (status, body) = match text.starts_with("GET ") {
                true => (status, body.as_str()),
                // The preface of HTTP/2.
                false => ("400 Bad Request", ""),
            };
            let _ = sender.send(text.lines().next().unwrap_or_default().to_owned());
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n");
            let _ = connection.write_all(format!("{head}{body}").as_bytes());
        }
    });
    (address, lines)
}

fn config_dump() -> String {
    let page = |kind: &str| format!("type.googleapis.com/envoy.admin.v3.{kind}ConfigDump");
    let secret = json!({
        "@type": types::SECRET, "name": "key",
        "generic_secret": { "secret": { "inline_string": "hush" } },
    });
    let cluster = json!({ "@type": types::CLUSTER, "name": "a", "connect_timeout": "1s" });
    let error = json!({ "details": "bad", "last_update_attempt": "2026-01-02T03:04:05.678Z" });
    json!({ "configs": [
        { "@type": page("Bootstrap"), "bootstrap": { "node": { "id": "envoy-1" } } },
        { "@type": page("Clusters"), "dynamic_active_clusters": [
            { "version_info": "7", "cluster": cluster, "last_updated": "2026-01-02T03:04:05.678Z" },
        ] },
        { "@type": page("Listeners"), "dynamic_listeners": [{ "name": "l", "error_state": error }] },
        { "@type": page("Secrets"), "dynamic_active_secrets": [
            { "name": "key", "version_info": "1", "secret": secret },
        ] },
    ] })
    .to_string()
}

#[test]
fn configuration_dump_of_an_admin_interface_is_read() {
    let (address, requests) = http_server("200 OK", config_dump());
    let url = format!("http://{address}");
    let expected = ["cds a ACKED", "lds l NACKED", "sds key ACKED"];
    assert_eq!(rows(&[&url]), expected);
    assert_eq!(requests.try_iter().collect::<Vec<_>>(), ["GET /config_dump?include_eds HTTP/1.1"]);
    // Without the scheme, gRPC is tried first.
    assert_eq!(rows(&[&address, "--node", "envoy-1"]), expected);
    let shown = status(&[&url, "-o", "yaml"]).stdout;
    assert!(shown.contains("name: key") && !shown.contains("hush"), "{shown}");
    assert_eq!(events(&[&url, "lds"])[0]["error"]["details"], "bad");

    // The only client on each side is the same one.
    let directory = TempDir::new();
    directory.save("clusters.yaml", &clusters("a"));
    let (_serve, discovery, csds) = Xds::serve_with_csds(directory.path());
    let watch = Xds::watch(&discovery, &["cds"]);
    watch.wait_count("changed", 1);
    wait_rows(&[&csds], &["cds a SYNCED"]);
    assert_eq!(status(&[&csds, &address, "cds"]).code, Some(0));
}

#[test]
fn endpoint_without_status_is_an_error() {
    let directory = TempDir::new();
    let (_serve, discovery) = Xds::serve(directory.path());
    let (missing, _) = http_server("404 Not Found", String::new());
    let (other, _) = http_server("200 OK", "<html>".to_owned());
    let url = format!("http://{missing}");
    for (address, words) in [
        (
            &discovery,
            "no client status service (CSDS) at this address; `xds serve` offers it on that of --csds",
        ),
        (&missing, "/config_dump?include_eds: it is no admin interface of Envoy"),
        (&url, "HTTP 404 Not Found for /config_dump"),
        (&other, "not a configuration dump of Envoy"),
    ] {
        let ended = status(&[address]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let begin = format!("xds: cannot read the status of {address}: ");
        assert!(ended.stderr.starts_with(&begin), "{}", ended.stderr);
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
}

#[test]
fn exit_code_states_what_is_wrong() {
    // Bound, and not listening any more.
    let gone = free_address();
    for (args, code, words) in [
        (&[&*gone][..], 4, "cannot reach "),
        (&[&format!("http://{gone}")], 4, "cannot reach http://"),
        (&[&gone, "--watch"], 4, "cannot reach "),
        (&[&gone, &gone], 4, "cannot reach "),
        (&["unix:/nowhere/csds.sock"], 4, "cannot reach unix:"),
        (&["no-port"], 3, "no-port"),
        (&["a.invalid:1"], 3, "cannot resolve"),
        (&[], 2, "<ADDR>"),
        (&[&gone, "xyz"], 2, "neither an address nor a type"),
        (&[&gone, &gone, "--watch"], 2, "--watch"),
        (&[&gone, &gone, "-o", "yaml"], 2, "-o yaml"),
        (&[&gone, "--watch", "-o", "json"], 2, "-o json"),
        (&[&gone, "--watch=1ms"], 2, "at least 100ms"),
        (&[&gone, "--for", "1s"], 2, "--watch"),
        (&[&gone, "--ca", "/nowhere/ca.pem"], 1, "--ca: "),
    ] {
        let ended = status(args);
        assert_eq!(ended.code, Some(code), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(words), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn changes_are_printed_while_watching() {
    let directory = TempDir::new();
    directory.save("clusters.yaml", &clusters("a b"));
    let (mut server, discovery, csds) = Xds::serve_with_csds(directory.path());
    let watch = Xds::watch(&discovery, &["cds"]);
    watch.wait_count("changed", 2);
    wait_rows(&[&csds], &["cds a SYNCED", "cds b SYNCED"]);
    let follow = |more: &[&str]| {
        Xds::spawn(&[&["status", &csds, "--watch=100ms", "--for", "60s"][..], more].concat())
    };
    let (mut events, lines) = (follow(&["-o", "ndjson"]), follow(&[]));
    let first = events.wait_count("resource", 2);
    lines.wait_stdout("+ test  cds b SYNCED version ");

    directory.replace("clusters.yaml", &clusters("a=2s"));
    let changed = events.wait_event("a change", |event| {
        event["name"] == "a"
            && event["status"] == "SYNCED"
            && event["version"] != first[0]["version"]
    });
    assert_eq!(changed["resource"]["connect_timeout"], "2s");
    events.wait_event("a removal", |event| event["event"] == "removed" && event["name"] == "b");
    lines.wait_stdout("~ test  cds a SYNCED version ");
    lines.wait_stdout("- test  cds b");

    server.kill();
    events.wait_stderr("xds: cannot reach ");
    lines.wait_stderr("xds: cannot reach ");
    assert!(events.is_running(), "an endpoint may come back");
    #[cfg(unix)]
    assert_eq!(events.signal("INT").code(), Some(130));
}

#[test]
fn responses_are_limited() {
    let directory = TempDir::new();
    directory.save("clusters.yaml", &clusters("a"));
    let (_serve, discovery, csds) = Xds::serve_with_csds(directory.path());
    let watch = Xds::watch(&discovery, &["cds"]);
    watch.wait_count("changed", 1);
    wait_rows(&[&csds], &["cds a SYNCED"]);
    let (http, _requests) = http_server("200 OK", "0123456789".to_owned());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let options = ClientOptions::default();
    let service = |address: &str, limit| {
        client::Service::new(address, Credentials::default()).with_max_response_bytes(limit)
    };
    runtime.block_on(async {
        const FETCH: &str =
            "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";
        for (limit, expected) in [(1 << 20, None), (10, Some(tonic::Code::OutOfRange))] {
            let calls = open_calls(service(&csds, limit), &options).await.unwrap();
            let answer = calls.call(FETCH, Vec::new().into()).await;
            assert_eq!(answer.as_ref().err().map(Status::code), expected, "{answer:?}");
        }
        let answer = http_get(&service(&http, 10), &options, "/").await.unwrap();
        assert_eq!((answer.status.as_u16(), &answer.body[..]), (200, &b"0123456789"[..]));
        let answer = http_get(&service(&http, 9), &options, "/").await;
        assert!(matches!(answer, Err(GetError::TooLarge(9))), "{answer:?}");
    });
}

#[test]
fn silent_port_is_given_up_after_one_attempt() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let ended = status(&[&address, "--timeout", "500ms"]);
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    assert!(ended.stderr.contains("no response within 500ms"), "{}", ended.stderr);
    // The other protocol would need a connection of its own.
    listener.set_nonblocking(true).unwrap();
    let connections = core::iter::from_fn(|| listener.accept().ok()).count();
    assert_eq!(connections, 1);
}

#[test]
fn server_that_is_not_ready_states_what_it_waits_for() {
    let directory = TempDir::new();
    directory.save("cds.yaml", "{");
    let (serve, _, csds) = Xds::serve_with_csds(directory.path());
    serve.wait_count("not_ready", 1);
    let reason = "not ready: nothing is served until each of these files has been valid once: ";
    for args in [&["status", &csds][..], &["status", &csds, &csds, "--replicas"]] {
        eventually("the reason", || {
            let ended = run(args);
            let is_stated = ended.stdout.contains(reason) && ended.stdout.contains("cds.yaml");
            is_stated
                .then_some(())
                .ok_or_else(|| format!("{args:?}: {}{}", ended.stdout, ended.stderr))
        });
    }
    directory.replace("cds.yaml", &clusters("a"));
    serve.wait_count("ready", 1);
    eventually("no reason", || {
        let ended = run(&["status", &csds]);
        (!ended.stdout.contains("not ready")).then_some(()).ok_or(ended.stdout)
    });
}
