//! `xds watch`: its three output formats, and its behaviour as a client.

use crate::support::{
    self, TempDir, Xds, clusters, endpoints, free_address, run_with, without_time,
};
use serde_json::{Value as Json, json};
use xds_format::{Format, Schema};

#[test]
fn ndjson_events_have_their_documented_fields() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    directory.save("eds.yaml", &endpoints("one", &[8080]));
    let (serve, address) = Xds::serve(directory.path());
    let watch = Xds::watch(&address, &["cds", "eds:one"]);
    watch.wait_count("changed", 2);
    let version = serve.wait_row("cds", |row| row["state"] == "ACKED")["acked"].clone();
    let of = |events: &[Json], type_name: &str| {
        events.iter().find(|event| event["type"] == type_name).cloned().unwrap()
    };
    let changed = of(&watch.events(), "cds");
    let resource = json!({
        "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        "name": "one",
        "connect_timeout": "1s",
    });
    let expected = json!({ "event": "changed", "type": "cds", "name": "one", "version": version, "resource": resource });
    assert_eq!(without_time(changed), expected);
    let port = "/resource/endpoints/0/lb_endpoints/0/endpoint/address/socket_address/port_value";
    assert_eq!(of(&watch.events(), "eds").pointer(port), Some(&json!(8080)));

    directory.replace("cds.yaml", &clusters("two"));
    let removed = watch.wait_event("removed", |event| event["event"] == "removed");
    assert_eq!((&removed["type"], &removed["name"]), (&json!("cds"), &json!("one")));
    assert!(removed["error"].as_str().unwrap().contains("deleted by the server"), "{removed}");
}

#[test]
fn subscription_is_for_one_name_or_a_wildcard() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one two"));
    let (serve, address) = Xds::serve(directory.path());
    let _watch = Xds::watch(
        &address,
        &["cds:one", "cds:two", "cds:one", "type.googleapis.com/envoy.config.listener.v3.Listener"],
    );
    serve.wait_row("cds", |row| row["subscribed"] == 2);
    serve.wait_row("lds", |row| row["subscribed"] == "*");
}

#[test]
fn xdstp_names_are_served_and_globs_need_the_incremental_variant() {
    let directory = TempDir::new();
    let name = "xdstp://eu/envoy.config.cluster.v3.Cluster/web/one";
    directory.save("cds.yaml", &clusters(name));
    let (serve, address) = Xds::serve(directory.path());
    let glob = "cds:xdstp://eu/envoy.config.cluster.v3.Cluster/web/*";
    let watch = Xds::watch(&address, &[&format!("cds:{name}"), glob]);
    let changed = watch.wait_event("changed", |event| event["event"] == "changed");
    assert_eq!(changed["name"], json!(name));
    let refused = watch.wait_event("error", |event| event["event"] == "error");
    assert_eq!(Some(refused["name"].as_str().unwrap()), glob.strip_prefix("cds:"));
    assert!(refused["error"].as_str().unwrap().contains("incremental"), "{refused}");
    serve.wait_row("cds", |row| row["subscribed"] == 1);
}

#[test]
fn lost_server_is_reported_and_reconnected() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let (mut serve, address) = Xds::serve(directory.path());
    let watch = Xds::watch(&address, &["cds", "eds:missing"]);
    watch.wait_count("changed", 1);
    serve.kill();
    // The cluster stays in use; the endpoints never arrived.
    let ambient = watch.wait_event("ambient", |event| {
        event["event"] == "ambient" && event["type"] == "cds" && event["name"].is_null()
    });
    assert!(ambient["error"].as_str().unwrap().contains(&address), "{ambient}");
    let error = watch.wait_event("error", |event| event["event"] == "error");
    assert_eq!((&error["type"], &error["name"]), (&json!("eds"), &json!("missing")));

    directory.save("eds.yaml", &endpoints("missing", &[1]));
    let (_serve, _) = Xds::serve_on(directory.path(), &address);
    watch
        .wait_event("all is well", |event| event["event"] == "ambient" && event["error"].is_null());
    let changed = watch.wait_count("changed", 2);
    assert_eq!(changed[1]["name"], "missing", "the cluster is the same and not printed again");
}

#[test]
fn whole_type_without_an_answer_is_reported_with_the_reason() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("a"));
    let (_serve, address) = Xds::serve(directory.path());
    let watch = Xds::watch(&address, &["eds"]);
    let error = watch.wait_event("error", |event| event["event"] == "error");
    assert_eq!((&error["type"], &error["name"]), (&json!("eds"), &Json::Null));
    let text = error["error"].as_str().unwrap();
    assert!(text.contains("no answer within 15 s: without --delta, servers need not"), "{text}");
    directory.save("eds.yaml", &endpoints("a", &[80]));
    watch.wait_count("changed", 1);
}

