//! `xds load` against `xds serve`.

use std::net::TcpListener;

use serde_json::Value as Json;

use crate::support::{TempDir, Xds, endpoints, run};

const CLUSTERS: &str = r#"resources:
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: a
  type: EDS
  eds_cluster_config: { eds_config: { ads: {}, resource_api_version: V3 } }
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: b
  connect_timeout: 1s
"#;

fn directory() -> TempDir {
    let directory = TempDir::new();
    directory.save("cds.yaml", CLUSTERS);
    directory.save("eds.yaml", &endpoints("a", &[80]));
    directory
}

/// Shell command that replaces the endpoints of `a` by one with the number of the change as port.
fn change(directory: &TempDir, templates: &TempDir) -> String {
    templates.save("template", &endpoints("a", &[123_456]));
    let (template, file) = (templates.join("template"), directory.join("eds.yaml"));
    let (template, file) = (template.display(), file.display());
    format!("sed s/123456/{{}}/ {template} > {template}.new && mv {template}.new {file}")
}

fn rounds(stdout: &str) -> Vec<Json> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn load(server: &str, options: &[&str]) -> Vec<Json> {
    let ended = run(&[&["load", server, "-o", "ndjson", "--settle", "300ms"], options].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    rounds(&ended.stdout)
}

#[test]
fn every_client_follows_references_and_acks_each_change() {
    let (directory, templates) = (directory(), TempDir::new());
    let (_server, address) = Xds::serve(directory.path());
    let change = change(&directory, &templates);
    for variant in [&[][..], &["--delta"]] {
        let options = ["--clients", "20", "--connections", "3", "--change", &change];
        let rounds = load(&address, &[&options[..], &["--changes", "2"], variant].concat());
        let names: Vec<_> = rounds.iter().map(|round| round["round"].as_str().unwrap()).collect();
        assert_eq!(names, ["start", "1", "2"], "{variant:?}");
        for round in &rounds {
            assert_eq!(round["open_streams"], 20, "{variant:?}: {round}");
            assert_eq!(round["nacks"], 0, "{variant:?}: {round}");
            assert_eq!(round["errors"], serde_json::json!({}), "{variant:?}: {round}");
            assert!(round["last_ms"].as_f64().unwrap() >= round["p50_ms"].as_f64().unwrap());
        }
        // Clusters, listeners and the endpoints of one cluster; then the endpoints.
        let acks: Vec<_> = rounds.iter().map(|round| round["acks"].as_u64().unwrap()).collect();
        assert!(acks[0] >= 40, "{variant:?}: {acks:?}");
        assert_eq!(acks[1..], [20, 20], "{variant:?}");
    }
}

#[test]
fn clients_nack_their_share_and_slow_ones_ack_late() {
    let directory = directory();
    let (_server, address) = Xds::serve(directory.path());
    let subscription = ["--clients", "10", "eds:a", "--changes", "0"];
    let all = load(&address, &[&subscription[..], &["--nack", "100%"]].concat());
    assert_eq!((&all[0]["acks"], &all[0]["nacks"]), (&0.into(), &10.into()), "{all:?}");
    let slow = ["--slow", "1", "--slow-by", "200ms"];
    let late = load(&address, &[&subscription[..], &slow].concat());
    assert_eq!((&late[0]["acks"], &late[0]["nacks"]), (&10.into(), &0.into()), "{late:?}");
    assert!(late[0]["p50_ms"].as_f64().unwrap() >= 200.0, "{late:?}");
}

#[test]
fn name_in_braces_is_the_number_of_the_client() {
    let directory = TempDir::new();
    directory.save("eds.yaml", &[0, 1, 2].map(|n| endpoints(&format!("c{n}"), &[80])).concat());
    let (server, address) = Xds::serve(directory.path());
    let mut load = Xds::spawn(&["load", &address, "eds:c{}", "--clients", "3", "--for", "60s"]);
    for client in 0..3 {
        let name = format!("xds-load-{client}");
        server.wait_row("eds", |row| row.to_string().contains(&name));
    }
    load.signal("INT");
}

#[test]
fn broken_connections_are_established_again() {
    let directory = directory();
    let (_server, address) = Xds::serve(directory.path());
    let storm = ["--reconnect-every", "2s", "--reconnect-share", "0.5", "--changes", "1"];
    let rounds = load(&address, &[&["--clients", "8", "--connections", "4"], &storm[..]].concat());
    let broken = &rounds[1]["errors"];
    let errors: u64 = broken.as_object().unwrap().values().map(|it| it.as_u64().unwrap()).sum();
    assert_eq!((errors, &rounds[1]["open_streams"]), (4, &8.into()), "{rounds:?}");
    assert!(broken.to_string().contains("--reconnect-every"), "{broken}");
}

#[test]
fn streams_that_wait_for_the_server_are_not_open() {
    let directory = directory();
    let (_server, address) = Xds::serve(directory.path());
    // The server allows 100 streams on a connection.
    let options = ["--clients", "103", "--connections", "1", "--for", "10s"];
    let ended = run(&[&["load", &address, "-o", "ndjson"], &options[..]].concat());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let why = "3 of 103 clients have no stream: 3 streams not accepted yet";
    assert!(ended.stderr.contains(why), "{}", ended.stderr);
    let round = rounds(&ended.stdout).remove(0);
    let counts = [&round["open_streams"], &round["waiting_streams"]].map(Json::as_u64);
    assert_eq!(counts, [Some(100), Some(3)], "{round}");
}

#[test]
fn refused_streams_are_counted_apart_from_errors() {
    let directory = directory();
    let (_server, _, csds) = Xds::serve_with_csds(directory.path());
    // It has no discovery service.
    let ended = run(&["load", &csds, "-o", "ndjson", "--clients", "2", "--for", "3s"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let round = rounds(&ended.stdout).remove(0);
    assert_eq!((&round["open_streams"], &round["errors"]), (&0.into(), &serde_json::json!({})));
    assert!(round["refused"].to_string().contains("UNIMPLEMENTED"), "{round}");
}

#[test]
fn unreachable_server_and_failed_change_are_errors() {
    let ended = run(&["load", "127.0.0.1:1", "--clients", "2", "--for", "500ms"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("2 of 2 clients have no stream: cannot connect"),
        "{}",
        ended.stderr
    );

    let directory = directory();
    let (_server, address) = Xds::serve(directory.path());
    let ended =
        run(&["load", &address, "--clients", "2", "--settle", "100ms", "--change", "exit 3"]);
    assert_eq!(ended.code, Some(1));
    let expected = "the command of change 1 failed: exit status: 3";
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);

    let ended = run(&["load", &address, "--nack", "2"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("expected a number from 0 to 1"), "{}", ended.stderr);
}

#[test]
fn server_that_answers_nothing_ends_the_command_with_the_reason() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let no_settings = "the server accepted the connection but sent no HTTP/2 SETTINGS";
    for limit in ["--round-limit", "--for"] {
        let ended = run(&["load", &address, "--clients", "2", limit, "2s"]);
        assert_eq!(ended.code, Some(1), "{limit}: {}", ended.stderr);
        let verdict = ended.stderr.lines().last().unwrap();
        assert!(verdict.starts_with("xds: 2 of 2 clients have no stream: "), "{limit}: {verdict}");
        assert!(verdict.contains(no_settings), "{limit}: {verdict}");
    }
}
