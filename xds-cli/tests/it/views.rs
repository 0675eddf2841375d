//! `xds serve --views` and `xds check --views`, over a directory.

use std::fs;

use serde_json::Value as Json;

use crate::{
    metrics::metric,
    support::{TempDir, Xds, clusters, eventually, run},
};

/// Clients whose id begins with `canary-` have the view `canary`, and the others the default one.
const RULES: &str = "rules:\n- view: canary\n  when: { id: canary-* }\n";
const WITH_BASE: &str = "views:\n  canary: { base: default }\n";

/// Directory with a subdirectory and a file of views, and the server of them.
struct Stage {
    files: TempDir,
    views: TempDir,
    serve: Xds,
    address: String,
}

impl Stage {
    fn new(views: &str, flags: &[&str]) -> Self {
        let (files, file) = (TempDir::new(), TempDir::new());
        files.save("base.yaml", &clusters("a b"));
        fs::create_dir(files.join("canary")).unwrap();
        files.save("canary/own.yaml", &clusters("b=2s c"));
        file.save("views.yaml", views);
        let path = file.join("views.yaml");
        let flags = [&["--listen", "127.0.0.1:0", "--views", path.to_str().unwrap()], flags];
        let (serve, address) = Xds::serve_with(files.path(), &flags.concat());
        Self { files, views: file, serve, address }
    }

    fn watch(&self, node: &str) -> Xds {
        let args = ["watch", "--server", &self.address, "--node-id", node, "-o", "ndjson", "cds"];
        Xds::spawn(&args)
    }
}

/// Waits until the client has these clusters, each given as `name=timeout`.
#[track_caller]
fn wait_clusters(watch: &Xds, expected: &str) {
    eventually("clusters", || {
        let mut clusters = std::collections::BTreeMap::new();
        for event in watch.events() {
            let name = event["name"].as_str().unwrap_or_default().to_owned();
            match event["event"].as_str() {
                Some("changed") => {
                    let timeout = event["resource"]["connect_timeout"].as_str().unwrap();
                    clusters.insert(name, timeout.to_owned());
                }
                Some("removed") => drop(clusters.remove(&name)),
                _ => {}
            }
        }
        let shown: Vec<_> = clusters.iter().map(|(name, it)| format!("{name}={it}")).collect();
        let shown = shown.join(" ");
        if shown == expected { Ok(()) } else { Err(format!("{shown}\n{}", watch.stderr())) }
    });
}

fn removed(watch: &Xds) -> Vec<String> {
    let name = |event: &Json| event["name"].as_str().unwrap().to_owned();
    watch.events_of("removed").iter().map(name).collect()
}

#[test]
fn client_has_the_view_of_the_first_matching_rule_over_its_base() {
    let stage = Stage::new(&format!("{RULES}{WITH_BASE}"), &[]);
    let (other, canary) = (stage.watch("test"), stage.watch("canary-1"));
    wait_clusters(&other, "a=1s b=1s");
    wait_clusters(&canary, "a=1s b=2s c=1s");
    // A change of the base reaches both views, and a hidden one only one.
    stage.files.replace("base.yaml", &clusters("a=3s b=3s"));
    wait_clusters(&other, "a=3s b=3s");
    wait_clusters(&canary, "a=3s b=2s c=1s");
    // A new subdirectory is a view.
    fs::create_dir(stage.files.join("later")).unwrap();
    stage.files.save("later/own.yaml", &clusters("d"));
    let rules = format!("{RULES}- {{ view: later, when: {{ id: test }} }}\n{WITH_BASE}");
    stage.views.replace("views.yaml", &rules);
    wait_clusters(&other, "d=1s");
    stage.files.save("later/own.yaml", &clusters("d=2s"));
    wait_clusters(&other, "d=2s");
    wait_clusters(&canary, "a=3s b=2s c=1s");
    assert_eq!(removed(&canary), [""; 0]);
}

#[test]
fn changed_views_move_clients_without_a_gap() {
    let stage = Stage::new(&format!("{RULES}{WITH_BASE}"), &[]);
    let (other, canary) = (stage.watch("test"), stage.watch("canary-1"));
    wait_clusters(&canary, "a=1s b=2s c=1s");
    wait_clusters(&other, "a=1s b=1s");
    // The view has no base any more.
    stage.views.replace("views.yaml", RULES);
    wait_clusters(&canary, "b=2s c=1s");
    // The clients leave the view, which loses its base at the same time.
    stage.views.replace("views.yaml", &format!("{RULES}{WITH_BASE}"));
    wait_clusters(&canary, "a=1s b=2s c=1s");
    let before = removed(&canary);
    stage.views.replace("views.yaml", "rules: []\n");
    wait_clusters(&canary, "a=1s b=1s");
    assert_eq!(removed(&canary)[before.len()..], ["c"], "a stays, in the other view");
    let moved =
        stage.serve.wait_event("moved", |event| event["event"] == "views" && event["moved"] == 1);
    assert_eq!(moved["refused"], 0, "{moved}");
    assert_eq!(removed(&other), [""; 0]);
}

