//! Files with expectations: `--expect` and tests of Envoy's router check tool.

use std::fs;

use serde_json::Value as Json;

use super::{Fields as _, explain, resources};
use crate::support::TempDir;

#[test]
fn expectations_are_checked_row_by_row() {
    let directory = resources();
    let file = TempDir::new();
    file.save(
        "tests.yaml",
        r#"
tests:
- name: canary
  request: { host: shop.example.com, path: /cart/1, headers: { x-canary: "yes" } }
  expect: { virtual_host: shop, route: canary, cluster: blue, path: /v2/cart/1, host: blue.internal }
- request: { host: shop.example.com, path: /split }
  expect: { clusters: { blue: 40, green: 60 } }
- name: nobody
  request: { host: other.example.com }
  expect: { virtual_host: none, route: none, cluster: none }
- name: moved
  request: { host: shop.example.com, path: /old, method: POST, scheme: https }
  expect: { route: 1, cluster: none, redirect: "https://new.example.com/new", status: 302 }
"#,
    );
    let args = |name: &str| file.join(name).to_str().unwrap().to_owned();
    let passed = explain(directory.path(), &["--expect", &args("tests.yaml")]);
    assert_eq!(passed.code, Some(0), "{}{}", passed.stdout, passed.stderr);
    let lines: Vec<_> = passed.stdout.lines().collect();
    assert_eq!(
        lines,
        ["ok   canary", "ok   tests[1]", "ok   nobody", "ok   moved", "4 requests, 0 differences"]
    );

    let text = fs::read_to_string(file.join("tests.yaml")).unwrap();
    file.save(
        "wrong.yaml",
        &text.replace("cluster: blue,", "cluster: green,").replace("blue: 40", "blue: 30"),
    );
    let failed = explain(directory.path(), &["--expect", &args("wrong.yaml")]);
    assert_eq!(failed.code, Some(1));
    assert!(
        failed.stdout.starts_with("FAIL canary: cluster is `blue`, expected `green`\n"),
        "{}",
        failed.stdout
    );
    assert!(failed.stdout.trim_end().ends_with("4 requests, 2 differences"), "{}", failed.stdout);
    let failed = explain(directory.path(), &["--expect", &args("wrong.yaml"), "-o", "json"]);
    let first: Json = serde_json::from_str(failed.stdout.lines().next().unwrap()).unwrap();
    assert_eq!((first.at("/test"), first.at("/passed")), (&"canary".into(), &false.into()));
    assert_eq!(first.at("/differences/0/found"), "blue");

    file.save(
        "unnamed.yaml",
        "tests: [{ request: { host: shop.example.com, path: /old }, expect: { route: \"1\" } }]",
    );
    let failed = explain(directory.path(), &["--expect", &args("unnamed.yaml")]);
    let expected = "FAIL tests[0]: route is `index 1, without a name`, expected `1`\n";
    assert!(failed.stdout.starts_with(expected), "{}", failed.stdout);
}

#[test]
fn errors_of_an_expect_file_have_place_and_test() {
    let directory = resources();
    let file = TempDir::new();
    for (wrong, why) in [
        (
            "tests:\n- { name: first, request: { host: a }, expect: { clustr: b } }",
            "bad.yaml:2:58: first: expect.clustr: unknown field `clustr`",
        ),
        (
            "tests: [{ request: { path: /a }, expect: {} }]",
            "bad.yaml:1:20: tests[0]: the request needs a host",
        ),
        ("tests: [{ request: { host: a, scheme: ftp }, expect: {} }]", "unknown scheme `ftp`"),
        ("tests: [{ request: { host: a } }]", "bad.yaml:1:9: tests[0]: missing field `expect`"),
        ("tests: [{ request: 5, expect: {} }]", "bad.yaml:1:20: tests[0]: request: invalid type"),
        (
            "tests: [{ request: { host: a, headers: { 'x y': z } }, expect: {} }]",
            "tests[0]: `x y` is not the name of a header",
        ),
        (
            "tests: [{ request: { host: a }, expect: { route: -1 } }]",
            "expect: expected the index or the name of a route, or `none`, not -1",
        ),
        ("tests: []", "bad.yaml:1:8: there are no tests"),
        ("tests: {}", "bad.yaml:1:8: `tests` is not a list"),
        ("test: []", "bad.yaml:1:7: unknown field `test`, expected `tests`"),
        ("{}", "bad.yaml:1:1: there is no list `tests`"),
        ("tests: [", "bad.yaml:"),
        (
            "tests:\n- { test_name: t, input: { authority: a, path: /, x: 1 }, validate: {} }",
            "bad.yaml:2:54: t: input.x: unknown field `x`",
        ),
        (
            "tests: [{ test_name: t, input: { authority: a, path: x }, validate: {} }]",
            "bad.yaml:1:32: t: the path must begin with a slash",
        ),
    ] {
        file.save("bad.yaml", wrong);
        let path = file.join("bad.yaml");
        let bad = explain(directory.path(), &["--expect", path.to_str().unwrap()]);
        assert_eq!(bad.code, Some(2), "{wrong}: {}", bad.stderr);
        assert!(bad.stderr.contains(why), "{wrong}: {}", bad.stderr);
    }
}

#[test]
fn router_check_tests_of_envoy_are_accepted() {
    let directory = resources();
    let file = TempDir::new();
    let test = |name: &str, input: &str, validate: &str| {
        format!(
            "- test_name: {name}\n  input: {{ authority: shop.example.com, {input} }}\n  validate: {{ {validate} }}\n"
        )
    };
    let tests = [
        test("first fifth", "path: /split, random_value: 19", "cluster_name: blue"),
        test(
            "weighted",
            "path: /split, random_value: 21",
            "cluster_name: green, virtual_host_name: shop",
        ),
        test("weight zero", "path: /split, random_value: 20", "cluster_name: blue"),
        test("none", "path: /none, method: GET", "cluster_name: ''"),
        test(
            "moved",
            "path: /old, ssl: true",
            "path_redirect: 'https://new.example.com/new', code_redirect: 302",
        ),
        test(
            "canary",
            "path: /cart, additional_request_headers: [{ key: X-Canary, value: 'yes' }]",
            "path_rewrite: /v2/cart, host_rewrite: blue.internal",
        ),
        test("wrong", "path: /split, random_value: 0", "cluster_name: green"),
    ];
    file.save("check.yaml", &format!("tests:\n{}", tests.concat()));
    let check = file.join("check.yaml");
    let checked = explain(directory.path(), &["--expect", check.to_str().unwrap()]);
    assert_eq!(checked.code, Some(1), "{}", checked.stderr);
    let failed: Vec<_> = checked.stdout.lines().filter(|line| !line.starts_with("ok ")).collect();
    assert_eq!(
        failed,
        ["FAIL wrong: cluster_name is `blue`, expected `green`", "7 requests, 1 difference"],
        "{}",
        checked.stdout
    );
    file.save(
        "check.yaml",
        &format!("tests:\n{}", test("v", "path: /", "virtual_cluster_name: x")),
    );
    let unsupported = explain(directory.path(), &["--expect", check.to_str().unwrap()]);
    assert_eq!(unsupported.code, Some(2));
    assert!(unsupported.stderr.contains("virtual_cluster_name"), "{}", unsupported.stderr);
}
