//! `xds serve` as a service of the system: its log, the service manager, and the end.

#![cfg(unix)]

use std::{os::unix::net::UnixDatagram, time::Duration};

use serde_json::Value as Json;

use crate::{
    metrics::request,
    support::{TempDir, Xds, clusters, eventually, run},
};

#[test]
fn json_log_has_an_object_on_each_line_of_standard_error() {
    let directory = TempDir::new();
    directory.save("cds.yaml", "{");
    let served = directory.path().to_str().unwrap();
    let mut serve =
        Xds::spawn(&["serve", served, "--listen", "127.0.0.1:0", "--log-format", "json"]);
    serve.wait_stderr("cds.yaml");
    serve.signal("TERM");
    let lines = |text: &str| -> Vec<Json> {
        text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    };
    let lines_of_serve = lines(&serve.stderr());
    let [error, not_ready] = &lines_of_serve[..] else { panic!("{lines_of_serve:?}") };
    for (line, level, text) in [(error, "ERROR", "error: "), (not_ready, "WARN", "not ready: ")] {
        assert!(line["timestamp"].is_string(), "{line}");
        assert_eq!(line["level"], level, "{line}");
        assert!(line["message"].as_str().unwrap().starts_with(text), "{line}");
    }

    let failed = run(&["serve", served, "--listen", "nowhere", "--log-format", "json"]);
    assert_eq!(failed.code, Some(3));
    let [failure] = &lines(&failed.stderr)[..] else { panic!("one line: {}", failed.stderr) };
    assert_eq!(failure["level"], "ERROR");
    assert!(
        failure["message"].as_str().unwrap().starts_with("xds: cannot listen on nowhere"),
        "{failure}"
    );
}

#[test]
fn json_log_has_the_fields_of_events() {
    let (_, address) = (TempDir::new(), crate::support::free_address());
    let watch = Xds::spawn(&["watch", "--server", &address, "cds", "-v", "--log-format", "json"]);
    watch.wait_stderr("reason");
    let stderr = watch.stderr();
    let lines = stderr.lines().map(|line| serde_json::from_str::<Json>(line).expect(line));
    let failed: Vec<_> = lines.filter(|line| line["reason"].is_string()).collect();
    assert!(
        failed.iter().all(|it| it["target"].is_string() && it["message"].is_string()),
        "{stderr}"
    );
}

#[test]
fn service_manager_is_notified_of_readiness_and_of_the_end() {
    let (directory, run) = (TempDir::new(), TempDir::new());
    directory.save("cds.yaml", "{");
    let path = run.join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(25))).unwrap();
    let next = || {
        let mut text = [0; 4096];
        let length = socket.recv(&mut text).unwrap();
        String::from_utf8(text[..length].to_vec()).unwrap()
    };
    let served = directory.path().to_str().unwrap();
    let mut serve = Xds::spawn_with(
        &["serve", served, "--listen", "127.0.0.1:0"],
        &[("NOTIFY_SOCKET", path.to_str().unwrap())],
    );
    let waiting = next();
    assert!(waiting.starts_with("STATUS=nothing is served until"), "{waiting}");
    assert!(waiting.contains("cds.yaml") && !waiting.contains("READY"), "{waiting}");

    directory.replace("cds.yaml", &clusters("a b"));
    assert_eq!(next(), "READY=1\nSTATUS=serving 2 resources\n");
    directory.replace("cds.yaml", &clusters("a"));
    assert_eq!(next(), "STATUS=serving 1 resource\n");
    serve.signal("TERM");
    assert_eq!(next(), "STOPPING=1\nSTATUS=disconnecting clients\n");
}

#[test]
#[cfg(target_os = "linux")]
fn service_manager_may_have_an_abstract_address() {
    use std::os::{linux::net::SocketAddrExt as _, unix::net::SocketAddr};

    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("a"));
    let name = format!("xds-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let socket = UnixDatagram::bind_addr(&address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(25))).unwrap();
    let served = directory.path().to_str().unwrap();
    let _serve = Xds::spawn_with(
        &["serve", served, "--listen", "127.0.0.1:0"],
        &[("NOTIFY_SOCKET", &format!("@{name}"))],
    );
    let mut text = [0; 4096];
    let length = socket.recv(&mut text).unwrap();
    assert!(text[..length].starts_with(b"READY=1\n"));
}

#[test]
fn clients_stay_connected_for_the_drain_time_unless_a_second_signal_arrives() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("a"));
    let flags = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--drain-time", "1h"];
    let (mut serve, address) = Xds::serve_with(directory.path(), &flags);
    let serving = serve.wait_event("serving", |event| event["event"] == "serving");
    let metrics = serving["metrics"].as_str().unwrap();
    let watch = Xds::watch(&address, &["cds"]);
    watch.wait_count("changed", 1);
    serve.send_signal("TERM");
    eventually("the end of readiness", || match request(metrics, "GET /ready") {
        (503, _) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let (_, text) = request(metrics, "GET /metrics");
    assert!(text.contains("xds_server_streams 1\n"), "the stream is open: {text}");
    assert!(serve.is_running());
    assert_eq!(serve.signal("TERM").code(), Some(0));
}
