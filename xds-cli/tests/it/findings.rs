//! Regression tests for faults found by using the commands, one for each
//! folder of `tests/findings/`.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::support::{TempDir, Xds, eventually, run};
use serde_json::{Value as Json, json};

/// Path of the input of a finding.
fn finding(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/findings").join(name)
}

#[track_caller]
fn assert_accepted(args: &[&str]) {
    let ended = run(args);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
}

/// `{}` as an `Any` enables a filter for a route.
#[test]
fn empty_object_as_any_is_accepted() {
    assert_accepted(&["check", finding("any-empty-object").to_str().unwrap()]);
}

/// A header name without the strict constraint may be empty, as in weighted clusters and mirrors.
#[test]
fn header_names_without_strict_constraint_may_be_empty() {
    let directory = finding("header-name-loose-empty");
    let directory = directory.to_str().unwrap();
    assert_accepted(&["check", "--validate", "--elsewhere", "cds", directory]);

    // A client that validates accepts the routes.
    let (_serve, address) = Xds::serve(Path::new(directory));
    let watch = Xds::watch(&address, &["rds:split"]);
    watch.wait_event("the routes", |event| event["event"] == "changed" && event["name"] == "split");
}

#[test]
fn export_is_readable_and_reports_unprintable_resources() {
    let served = finding("unreadable-export");
    let to = TempDir::new();
    let out = to.join("out");
    let flags = ["--listen", "127.0.0.1:0", "--export", out.to_str().unwrap()];
    let (serve, address) = Xds::serve_with(&served, &flags);
    let exported = |file: &str| {
        let read = || fs::read(out.join(file)).map_err(|why| why.to_string());
        let content = eventually(file, read);
        serde_json::from_slice::<Json>(&content).unwrap()["resources"].clone()
    };
    let filters = &exported("rds.json")[0]["virtual_hosts"][0]["typed_per_filter_config"];
    assert_eq!(filters["buffer"]["config"], json!({}));

    // The first file of clusters is written without the cluster that has no JSON form, which is
    // named and counted.
    let clusters = exported("cds.json");
    let names: Vec<_> = clusters.as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["plain"]);
    serve.wait_stderr("unprintable resource 1 of 1: the resource `custom` of type");
    serve.wait_stderr("the type `type.googleapis.com/acme.v1.Socket` is not in the schema");
    assert_accepted(&["check", "--elsewhere", "cds", out.to_str().unwrap()]);

    // A watch marks the part that is shown as bytes.
    let watch = Xds::watch(&address, &["cds:custom"]);
    let event = watch.wait_event("the cluster", |event| event["event"] == "changed");
    let socket = &event["resource"]["transport_socket"]["typed_config"];
    assert_eq!(socket["[unknown type]"], "CgFh");
    let mark = event["shown_as_bytes"][0].as_str().unwrap();
    assert!(mark.starts_with("transport_socket.typed_config: an `Any` cannot"), "{mark}");
}

/// A client that subscribes to clusters, listeners and routes but not to endpoints must get
/// listeners and routes before its does-not-exist timer expires.
#[test]
fn make_before_break_does_not_wait_for_an_unsubscribed_type() {
    let flags = ["--listen", "127.0.0.1:0", "--ordering", "make-before-break"];
    for variant in [&[][..], &["--delta"]] {
        let (_serve, address) = Xds::serve_with(&finding("gate-15s-false-absence"), &flags);
        let began = Instant::now();
        let watch = Xds::watch(&address, &[&["cds", "lds", "rds"], variant].concat());
        for (short, name) in [("cds", "c3"), ("lds", "l"), ("rds", "r")] {
            let is_it = |event: &Json| {
                event["event"] == "changed" && event["type"] == short && event["name"] == name
            };
            watch.wait_event(name, is_it);
        }
        let took = began.elapsed();
        assert!(took < Duration::from_secs(12), "{took:?}");
        assert_eq!(watch.events_of("error").len(), 0, "{}", watch.stdout());
    }
    println!("covers: M150 M158");
}

#[test]
fn cncf_xds_matcher_types_are_accepted() {
    let directory = finding("cncf-xds-matcher-types");
    let ended = run(&["check", directory.to_str().unwrap(), "--validate"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("1 resource in 1 file: 0 errors"), "{}", ended.stdout);
}

#[test]
fn envoy_yaml_leniency_is_accepted() {
    let (finding, directory) = (finding("envoy-leniency"), TempDir::new());
    for file in ["cds.yaml", "lds.yaml"] {
        fs::copy(finding.join(file), directory.join(file)).unwrap();
    }
    let ended = run(&["check", directory.path().to_str().unwrap(), "--validate"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("4 resources in 2 files: 0 errors"), "{}", ended.stdout);

    let path = |name: &str| finding.join(name).to_str().unwrap().to_owned();
    let file = Xds::spawn(&["watch", "-o", "ndjson", "--file", &path("cds.yaml"), "cds"]);
    assert_eq!(file.wait_count("changed", 3).len(), 3);
    // Nothing listens on port 1, so the only cluster is the static one.
    let boot = fs::read_to_string(finding.join("boot.yaml")).unwrap();
    fs::write(directory.join("boot.yaml"), boot.replace("18000", "1")).unwrap();
    let boot = directory.join("boot.yaml").to_str().unwrap().to_owned();
    let proxy = Xds::spawn(&["watch", "-o", "ndjson", "--proxy-bootstrap", &boot, "cds"]);
    let changed = &proxy.wait_count("changed", 1)[0];
    assert_eq!(changed["resource"]["type"], "STRICT_DNS");
    assert!(changed["version"].is_null() && changed["static"] == true, "{changed}");
}
