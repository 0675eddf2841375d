//! Output formats of `xds check`, and findings next to broken files.

use crate::support::{Ended, TempDir, run};
use serde_json::Value as Json;

const ROUTES: &str = "'@type': type.googleapis.com/envoy.config.route.v3.RouteConfiguration\n\
    name: routes\nvirtual_hosts:\n- name: shop\n  domains: ['*']\n  routes:\n  \
    - match: {prefix: /}\n    route: {cluster: shop}\n";
const CLUSTER: &str = "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\n";

fn check(directory: &TempDir, options: &[&str]) -> Ended {
    run(&[&["check", directory.path().to_str().unwrap()], options].concat())
}

fn lines(directory: &TempDir, options: &[&str]) -> Vec<String> {
    let shown = check(directory, options).stdout;
    let prefix = format!("{}/", directory.path().display());
    shown.lines().map(|line| line.replace(&prefix, "")).collect()
}

/// Directory with a broken file, a dangling reference and an unreferenced resource.
fn directory() -> TempDir {
    let directory = TempDir::new();
    directory.save("cds.yaml", &format!("{CLUSTER}name: shopp\n"));
    directory.save("rds.yaml", ROUTES);
    directory.save("bad,1.yaml", &format!("{CLUSTER}name: other\ntyp: EDS\nconnect_timeout: 5\n"));
    directory
}

#[test]
fn all_errors_of_a_file_are_reported() {
    let lines = lines(&directory(), &[]);
    assert_eq!(
        lines,
        [
            "error: bad,1.yaml:3:1: unknown field `typ` in `envoy.config.cluster.v3.Cluster`, did \
             you mean `type`?",
            "error: bad,1.yaml:4:18: connect_timeout: expected a duration such as \"1.5s\" or \
             {seconds: 1, nanos: 500000000}, found the number 5",
            "warning: rds.yaml:1:1: nothing refers to rds `routes`",
            "error: rds.yaml:8:22: rds `routes` refers to cds `shop`, which is missing, did you \
             mean `shopp`?",
            "3 resources in 3 files: 3 errors, 1 warning",
        ]
        .map(|line| line.replace("3 resources", "2 resources"))
    );
}

#[test]
fn errors_of_a_file_are_limited_and_the_others_are_counted() {
    let directory = TempDir::new();
    let fields: String = (0..50).map(|at| format!("wrong_{at}: 1\n")).collect();
    directory.save("cds.yaml", &format!("{CLUSTER}name: a\n{fields}"));
    let lines = lines(&directory, &[]);
    assert_eq!(lines.len(), 22, "{lines:#?}");
    assert_eq!(lines[20], "error: cds.yaml: and 30 more errors");
    assert_eq!(lines[21], "0 resources in 1 file: 50 errors, 0 warnings");
    let ndjson = check(&directory, &["-o", "ndjson"]).stdout;
    let last: Json = serde_json::from_str(ndjson.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["more"]), (&"file_error".into(), &30.into()), "{last}");
    let first: Json = serde_json::from_str(ndjson.lines().next().unwrap()).unwrap();
    assert_eq!(first["more"], Json::Null);
}

