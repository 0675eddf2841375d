//! Signals end a command that waits for a file or for a server.

#![cfg(target_os = "linux")]

use std::{net::TcpListener, process::Command};

use crate::support::{TempDir, Xds, clusters};

#[track_caller]
fn expect_code(args: &[&str], code: i32) {
    for signal in Xds::ending_signals() {
        let mut xds = Xds::spawn(args);
        xds.wait_for_handler();
        assert_eq!(xds.signal(signal).code(), Some(code), "{signal}: {args:?}");
    }
}

#[test]
fn signal_ends_a_command_that_waits_for_a_file() {
    let files = TempDir::new();
    files.save("cds.yaml", &clusters("one"));
    let path = files.path().to_str().unwrap();
    let pipe = files.join(".pipe.json");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.to_str().unwrap();
    expect_code(&["get", "--proxy-bootstrap", pipe, "cds"], 130);
    expect_code(&["get", "--bootstrap", pipe, "cds"], 130);
    expect_code(&["get", "--descriptors", pipe, "cds"], 130);
    expect_code(&["convert", pipe, "--to", "yaml"], 130);
    expect_code(&["route", "explain", "--dump", pipe, "--host", "a.example.com"], 130);
    expect_code(&["watch", "--proxy-bootstrap", pipe, "cds"], 0);
    expect_code(&["serve", path, "--listen", "127.0.0.1:0", "--descriptors", pipe], 0);
}

#[test]
fn signal_ends_a_command_that_waits_for_a_server() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    expect_code(&["get", "--server", &address, "cds"], 130);
    expect_code(&["status", &address], 130);
    expect_code(&["status", &address, "--watch"], 130);
    expect_code(&["route", "explain", "--server", &address, "--host", "a.example.com"], 130);
    expect_code(&["watch", "--server", &address, "cds"], 0);
}

/// The end of the process stops no timer that another thread still uses.
#[test]
fn signal_ends_a_repeated_status_without_a_panic() {
    let files = TempDir::new();
    files.save("cds.yaml", &clusters("one"));
    let (_serve, address, csds) = Xds::serve_with_csds(files.path());
    let watch = Xds::watch(&address, &["cds"]);
    watch.wait_count("changed", 1);
    for signal in Xds::ending_signals() {
        let mut xds = Xds::spawn(&["status", &csds, "--watch"]);
        xds.wait_stdout("one");
        assert_eq!(xds.signal(signal).code(), Some(130), "{signal}");
        assert_eq!(xds.stderr(), "xds: interrupted", "{signal}");
    }
}