#[test]
fn invalid_views_are_reported_with_line_and_rule_and_change_nothing() {
    let stage = Stage::new(&format!("{RULES}{WITH_BASE}"), &["--metrics", "127.0.0.1:0"]);
    let serving = stage.serve.wait_event("serving", |event| event["event"] == "serving");
    let invalid = |count: f64| {
        let address = serving["metrics"].as_str().unwrap();
        eventually("invalid objects", || match metric(address, "xds_source_invalid_objects") {
            Some(found) if found == count => Ok(()),
            other => Err(format!("{other:?}")),
        });
    };
    invalid(0.0);
    let canary = stage.watch("canary-1");
    wait_clusters(&canary, "a=1s b=2s c=1s");
    stage.views.replace("views.yaml", "rules:\n- view: canary\n  when: { idd: canary-* }\n");
    let error = stage.serve.wait_count("file_error", 1).remove(0);
    let text = error["error"].as_str().unwrap();
    assert!(text.contains("views.yaml:3:16: rules[0].when.idd: unknown field"), "{text}");
    assert!(text.contains("did you mean `id`?"), "{text}");
    assert_eq!((&error["line"], &error["rule"]), (&3.into(), &"invalid-views".into()));
    invalid(1.0);
    // The last valid views stay in use, for changes too.
    stage.files.replace("base.yaml", &clusters("a=5s b"));
    wait_clusters(&canary, "a=5s b=2s c=1s");
    stage.views.replace("views.yaml", &format!("{RULES}{WITH_BASE}"));
    stage.serve.wait_count("views", 1);
    invalid(0.0);
    assert_eq!(removed(&canary), [""; 0]);
}

#[test]
fn invalid_views_at_the_start_are_an_error() {
    let (files, views) = (TempDir::new(), TempDir::new());
    files.save("base.yaml", &clusters("a"));
    views.save("views.yaml", "otherwise: {}\n");
    let (directory, file) = (files.path().to_str().unwrap(), views.join("views.yaml"));
    let file = file.to_str().unwrap();
    let serve = run(&["serve", directory, "--listen", "127.0.0.1:0", "--views", file]);
    assert_eq!(serve.code, Some(1));
    assert!(serve.stderr.contains("views.yaml:1:12: otherwise: "), "{}", serve.stderr);
    assert!(serve.stderr.contains("views.yaml is not used: 1 error"), "{}", serve.stderr);
    let missing = run(&["serve", directory, "--listen", "127.0.0.1:0", "--views", "/nowhere/v"]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("/nowhere/v: cannot read the views: "), "{}", missing.stderr);
}

#[test]
fn client_that_no_rule_matches_is_refused_on_request() {
    let stage = Stage::new(&format!("{RULES}otherwise: refuse\n"), &[]);
    let canary = stage.watch("canary-1");
    wait_clusters(&canary, "b=2s c=1s");
    let other = stage.watch("test");
    other.wait_event("a refusal", |event| {
        let error = event["error"].as_str().unwrap_or_default();
        error.contains("no rule for views matches the node \"test\"")
    });
    // A connected client is refused too.
    stage.views.replace("views.yaml", "otherwise: refuse\n");
    let used = stage.serve.wait_event("views", |event| event["event"] == "views");
    assert_eq!((&used["moved"], &used["refused"]), (&0.into(), &1.into()));
    canary.wait_event("a refusal", |event| {
        event["error"].as_str().unwrap_or_default().contains("no rule for views matches")
    });
}

