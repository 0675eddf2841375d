//! `xds serve --guard` and `xds check --guard`, with a directory.

use std::fs;

use serde_json::{Value as Json, json};

use crate::{
    metrics::{metric, request},
    support::{TempDir, Xds, clusters, endpoints, eventually, run},
};

/// Server on a directory, with metrics and client status.
struct Guarded {
    directory: TempDir,
    serve: Xds,
    listen: String,
    metrics: String,
    csds: String,
}

impl Guarded {
    fn new(files: &[(&str, &str)], guards: &[&str]) -> Self {
        let directory = TempDir::new();
        files.iter().for_each(|(name, content)| directory.save(name, content));
        let any = "127.0.0.1:0";
        let mut flags = vec!["--listen", any, "--metrics", any, "--csds", any];
        guards.iter().for_each(|guard| flags.extend(["--guard", guard]));
        let (serve, listen) = Xds::serve_with(directory.path(), &flags);
        let serving = serve.wait_event("serving", |event| event["event"] == "serving");
        let text = |field: &str| serving[field].as_str().unwrap().to_owned();
        let (metrics, csds) = (text("metrics"), text("csds"));
        Self { directory, serve, listen, metrics, csds }
    }

    /// Waits for a number of refusals, and returns the last one with the texts of its violations.
    #[track_caller]
    fn refused(&self, count: usize) -> (Json, Vec<String>) {
        let refused = self.serve.wait_count("refused", count).pop().unwrap();
        let violations = refused["violations"].as_array().unwrap();
        let text = |it: &Json| it["error"].as_str().unwrap().to_owned();
        (refused.clone(), violations.iter().map(text).collect())
    }

    /// States the id of a refused change in the file for it.
    fn force(&self, refused: &Json) {
        fs::write(self.directory.join(".xds-force"), refused["change"].as_str().unwrap()).unwrap();
    }
}

