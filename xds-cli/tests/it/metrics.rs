//! `xds serve --metrics`.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use crate::support::{TempDir, Xds, clusters, eventually, run};

/// Sends a request with this first line. Returns the status and the body.
pub(crate) fn request(address: &str, line: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("{line} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// Returns the value of a metric.
pub(crate) fn metric(address: &str, name: &str) -> Option<f64> {
    let (status, text) = request(address, "GET /metrics");
    assert_eq!(status, 200, "{text}");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.map(|value| value.parse().unwrap())
}

#[test]
fn metrics_and_readiness_are_served_over_http() {
    let directory = TempDir::new();
    directory.save("cds.yaml", "{");
    let flags = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
    let (serve, discovery) = Xds::serve_with(directory.path(), &flags);
    let serving = serve.wait_event("serving", |event| event["event"] == "serving");
    let address = serving["metrics"].as_str().unwrap();
    let (status, why) = request(address, "GET /ready");
    let broken = directory.join("cds.yaml").display().to_string();
    assert_eq!(
        (status, why.as_str()),
        (
            503,
            &*format!(
                "not ready: nothing is served until each of these files has been valid once: {broken}\n"
            )
        )
    );
    assert_eq!(metric(address, "xds_server_ready"), Some(0.0));
    assert_eq!(metric(address, "xds_source_invalid_objects"), Some(1.0));

    directory.replace("cds.yaml", &clusters("a b"));
    serve.wait_count("ready", 1);
    assert_eq!(request(address, "GET /ready"), (200, "ready\n".to_owned()));
    let watch = Xds::watch(&discovery, &["cds"]);
    watch.wait_count("changed", 2);
    eventually("an ACK", || match metric(address, "xds_server_acks_total") {
        Some(1.0) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    for (name, value) in [
        ("xds_server_ready", 1.0),
        ("xds_server_streams", 1.0),
        ("xds_server_resources", 2.0),
        ("xds_server_nacks_total", 0.0),
        ("xds_source_stale_seconds", 0.0),
        ("xds_source_invalid_objects", 0.0),
        ("xds_source_errors_total{kind=\"unavailable\"}", 0.0),
    ] {
        assert_eq!(metric(address, name), Some(value), "{name}");
    }
    assert_eq!(metric(address, "xds_source_revision"), None, "a directory has none to compare");
    assert_eq!(request(address, "GET /").0, 404);
    assert_eq!(request(address, "POST /metrics").0, 405);
}

#[test]
fn connections_are_counted_with_those_that_are_refused() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("a"));
    let metrics = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
    let limits = ["--max-connections-per-address", "1", "--max-request-bytes", "2000"];
    let limits = [&limits[..], &["--max-names", "1"]].concat();
    let (serve, discovery) = Xds::serve_with(directory.path(), &[&metrics[..], &limits].concat());
    let serving = serve.wait_event("serving", |event| event["event"] == "serving");
    let address = serving["metrics"].as_str().unwrap();
    let names = [
        "xds_server_connections",
        "xds_server_refused_connections_total{reason=\"too_many\"}",
        "xds_server_refused_connections_total{reason=\"too_many_of_one_address\"}",
        "xds_server_refused_requests_total",
        "xds_server_closed_connections_total{reason=\"silent\"}",
        "xds_server_incomplete_request_bytes",
        "xds_server_unread_response_bytes",
    ];
    let read = || names.map(|name| metric(address, name));
    assert_eq!(read(), [Some(0.0); 7]);

    let watch = Xds::watch(&discovery, &["cds"]);
    watch.wait_count("changed", 1);
    assert_eq!(metric(address, "xds_server_connections"), Some(1.0));
    drop(TcpStream::connect(&discovery).unwrap());
    eventually("a refused connection", || match read() {
        [Some(1.0), Some(0.0), Some(1.0), ..] => Ok(()),
        other => Err(format!("{other:?}")),
    });
    drop(watch);
    eventually("no connection", || match metric(address, "xds_server_connections") {
        Some(0.0) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let closed = |reason: &str| {
        let name = format!("xds_server_closed_streams_total{{reason=\"{reason}\"}}");
        metric(address, &name).unwrap()
    };
    eventually("an ended stream", || match closed("by_client") {
        1.0 => Ok(()),
        other => Err(other.to_string()),
    });
    assert_eq!(closed("too_many_names"), 0.0);
    run(&["get", "eds:a", "eds:b", "--server", &discovery, "--timeout", "1s"]);
    assert!(closed("too_many_names") >= 1.0);
    let (long, server) = ("x".repeat(3_000), ["--server", &discovery, "--timeout", "1s"]);
    run(&[&["get", "cds", "--node-id", &long], &server[..]].concat());
    eventually("a refused request", || {
        match metric(address, "xds_server_refused_requests_total") {
            Some(count) if count >= 1.0 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

#[test]
fn clients_that_send_nothing_do_not_keep_others_from_the_metrics() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("a"));
    let flags = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
    let (serve, _) = Xds::serve_with(directory.path(), &flags);
    let serving = serve.wait_event("serving", |event| event["event"] == "serving");
    let address = serving["metrics"].as_str().unwrap();
    let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    let started = Instant::now();
    assert_eq!(request(address, "GET /ready"), (200, "ready\n".to_owned()));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    drop(silent);
}

#[test]
fn directory_that_cannot_be_read_is_a_stale_source() {
    let directory = TempDir::new();
    let served = directory.join("served");
    fs::create_dir(&served).unwrap();
    fs::write(served.join("cds.yaml"), clusters("a")).unwrap();
    let rules = "rules:\n- view: default\n  when: { id: a-* }\n";
    directory.save("views.yaml", rules);
    let views = directory.join("views.yaml");
    let flags =
        ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--views", views.to_str().unwrap()];
    let (serve, _) = Xds::serve_with(&served, &flags);
    let serving = serve.wait_event("serving", |event| event["event"] == "serving");
    let address = serving["metrics"].as_str().unwrap();
    assert_eq!(metric(address, "xds_source_stale_seconds"), Some(0.0));
    fs::rename(&served, directory.join("away")).unwrap();
    let error = serve.wait_count("file_error", 1).remove(0);
    let expected = format!("{}: No such file or directory (os error 2)", served.display());
    assert_eq!(error["error"], expected);
    eventually("staleness", || match metric(address, "xds_source_stale_seconds") {
        Some(seconds) if seconds > 0.0 => Ok(()),
        other => Err(format!("{other:?}")),
    });
    // Other views do not mean that the directory can be read.
    let stale = metric(address, "xds_source_stale_seconds").unwrap();
    for (content, invalid) in [("{", 1.0), (rules, 0.0)] {
        directory.replace("views.yaml", content);
        eventually("views", || match metric(address, "xds_source_invalid_objects") {
            Some(count) if count == invalid => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
    assert!(metric(address, "xds_source_stale_seconds").unwrap() > stale);
    fs::rename(directory.join("away"), &served).unwrap();
    eventually("no staleness", || match metric(address, "xds_source_stale_seconds") {
        Some(0.0) => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

#[test]
fn address_of_metrics_that_cannot_be_used_is_named() {
    let directory = TempDir::new();
    let (_serve, taken) = Xds::serve(directory.path());
    let directory = directory.path().to_str().unwrap();
    for (address, words) in [(&*taken, &*taken), ("unix:/tmp/m.sock", "over TCP only")] {
        let flags = ["serve", directory, "--listen", "127.0.0.1:0", "--metrics", address];
        let ended = run(&flags);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
}

#[test]
fn failed_exports_are_counted() {
    let (directory, to) = (TempDir::new(), TempDir::new());
    directory.save("cds.yaml", &clusters("a"));
    let export = to.join("out");
    let flags = [
        "--listen",
        "127.0.0.1:0",
        "--metrics",
        "127.0.0.1:0",
        "--export",
        export.to_str().unwrap(),
    ];
    let (serve, _) = Xds::serve_with(directory.path(), &flags);
    let serving = serve.wait_event("serving", |event| event["event"] == "serving");
    let address = serving["metrics"].as_str().unwrap();
    let failures =
        |of: &str| metric(address, &format!("xds_server_write_failures_total{{of=\"{of}\"}}"));
    assert_eq!((failures("export"), failures("feedback")), (Some(0.0), Some(0.0)));
    fs::remove_dir_all(&export).unwrap();
    fs::write(&export, "").unwrap();
    directory.replace("cds.yaml", &clusters("a b"));
    eventually("a failed export", || match failures("export") {
        Some(1.0) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    serve.wait_stderr("cannot export the resources");
}