#[test]
fn views_whose_resources_are_rejected_are_used_once_they_are_valid() {
    let route = "resources:\n- \"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\n  \
                 name: r\n  virtual_hosts:\n  - name: v\n    domains: [\"*\"]\n    routes:\n    \
                 - match: { prefix: / }\n      route: { cluster: a }\n";
    let stage = Stage::new(&format!("{RULES}{WITH_BASE}"), &["--strict"]);
    let canary = stage.watch("canary-1");
    wait_clusters(&canary, "a=1s b=2s c=1s");
    stage.files.save("canary/routes.yaml", route);
    stage.serve.wait_count("reloaded", 1);
    // Without the base, the cluster of the route is missing.
    stage.views.replace("views.yaml", RULES);
    stage.serve.wait_count("views_refused", 1);
    let finding = stage.serve.wait_event("a finding", |event| event["event"] == "finding");
    assert!(finding["file"].as_str().unwrap().ends_with("canary/routes.yaml"), "{finding}");
    assert_eq!(removed(&canary), [""; 0]);
    // Its own cluster makes the views valid.
    stage.files.save("canary/own.yaml", &clusters("a=7s b=2s c"));
    stage.serve.wait_count("views", 1);
    wait_clusters(&canary, "a=7s b=2s c=1s");
    assert_eq!(removed(&canary), [""; 0]);
}

#[test]
fn rules_and_views_without_effect_are_warnings() {
    let views = "rules:\n- view: canray\n  when: { id: canary-* }\n";
    let stage = Stage::new(views, &[]);
    let findings = stage.serve.wait_count("finding", 2);
    let text = |at: usize| findings[at]["finding"].as_str().unwrap();
    let missing = "rules[0]: the source has no view `canray`, did you mean `canary`?";
    let unreached = "no rule leads to the view `canary` of the source (2 resources)";
    assert_eq!([text(0), text(1)], [missing, unreached]);
    assert_eq!(findings[0]["line"], 2);

    let (directory, file) =
        (stage.files.path().to_str().unwrap().to_owned(), stage.views.join("views.yaml"));
    let check = || run(&["check", &directory, "--views", file.to_str().unwrap()]);
    let checked = check();
    assert_eq!(checked.code, Some(0), "{}", checked.stdout);
    for part in [missing, unreached, "4 resources in 2 files: 0 errors"] {
        assert!(checked.stdout.contains(part), "{}", checked.stdout);
    }
    stage.views.save("views.yaml", "rule: []\n");
    let checked = check();
    assert_eq!(checked.code, Some(1));
    assert!(checked.stdout.contains("did you mean `rules`?"), "{}", checked.stdout);
}

#[test]
fn references_are_checked_within_each_view() {
    let (files, views) = (TempDir::new(), TempDir::new());
    for folder in ["eu", "us"] {
        fs::create_dir(files.join(folder)).unwrap();
    }
    let eds = "- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: web\n  \
               type: EDS\n  eds_cluster_config: { eds_config: { ads: {} } }\n";
    files.save("base.yaml", eds);
    files.save("eu/eds.yaml", &crate::support::endpoints("web", &[80]));
    files.save("us/eds.yaml", &crate::support::endpoints("wbe", &[80]));
    views.save(
        "views.yaml",
        "rules:\n- view: eu\n  when: { region: eu }\n- view: us\n  when: { region: us }\n\
         otherwise: refuse\nviews:\n  eu: { base: default }\n  us: { base: default }\n",
    );
    let file = views.join("views.yaml");
    let directory = files.path().to_str().unwrap();
    let checked = run(&["check", directory, "--views", file.to_str().unwrap()]);
    assert_eq!(checked.code, Some(1), "{}", checked.stdout);
    let dangling = checked.stdout.matches("base.yaml:").count();
    assert_eq!(dangling, 1, "only of one view: {}", checked.stdout);
    assert!(checked.stdout.contains("did you mean `wbe`?"), "{}", checked.stdout);
}

/// The bases of views are not known while their file is broken, so a reference may lead into another
/// view.
#[test]
fn references_are_not_checked_while_the_views_are_broken() {
    let (files, views) = (TempDir::new(), TempDir::new());
    fs::create_dir(files.join("canary")).unwrap();
    files.save("eds.yaml", &crate::support::endpoints("web", &[80]));
    let eds = "- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: web\n  \
               type: EDS\n  eds_cluster_config: { eds_config: { ads: {} } }\n";
    files.save("canary/cds.yaml", eds);
    views.save("views.yaml", &format!("{}{WITH_BASE}", RULES.replace("id", "idd")));
    let (file, directory) = (views.join("views.yaml"), files.path().to_str().unwrap());
    let checked = run(&["check", directory, "--views", file.to_str().unwrap()]);
    assert_eq!(checked.code, Some(1), "{}", checked.stdout);
    let shown = checked.stdout.replace("\n      ", " ");
    assert!(!shown.contains("refers to") && !shown.contains("eds.yaml"), "{shown}");
    assert!(shown.contains("references and rules of --guard are not checked until"), "{shown}");
    assert!(shown.ends_with("2 resources in 2 files: 1 error, 0 warnings"), "{shown}");
}
