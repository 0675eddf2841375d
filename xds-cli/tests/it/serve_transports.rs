//! `xds serve`: the ways in which clients connect and request resources.

use std::{fs, path::Path};

use crate::support::{TempDir, Xds, clusters, endpoints};
use serde_json::{Value as Json, json};

#[test]
fn every_variant_and_stream_kind_is_served_and_has_rows() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one two"));
    directory.save("eds.yaml", &endpoints("one", &[1]));
    let (serve, address) = Xds::serve(directory.path());
    let ways: [(&str, &[&str]); 4] = [
        ("whole", &[]),
        ("whole-apart", &["--per-type"]),
        ("delta", &["--delta"]),
        ("delta-apart", &["--delta", "--per-type"]),
    ];
    let watches: Vec<Xds> = ways
        .iter()
        .map(|(node, flags)| {
            let base = ["watch", "--server", &address, "--node", node, "-o", "ndjson"];
            Xds::spawn(&[&base[..], flags, &["cds", "eds:one"]].concat())
        })
        .collect();
    for watch in &watches {
        watch.wait_count("changed", 3);
    }
    let first: Vec<Json> = ways
        .iter()
        .map(|(node, _)| {
            let row = serve.wait_row("cds", |row| row["node"] == *node && row["state"] == "ACKED");
            assert_eq!((&row["subscribed"], &row["sent"]), (&json!("*"), &row["acked"]), "{row}");
            let eds = serve.wait_row("eds", |row| row["node"] == *node && row["state"] == "ACKED");
            assert_eq!(
                (eds["subscribed"].as_u64(), eds["stream"] == row["stream"]),
                (Some(1), !node.ends_with("apart"))
            );
            row
        })
        .collect();
    // The version depends on the content only, not on the variant or transport.
    assert!(first.iter().all(|row| row["sent"] == first[0]["sent"]), "{first:?}");
    directory.replace("cds.yaml", &clusters("one=2s two"));
    for (node, _) in ways {
        let row = serve.wait_row("cds", |row| row["node"] == *node && row["acks"] == 2);
        assert_eq!((&row["sent"], &row["responses"]), (&row["acked"], &json!(2)), "{row}");
        assert_ne!(row["sent"], first[0]["sent"]);
    }
}

/// A polling client gets the same resources over REST-JSON.
#[test]
fn rest_is_served_in_parallel_to_grpc() {
    let directory = TempDir::new();
    directory.save("clusters.yaml", &clusters("a"));
    let flags = ["--listen", "127.0.0.1:0", "--rest", "127.0.0.1:0", "--rest-hold", "2s"];
    let (serve, _) = Xds::serve_with(directory.path(), &flags);
    let serving = serve.wait_event("serving", |event| event["event"] == "serving");
    let address = serving["rest"].as_str().unwrap().to_owned();
    let watch = Xds::watch(&address, &["--poll", "50ms", "cds"]);
    watch.wait_event("a", |event| event["event"] == "changed" && event["name"] == "a");
    directory.replace("clusters.yaml", &clusters("b"));
    watch.wait_event("b", |event| event["event"] == "changed" && event["name"] == "b");
    println!("covers: M180 S0.199");
}

/// Socket files serve clients as TCP does. They belong to the owner and are removed
/// with the server.
#[cfg(unix)]
#[test]
fn unix_sockets_serve_grpc_and_rest_and_are_removed_at_exit() {
    use std::os::unix::fs::PermissionsExt as _;

    let (directory, sockets) = (TempDir::new(), TempDir::new());
    directory.save("cds.yaml", &clusters("one"));
    let [listen, rest] =
        ["s", "r"].map(|name| format!("unix:{}", sockets.join(name).to_str().unwrap()));
    let (mut serve, address) =
        Xds::serve_with(directory.path(), &["--listen", &listen, "--rest", &rest]);
    assert_eq!(address, listen);
    let serving = serve.wait_event("serving", |event| event["event"] == "serving");
    assert_eq!(serving["rest"], rest);
    let mode = fs::metadata(sockets.join("s")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for (server, flags) in [(&listen, &["cds"][..]), (&rest, &["cds", "--poll", "100ms"])] {
        let watch = Xds::watch(server, flags);
        watch.wait_event("the cluster", |event| event["name"] == "one");
    }

    let directory = directory.path().to_str().unwrap();
    let mut other = Xds::spawn(&["serve", directory, "--listen", &listen]);
    assert_eq!(other.wait_end().code(), Some(3));
    assert!(other.stderr().contains("another server listens on this socket"), "{}", other.stderr());

    assert_eq!(serve.signal("TERM").code(), Some(0));
    assert!(!sockets.join("s").exists() && !sockets.join("r").exists());

    // The file of a killed server is replaced.
    let (mut killed, _) = Xds::serve_with(Path::new(directory), &["--listen", &listen]);
    killed.kill();
    assert!(sockets.join("s").exists());
    let wide = ["--listen", &listen, "--socket-mode", "660"];
    let (_serve, _) = Xds::serve_with(Path::new(directory), &wide);
    let mode = fs::metadata(sockets.join("s")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
}

/// A port without a host listens on all interfaces, as in Go programs.
#[test]
fn port_without_host_listens_on_all_interfaces() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let (_serve, address) = Xds::serve_on(directory.path(), ":0");
    let (host, port) = address.rsplit_once(':').unwrap();
    assert!(matches!(host, "[::]" | "0.0.0.0"), "{address}");
    let watch = Xds::watch(&format!("127.0.0.1:{port}"), &["cds"]);
    watch.wait_event("the cluster", |event| event["name"] == "one");
}