#[test]
fn unreachable_server_is_reported_and_retried() {
    let free = free_address();
    let watch = Xds::watch(&free, &["cds"]);
    let error = watch.wait_event("error", |event| event["event"] == "error");
    assert_eq!((&error["type"], &error["name"]), (&json!("cds"), &Json::Null));
    assert!(error["error"].as_str().unwrap().contains("cannot connect"), "{error}");

    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let (_serve, _) = Xds::serve_on(directory.path(), &free);
    watch.wait_count("changed", 1);
    assert_eq!(watch.stderr(), "", "the error is an event and not logged, too");
}

#[test]
fn secrets_are_not_printed() {
    let directory = TempDir::new();
    directory.save(
        "sds.yaml",
        "\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\n\
         name: key\ngeneric_secret: { secret: { inline_string: hush } }\n",
    );
    let (serve, address) = Xds::serve(directory.path());
    for format in ["ndjson", "yaml", "text"] {
        let args = ["watch", "-vv", "--server", &address, "-o", format, "sds:key"];
        let watch = Xds::spawn(&args);
        watch.wait_stdout("key");
        serve.wait_row("sds", |row| row["state"] == "ACKED");
        watch.wait_stderr("T=sds");
        for output in [watch.stdout(), watch.stderr(), serve.stdout(), serve.stderr()] {
            assert!(!output.contains("hush") && !output.contains("aHVzaA"), "{output}");
        }
    }
}

#[test]
fn yaml_output_can_be_parsed() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one two"));
    let (_serve, address) = Xds::serve(directory.path());
    let watch = Xds::spawn(&["watch", "--server", &address, "-o", "yaml", "cds"]);
    watch.wait_stdout("name: two");
    watch.wait_stdout("added cds one, version ");
    let printed = watch.stdout();
    let document =
        xds_format::parse(Schema::envoy(), "stdout", Format::Yaml, printed.as_bytes()).unwrap();
    let names: Vec<_> = document.resources.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);

    directory.replace("cds.yaml", &clusters("one"));
    watch.wait_stdout("removed cds two: does not exist: deleted by the server");
}

#[test]
fn text_shows_which_fields_changed() {
    let directory = TempDir::new();
    directory.save("eds.yaml", &endpoints("one", &[1, 2]));
    directory.save("cds.yaml", &clusters("good=1s bad=0s"));
    let (_serve, address) = Xds::serve(directory.path());
    let args = ["watch", "--server", &address, "--node", "me", "cds", "eds:one"];
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut watch = Xds::spawn(&args);
    watch.wait_stdout(&format!("watching cds *, eds one on {address} as me"));
    watch.wait_stdout("+ eds one  2 endpoints  version ");
    watch.wait_stdout("! cds bad  invalid: connect_timeout: must be greater than 0s, is 0s");
    directory.replace("eds.yaml", &endpoints("one", &[1, 2, 3]));
    watch.wait_stdout("~ eds one  version ");
    watch.wait_stdout("+ endpoints[0].lb_endpoints[2]: {");
    directory.replace("eds.yaml", &endpoints("one", &[1, 2, 4]));
    watch.wait_stdout(
        "endpoints[0].lb_endpoints[2].endpoint.address.socket_address.port_value: 3 → 4",
    );
    directory.replace("cds.yaml", &clusters("bad=0s"));
    watch.wait_stdout("- cds good  does not exist: deleted by the server");
    #[cfg(unix)]
    {
        assert_eq!(watch.signal("INT").code(), Some(0));
        let last = watch.stdout().lines().last().unwrap().to_owned();
        assert!(last.ends_with("5 responses, 3 ACKs, 2 NACKs"), "{last}");
    }
}

/// Proxies reject a resource that violates a constraint of the API; gRPC clients do not check them.
// X39
#[test]
fn proxy_clients_validate_constraints_and_grpc_clients_do_not() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("good=1s bad=0s"));
    let (_serve, address) = Xds::serve(directory.path());
    let bootstrap = format!(
        r#"{{"node": {{"id": "n"}}, "xds_servers": [{{"server_uri": "{address}", "channel_creds": [{{"type": "insecure"}}]}}]}}"#
    );
    directory.save(".bootstrap", &bootstrap);
    let file = directory.join(".bootstrap");
    let grpc = ["watch", "--bootstrap", file.to_str().unwrap(), "-o", "ndjson", "cds"];
    let grpc = Xds::spawn(&grpc);
    let taken = grpc.wait_count("changed", 2);
    assert!(taken.iter().any(|it| it["name"] == "bad"), "{taken:?}");
    let proxy = Xds::spawn(&["watch", "--server", &address, "-o", "ndjson", "cds"]);
    proxy.wait_event("error", |event| event["name"] == "bad");
    proxy.wait_count("changed", 1);
    println!("covers: X39 B15 S4.032");
}

