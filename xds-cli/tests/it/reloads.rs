//! Reports of `xds serve` about changed files.

use crate::support::{TempDir, Xds, clusters};

const BROKEN: &str = "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: b\n\
    typ: EDS\nconnect_timeout: 5\n";

fn serve(directory: &TempDir, options: &[&str]) -> Xds {
    let path = directory.path().to_str().unwrap();
    Xds::spawn(&[&["serve", path, "--listen", "127.0.0.1:0"], options].concat())
}

#[test]
fn reloaded_resources_are_listed_by_kind_of_change() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("a b=1s"));
    let table = serve(&directory, &[]);
    let events = serve(&directory, &["-o", "ndjson"]);
    table.wait_stdout("2 resources");
    events.wait_count("serving", 1);
    directory.replace("cds.yaml", &clusters("b=2s c d"));
    table.wait_stdout(
        "reloaded: 3 changed, 1 removed, 3 resources\n  + cds c, d\n  ~ cds b\n  - cds a",
    );
    let reloaded = &events.wait_count("reloaded", 1)[0];
    let names = |field: &str| -> Vec<_> {
        let list = reloaded[field].as_array().unwrap().iter();
        list.map(|it| format!("{} {}", it["type"].as_str().unwrap(), it["name"].as_str().unwrap()))
            .collect()
    };
    assert_eq!(names("added_resources"), ["cds c", "cds d"]);
    assert_eq!(names("changed_resources"), ["cds b"]);
    assert_eq!(names("removed_resources"), ["cds a"]);
}

#[test]
fn all_errors_of_a_file_are_reported_and_its_repair() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("a"));
    let table = serve(&directory, &[]);
    let events = serve(&directory, &["-o", "ndjson"]);
    table.wait_stdout("1 resource");
    events.wait_count("serving", 1);
    directory.replace("cds.yaml", BROKEN);
    table.wait_stderr("cds.yaml:3:1: unknown field `typ`");
    table.wait_stderr("cds.yaml:4:18: connect_timeout: expected a duration");
    table.wait_stderr("the last valid state of the file stays in use: 1 resource");
    let errors = events.wait_count("file_error", 2);
    assert_eq!((&errors[0]["line"], &errors[1]["line"]), (&3.into(), &4.into()));

    // The repaired file has the resources that are in use.
    directory.replace("cds.yaml", &clusters("a"));
    let valid = events.wait_count("file_valid", 1);
    assert!(valid[0]["file"].as_str().unwrap().ends_with("/cds.yaml"), "{valid:?}");
    table.wait_stdout("valid again: ");
    assert_eq!(events.events_of("reloaded").len(), 0);
}

#[test]
fn references_into_a_broken_file_are_not_dangling() {
    let directory = TempDir::new();
    let routes = "'@type': type.googleapis.com/envoy.config.route.v3.RouteConfiguration\nname: r\n\
        virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: shop}}]}]\n";
    directory.save("cds.yaml", &clusters("a"));
    let events = serve(&directory, &["-o", "ndjson"]);
    events.wait_count("serving", 1);
    directory.replace("cds.yaml", "name: [shop\n");
    events.wait_count("file_error", 1);
    directory.save("rds.yaml", routes);
    let note = &events.wait_count("finding", 1)[0];
    assert_eq!((&note["severity"], &note["rule"]), (&"note".into(), &"unchecked-reference".into()));
    // Once the file is valid, the reference is checked.
    directory.replace("cds.yaml", &clusters("a shopp"));
    let found = &events.wait_count("finding", 2)[1];
    assert_eq!(
        found["finding"],
        "rds `r` refers to cds `shop`, which is missing, did you mean `shopp`?"
    );
    assert_eq!(found["line"], 3);
}