#[test]
fn refused_change_leaves_the_served_state_and_is_reported_everywhere() {
    let files = [("a.yaml", clusters("a b c")), ("d.yaml", clusters("d"))];
    let files = files.each_ref().map(|(name, content)| (*name, content.as_str()));
    let world = Guarded::new(&files, &["max-removal:cds=25"]);
    let watch = Xds::watch(&world.listen, &["cds"]);
    watch.wait_count("changed", 4);
    assert_eq!(metric(&world.metrics, "xds_source_refused"), Some(0.0));

    world.directory.replace("a.yaml", &clusters("a=9s"));
    let (refused, texts) = world.refused(1);
    let text =
        "would remove 2 of 4 clusters (50 percent), the limit is 25 percent: cds `b`, cds `c`";
    assert_eq!(texts, [text]);
    let violation = &refused["violations"][0];
    assert_eq!(
        (&violation["guard"], &violation["view"]),
        (&json!("max-removal:cds=25"), &json!(""))
    );
    let objects: Vec<_> = refused["objects"].as_array().unwrap().iter().collect();
    assert!(objects.len() == 1 && objects[0].as_str().unwrap().ends_with("a.yaml"), "{refused}");
    assert_eq!((&refused["resources"], &refused["revision"]), (&json!(4), &Json::Null));
    let id = refused["change"].as_str().unwrap();
    let force = format!("echo {id} >> {}", world.directory.join(".xds-force").display());
    assert_eq!(refused["force"], force);
    // The metrics and the status show it.
    assert_eq!(metric(&world.metrics, "xds_source_refused"), Some(1.0));
    assert_eq!(metric(&world.metrics, "xds_source_refused_changes_total"), Some(1.0));
    assert_eq!(request(&world.metrics, "GET /ready").0, 200);
    let shown = run(&["status", &world.csds]).stdout;
    let expected = format!("change {id} is refused: {text} (guard max-removal:cds=25)");
    assert!(shown.replace("\n  ", " ").starts_with(&expected), "{shown}");
    let shown = run(&["status", &world.csds, "-o", "ndjson"]).stdout;
    assert!(shown.contains(&format!(r#""refused":"{expected}""#)), "{shown}");

    // The next state is judged against what is served, and served as a whole.
    world.directory.replace("a.yaml", &clusters("a=9s c"));
    let reloaded = world.serve.wait_count("reloaded", 1);
    assert_eq!((&reloaded[0]["changed"], &reloaded[0]["removed"]), (&json!(1), &json!(1)));
    watch.wait_count("removed", 1);
    eventually("no refusal", || match metric(&world.metrics, "xds_source_refused") {
        Some(0.0) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    assert_eq!(watch.events_of("removed")[0]["name"], "b");
    assert!(!run(&["status", &world.csds]).stdout.contains("refused"));
    println!("covers: M270");
}

#[test]
fn forced_change_is_served_once() {
    let world = Guarded::new(&[("a.yaml", &clusters("a b"))], &["min:cds=2"]);
    let watch = Xds::watch(&world.listen, &["cds"]);
    watch.wait_count("changed", 2);
    world.directory.replace("a.yaml", &clusters("a"));
    let (refused, texts) = world.refused(1);
    assert_eq!(texts, ["would leave 1 of 2 clusters, the minimum is 2"]);
    // The id of another change has no effect.
    fs::write(world.directory.join(".xds-force"), "000000000000 me\n").unwrap();
    let (again, _) = world.refused(2);
    assert_eq!(again["change"], refused["change"]);
    assert_eq!(again["stated"], json!(["000000000000", "me"]));
    world.force(&refused);
    let forced = world.serve.wait_count("forced", 1);
    assert_eq!(forced[0]["change"], refused["change"]);
    let removed = watch.wait_count("removed", 1);
    assert_eq!(removed[0]["name"], "b");

    // Below the minimum, other changes are served if they remove nothing.
    world.directory.replace("a.yaml", &clusters("a=5s"));
    watch.wait_count("changed", 3);
    world.directory.replace("a.yaml", &clusters("a b"));
    watch.wait_count("changed", 5);
    // The same change again is not forced by what was used.
    world.directory.replace("a.yaml", &clusters("a"));
    let (again, _) = world.refused(3);
    assert_eq!(again["change"], refused["change"]);
    world.directory.remove(".xds-force");
    let (_, _) = world.refused(4);
    world.force(&refused);
    world.serve.wait_count("forced", 2);
    watch.wait_count("removed", 2);
    println!("covers: M272");
}

#[test]
fn first_state_is_judged_as_a_whole() {
    let rules = ["min:cds=2", "require:cds=a", "references", "max-removal=0"];
    let world =
        Guarded::new(&[("a.yaml", &clusters("b")), ("e.yaml", &endpoints("b", &[1]))], &rules);
    let (refused, texts) = world.refused(1);
    assert_eq!(texts, ["has 1 of at least 2 clusters", "lacks cds `a`, which is required"]);
    assert_eq!(refused["resources"], 0);
    let serving = world.serve.events_of("serving");
    assert_eq!(serving[0]["ready"], false);
    let (status, why) = request(&world.metrics, "GET /ready");
    assert_eq!(status, 503);
    assert!(why.contains("is refused: has 1 of at least 2 clusters (guard min:cds=2)"), "{why}");
    let watch = Xds::watch(&world.listen, &["cds"]);
    // A dangling reference, in a state that has enough clusters.
    let eds = clusters("a b").replace("  name: a\n", "  name: a\n  type: EDS\n");
    world.directory.replace("a.yaml", &eds);
    let (refused, texts) = world.refused(2);
    let text = "1 reference would be dangling: cds `a` refers to eds `a`, which is missing";
    assert_eq!((texts, &refused["dangling"]), (vec![text.to_owned()], &json!(1)));
    assert!(watch.events_of("changed").is_empty());
    world.directory.replace("a.yaml", &clusters("a b"));
    world.serve.wait_count("ready", 1);
    watch.wait_count("changed", 2);
    // From now on nothing may be removed.
    world.directory.replace("a.yaml", &clusters("b c d"));
    let (_, texts) = world.refused(3);
    let removal = "would remove 1 of 3 resources (33 percent), the limit is 0 percent: cds `a`";
    let removal = removal.replace("33", "34");
    assert_eq!(texts, ["would remove cds `a`, which is required".to_owned(), removal]);
    println!("covers: M271");
}

#[test]
fn empty_directory_is_refused_at_the_start() {
    let world = Guarded::new(&[], &["min:cds=1"]);
    let (refused, texts) = world.refused(1);
    assert_eq!(texts, ["has 0 of at least 1 clusters"]);
    assert_eq!(refused["objects"], json!([]));
    world.directory.save("a.yaml", &clusters("a"));
    world.serve.wait_count("ready", 1);
}

#[test]
fn table_names_the_files_and_the_way_to_force() {
    let directory = TempDir::new();
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        directory.save(&format!("{name}.yaml"), &clusters(name));
    }
    let path = directory.path().to_str().unwrap();
    let flags = ["--listen", "127.0.0.1:0", "--guard", "max-removal=50"];
    let table = Xds::spawn(&[&["serve", path][..], &flags].concat());
    table.wait_stdout("7 resources");
    let outside = TempDir::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        let file = format!("{name}.yaml");
        fs::rename(directory.join(&file), outside.join(&file)).unwrap();
    }
    table.wait_stderr(
        "error: refused: would remove 6 of 7 resources (86 percent), the limit is 50 percent:",
    );
    table.wait_stderr("       the served state is unchanged: 7 resources");
    let shown = table.stderr();
    let named = format!("changed files: {path}/a.yaml, {path}/b.yaml, {path}/c.yaml, ");
    assert!(shown.contains(&named), "{shown}");
    let (_, force) = shown.rsplit_once("to serve it nevertheless: echo ").unwrap();
    let (id, file) = force.split_once(" >> ").unwrap();
    assert!(file.starts_with(&format!("{path}/.xds-force\n")), "{shown}");
    directory.save(".xds-force", id);
    table.wait_stderr(&format!("warning: change {id} is forced: would remove 6 of 7 resources"));
    table.wait_stdout("reloaded: 0 changed, 6 removed, 1 resource");
}

#[test]
fn used_id_has_to_be_removed_before_it_forces_the_change_again() {
    let directory = TempDir::new();
    directory.save("a.yaml", &clusters("a b"));
    let path = directory.path().to_str().unwrap();
    let flags = ["--listen", "127.0.0.1:0", "--guard", "min:cds=2"];
    let table = Xds::spawn(&[&["serve", path][..], &flags].concat());
    table.wait_stdout("2 resources");
    directory.replace("a.yaml", &clusters("a"));
    table.wait_stderr("to serve it nevertheless: echo ");
    let shown = table.stderr();
    let (_, force) = shown.rsplit_once("to serve it nevertheless: echo ").unwrap();
    let (id, _) = force.split_once(" >> ").unwrap();
    fs::write(directory.join(".xds-force"), format!("{id}\n000000000000\nbd39\n")).unwrap();
    table.wait_stdout("reloaded: 0 changed, 1 removed, 1 resource");
    directory.replace("a.yaml", &clusters("a b"));
    table.wait_stdout("reloaded: 1 changed, 0 removed, 2 resources");
    directory.replace("a.yaml", &clusters("a"));
    table.wait_stderr(&format!(
        "       to serve it nevertheless: remove its id, which was used before, and \
         add it again after a second: echo {id} >> {path}/.xds-force\n       \
         not forced by 000000000000, which was used or belongs to another change\n       \
         not forced by `bd39`: expected the id of a change, 12 hexadecimal digits\n"
    ));
}

#[test]
fn rule_for_a_view_that_does_not_exist_is_a_warning() {
    let directory = TempDir::new();
    directory.save("a.yaml", &clusters("a"));
    let path = directory.path().to_str().unwrap();
    let rules = ["--guard", "min:cds=2@canray", "--guard", "min:cds=1@default"];
    let table = Xds::spawn(&[&["serve", path, "--listen", "127.0.0.1:0"][..], &rules].concat());
    let text = "the rule `min:cds=2@canray` has no effect: there is no view `canray`";
    table.wait_stderr(&format!("warning: {path}: {text}"));
    table.wait_stdout("1 resource");
    directory.replace("a.yaml", &clusters("a b"));
    table.wait_stdout("2 resources");
    assert_eq!(table.stderr().matches("has no effect").count(), 1, "{}", table.stderr());

    let views = TempDir::new();
    views.save(
        "v.yaml",
        "rules: [{ view: canary, when: { id: a } }]\nviews: { canary: { base: default } }\n",
    );
    let flags = ["--views", views.join("v.yaml").to_str().unwrap()].map(str::to_owned);
    let flags: Vec<_> = flags.iter().map(String::as_str).chain(rules).collect();
    let table = Xds::spawn(&[&["serve", path, "--listen", "127.0.0.1:0"], &flags[..]].concat());
    table.wait_stderr(&format!("{text}, did you mean `canary`?"));
}

#[test]
fn check_applies_the_rules_to_the_whole_directory() {
    let directory = TempDir::new();
    directory.save("a.yaml", &clusters("a b"));
    let path = directory.path().to_str().unwrap();
    let check = |guards: &[&str]| {
        let mut args = vec!["check", path];
        guards.iter().for_each(|guard| args.extend(["--guard", guard]));
        run(&args)
    };
    let ended = check(&["min:cds=2", "require:cds=a", "references", "max-removal=0"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    let ended = check(&["min:cds=3", "require:lds=web"]);
    assert_eq!(ended.code, Some(1));
    for text in [
        "error: ",
        "has 2 of at least 3 clusters (guard min:cds=3)",
        "lacks lds `web`, which is required (guard require:lds=web)",
        "2 resources in 1 file: 2 errors, 0 warnings",
    ] {
        assert!(ended.stdout.replace("\n       ", " ").contains(text), "{text}: {}", ended.stdout);
    }
    let ended = check(&["min:cds=9@nope", "min:cds=2@default"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    let shown = ended.stdout.replace("\n       ", " ");
    let warning = "the rule `min:cds=9@nope` has no effect: there is no view `nope`";
    assert!(shown.contains(warning) && shown.contains("0 errors, 1 warning"), "{shown}");
    let ndjson = run(&["check", path, "--guard", "min:cds=3", "-o", "ndjson"]).stdout;
    assert!(ndjson.contains(r#""rule":"guard""#), "{ndjson}");
}