#[test]
fn file_is_watched_without_a_server() {
    let directory = TempDir::new();
    let path = directory.path().join("cds.yaml");
    let path = path.to_str().unwrap();
    let watch = Xds::spawn(&["watch", "--file", path, "-o", "ndjson", "cds"]);
    let missing = watch.wait_event("error", |event| event["event"] == "error");
    assert!(missing["error"].as_str().unwrap().contains(path), "{missing}");
    assert_eq!((&missing["file"], missing.get("line")), (&json!(path), None));
    directory.save("cds.yaml", &clusters("one two"));
    watch.wait_count("changed", 2);
    directory.save("cds.yaml", "resources: [{}]");
    let broken = watch
        .wait_event("ambient", |event| event["event"] == "ambient" && !event["error"].is_null());
    let place = format!("{path}:1:13: resources[0]: missing");
    assert!(broken["error"].as_str().unwrap().contains(&place), "{broken}");
    let fields = [&broken["file"], &broken["line"], &broken["column"]];
    assert_eq!(fields, [&json!(path), &json!(1), &json!(13)]);
    watch.wait_stderr("cannot read a file");
    directory.replace("cds.yaml", &clusters("two bad=0s"));
    watch.wait_stderr("rejected a response");
    directory.replace("cds.yaml", &clusters("two"));
    let removed = watch.wait_event("removed", |event| event["event"] == "removed");
    assert_eq!(removed["name"], json!("one"), "not by the content that was rejected");
}

#[test]
fn text_lines_begin_with_the_time_and_are_not_folded_for_a_pipe() {
    let directory = TempDir::new();
    let name = format!("cluster-{}", "long".repeat(40));
    directory.save("cds.yaml", &clusters(&name));
    let (_serve, address) = Xds::serve(directory.path());
    let watch = Xds::spawn(&["watch", "--server", &address, "cds"]);
    watch.wait_stdout(&name);
    let stdout = watch.stdout();
    assert_eq!(stdout.lines().count(), 2, "{stdout}");
    for line in stdout.lines() {
        let (time, _) = line.split_once("  ").unwrap();
        without_time(json!({ "time": time }));
    }
}

#[test]
fn environment_variable_and_default_address_name_the_server() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let (_serve, address) = Xds::serve(directory.path());
    let variable = [("XDS_SERVER", &*address)];
    let watch = Xds::spawn_with(&["watch", "-o", "ndjson", "cds"], &variable);
    watch.wait_count("changed", 1);
    watch.wait_stderr(&format!("xds: using the server {address} (XDS_SERVER)"));
    // The flag is stronger, and is not announced.
    let args = ["watch", "--server", &address, "-o", "ndjson", "cds"];
    let watch = Xds::spawn_with(&args, &[("XDS_SERVER", "127.0.0.1:1")]);
    watch.wait_count("changed", 1);
    assert_eq!(watch.stderr(), "");
    let ended = run_with(&["watch", "--for", "100ms", "cds"], &[]);
    let note = "xds: using the server 127.0.0.1:18000 (default; --server or XDS_SERVER selects";
    assert!(ended.stderr.contains(note), "{}", ended.stderr);
}

#[test]
fn watch_ends_after_its_duration() {
    let ended = support::run(&["watch", "--server", "127.0.0.1:1", "--for", "100ms", "cds"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn unresolvable_server_does_not_prevent_the_start() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let (_serve, address) = Xds::serve(directory.path());
    let nowhere = "no-such-host.invalid:1";
    for [server, fallback] in [[&*address, nowhere], [nowhere, &*address]] {
        let args = ["watch", "--server", server, "--fallback", fallback, "-o", "ndjson", "cds"];
        let watch = Xds::spawn(&args);
        assert_eq!(watch.wait_count("changed", 1)[0]["name"], "one");
        watch.wait_stderr("cannot resolve no-such-host.invalid:1");
    }
    let ended =
        support::run(&["watch", "--server", nowhere, "--fallback", "no-other.invalid:1", "cds"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    // An invalid address is an error, even of a fallback server.
    let ended = support::run(&["watch", "--server", &address, "--fallback", "a b", "cds"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
}