#[test]
fn directory_without_files_of_resources_is_a_warning() {
    let directory = TempDir::new();
    directory.save("notes.txt", "x");
    let ended = check(&directory, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    assert!(ended.stdout.contains("there are no files of resources"), "{}", ended.stdout);
    assert!(
        ended.stdout.ends_with("0 resources in 0 files: 0 errors, 1 warning"),
        "{}",
        ended.stdout
    );
}

#[test]
fn files_in_subdirectories_that_are_not_read_are_mentioned() {
    let directory = TempDir::new();
    std::fs::create_dir(directory.join("canary")).unwrap();
    directory.save("canary/cds.yaml", &format!("{CLUSTER}name: a\n"));
    let shown = check(&directory, &[]).stdout.replace("\n         ", " ");
    let hint = "1 file in subdirectories is ignored without --views";
    assert!(shown.starts_with("warning: ") && shown.contains(hint), "{shown}");
    directory.save("cds.yaml", &format!("{CLUSTER}name: a\n"));
    let shown = check(&directory, &[]).stdout;
    assert!(shown.starts_with("note: ") && shown.contains(hint), "{shown}");
    assert!(shown.ends_with("1 resource in 1 file: 0 errors, 0 warnings"), "{shown}");
}

const SECRET: &str =
    "'@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\n";

#[test]
fn errors_of_files_do_not_contain_their_secrets() {
    let directory = TempDir::new();
    let secrets = [
        "tls_certificate: {private_key: {inline_bytes: '-----BEGIN TOPSECRET-----'}}",
        "tls_certificate: {private_key: TOPSECRET}",
        "generic_secret: TOPSECRET",
        "generic_secret: {secret: {TOPSECRET: x}}",
        "session_ticket_keys: {keys: TOPSECRET}",
    ];
    let file: String = secrets.iter().map(|it| format!("---\n{SECRET}name: s\n{it}\n")).collect();
    directory.save("s.yaml", &file);
    for output in ["text", "ndjson", "github", "sarif"] {
        let ended = check(&directory, &["-o", output]);
        assert_eq!(ended.code, Some(1));
        let shown = ended.stdout + &ended.stderr;
        assert!(shown.contains("s.yaml") && !shown.contains("TOPSECRET"), "{shown}");
    }
}

#[test]
fn object_of_kubernetes_in_a_file_of_resources_is_named() {
    let directory = TempDir::new();
    directory.save("d.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: x }\n");
    let shown = check(&directory, &[]).stdout.replace("\n       ", " ");
    assert!(shown.contains("found an object of Kubernetes (`apiVersion`, `kind`)"), "{shown}");
}

#[test]
fn references_into_broken_files_are_one_note() {
    let directory = directory();
    directory.save("bad,1.yaml", "name: [shop\n");
    let lines = lines(&directory, &[]);
    assert_eq!(
        lines[1..],
        [
            "note: bad,1.yaml: 1 reference not checked until this is valid: cds `shop`".to_owned(),
            "warning: rds.yaml:1:1: nothing refers to rds `routes`".to_owned(),
            "2 resources in 3 files: 1 error, 1 warning".to_owned(),
        ]
    );
    // A name that only contains the missing name is another one.
    directory.save("bad,1.yaml", "name: [shop-2, myshop\n");
    assert!(check(&directory, &[]).stdout.contains("refers to cds `shop`, which is missing"));
}

#[test]
fn ndjson_findings_have_file_line_and_column() {
    let ended = check(&directory(), &["-o", "ndjson"]);
    let objects: Vec<Json> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 4, "{objects:#?}");
    let error = &objects[1];
    assert_eq!(
        (&error["event"], &error["field"]),
        (&"file_error".into(), &"connect_timeout".into())
    );
    assert_eq!((&error["line"], &error["column"]), (&4.into(), &18.into()));
    assert!(error["file"].as_str().unwrap().ends_with("/bad,1.yaml"), "{error}");
    let dangling = &objects[3];
    assert_eq!(dangling["rule"], "dangling-reference");
    assert_eq!((&dangling["line"], &dangling["column"]), (&8.into(), &22.into()));
}

#[test]
fn github_output_consists_of_workflow_commands() {
    let directory = directory();
    let ended = check(&directory, &["-o", "github"]);
    assert_eq!(ended.code, Some(1));
    let shown: Vec<_> = ended.stdout.lines().collect();
    assert!(shown[0].starts_with("::error file="), "{}", shown[0]);
    assert!(
        shown[0]
            .contains("bad%2C1.yaml,line=3,col=1,title=xds check%3A invalid-file::unknown field"),
        "{}",
        shown[0]
    );
    assert!(shown[2].starts_with("::warning file="), "{}", shown[2]);
    assert_eq!(shown[4], "2 resources in 3 files: 3 errors, 1 warning");
}

#[test]
fn sarif_output_is_a_log_with_rules_and_results() {
    let ended = check(&directory(), &["-o", "sarif"]);
    let log: Json = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().ends_with("sarif-schema-2.1.0.json"));
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    for result in results {
        let rule = &rules[usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap()];
        assert_eq!(rule["id"], result["ruleId"]);
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().unwrap()));
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let place = &result["locations"][0]["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        assert!(!uri.contains(',') && uri.ends_with(".yaml"), "{uri}");
        assert!(place["region"]["startLine"].as_u64().unwrap() >= 1, "{result}");
        assert!(place["region"]["startColumn"].as_u64().unwrap() >= 1, "{result}");
    }
    assert_eq!(results[3]["locations"][0]["physicalLocation"]["region"]["startLine"], 8);

    let valid = TempDir::new();
    valid.save("cds.yaml", &format!("{CLUSTER}name: a\n"));
    let ended = check(&valid, &["-o", "sarif"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let log: Json = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(log["runs"][0]["results"], Json::Array(Vec::new()));
}
