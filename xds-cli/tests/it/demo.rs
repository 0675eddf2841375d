//! `xds demo` exits with 0 and prints the expected story.

use crate::support::{run, run_with};

#[test]
fn demo_shows_every_step_and_exits_with_zero() {
    let demo = run(&["demo"]);
    assert_eq!(demo.code, Some(0), "{}", demo.stderr);
    assert_eq!(demo.stderr, "");
    let lines: Vec<&str> = demo.stdout.lines().collect();
    let has = |parts: &[&str]| lines.iter().any(|line| parts.iter().all(|it| line.contains(it)));
    for parts in [
        // Resources that arrived, each found through the one before.
        &["listener shop on 127.0.0.1:8080"][..],
        &["routes shop-routes"],
        &["/reviews", "cluster reviews", "10.0.3.11:9000"],
        // The changes.
        &["~ endpoints cart: + endpoint 10.0.1.13:9000"],
        &["- cluster reviews"],
        &["- endpoints reviews.shop.internal"],
        &["~ routes shop-routes: - route /reviews → cluster reviews"],
        // The invalid cluster is rejected with its reason; the valid one is used.
        &["! cluster cart", "connect_timeout: must be greater than 0s"],
        &["~ cluster catalog", "LEAST_REQUEST"],
        &["cds", "NACKED", "cart", "connect_timeout: must be greater than 0s"],
        &["the 700 ms since"],
        // The repaired cluster.
        &["~ cluster cart", "0.500s", "0.750s"],
        // The commands can be run as they stand: tests run in a directory without examples.
        &["> xds-try/cds.json"],
        &["' serve xds-try --listen 127.0.0.1:18000"],
    ] {
        assert!(has(parts), "no line with {parts:?} in\n{}", demo.stdout);
    }
    // Make before break, as the client received it.
    let order = "1. cds reviews-v2\n   2. eds reviews-v2.shop.internal\n   3. rds shop-routes\n   \
                 4. cds without reviews\n";
    assert!(demo.stdout.contains(order), "{}", demo.stdout);
    assert!(!demo.stdout.contains('\x1b'), "colours without a terminal");
    // A terminal of 80 columns folds the reasons of the client, and the commands at the end.
    let story = lines.iter().take_while(|line| !line.contains("the end of the demo"));
    let mut wide = story.filter(|line| line.chars().count() > 80);
    assert_eq!(wide.find(|line| !line.contains("connect_timeout")), None);
}

#[test]
fn demo_prints_colours_on_request() {
    let demo = run(&["demo", "--color", "always"]);
    assert_eq!(demo.code, Some(0), "{}", demo.stderr);
    assert!(demo.stdout.contains("\x1b[32mACKED\x1b[0m"), "{}", demo.stdout);
}

#[test]
fn demo_of_replicas_says_that_etcd_is_missing() {
    let demo = run_with(&["demo", "--replicas", "2"], &[("PATH", "")]);
    assert_eq!(demo.code, Some(1));
    assert!(demo.stderr.contains("no program `etcd` in the search path"), "{}", demo.stderr);
    assert_eq!(run(&["demo", "--replicas", "1"]).code, Some(2));
}

/// The environment variable `XDS_ETCD` names the program of etcd.
#[test]
#[ignore = "needs etcd"]
fn client_that_moves_between_replicas_is_sent_nothing_again() {
    let etcd = std::env::var("XDS_ETCD").expect("the program of etcd");
    let demo = run(&["demo", "--replicas", "3", "--etcd", &etcd]);
    assert_eq!(demo.code, Some(0), "{}", demo.stderr);
    for part in ["replica C on 127.0.0.1:", "~ endpoints cart: + endpoint", "- cluster reviews"] {
        assert!(demo.stdout.contains(part), "no {part} in\n{}", demo.stdout);
    }
    // Once for each type at replica B, and again at replica A.
    assert_eq!(demo.stdout.matches(": 0 responses").count(), 8, "{}", demo.stdout);
    assert!(demo.stdout.contains("end of the demo"), "{}", demo.stdout);
    assert!(demo.stdout.lines().all(|line| line.chars().count() <= 80), "{}", demo.stdout);
}
