//! `xds serve --canary` and `--rollout-policy`, and `xds rollout`.

use std::fs;

use serde_json::{Value as Json, json};

use crate::{
    metrics::metric,
    support::{TempDir, Xds, clusters, endpoints, eventually, run},
};

/// A directory with resources, and the flags of a server on it.
struct Rollouts {
    resources: TempDir,
    other: TempDir,
    flags: Vec<String>,
}

/// Longer than any test.
const LONG: &str = "1h";

impl Rollouts {
    fn new(soak: &str) -> Self {
        Self::with(&["--canary", "id=canary-*", "--soak", soak])
    }

    fn with(flags: &[&str]) -> Self {
        let (resources, other) = (TempDir::new(), TempDir::new());
        resources.save("a.yaml", &clusters("a"));
        let flags = flags.iter().map(|it| (*it).to_owned()).collect();
        Self { resources, other, flags }
    }

    /// Writes a policy, and uses it.
    fn with_policy(policy: &str) -> Self {
        let mut world = Self::with(&[]);
        world.other.save("policy.yaml", policy);
        let path = world.other.join("policy.yaml").to_str().unwrap().to_owned();
        world.flags = vec!["--rollout-policy".to_owned(), path];
        world
    }

    fn state(&self) -> String {
        self.other.join("state").to_str().unwrap().to_owned()
    }

    fn serve(&self) -> (Xds, String) {
        self.serve_with(&[])
    }

    fn serve_with(&self, more: &[&str]) -> (Xds, String) {
        let state = self.state();
        let mut flags = vec!["--listen", "127.0.0.1:0", "--state", &state];
        flags.extend(self.flags.iter().map(String::as_str));
        flags.extend(more);
        Xds::serve_with(self.resources.path(), &flags)
    }

    /// Sets the timeout of the cluster `a`.
    fn change(&self, timeout: &str) {
        self.resources.replace("a.yaml", &clusters(&format!("a={timeout}")));
    }

    /// Runs a command of `xds rollout`.
    fn command(&self, command: &str, more: &[&str]) -> (Option<i32>, String) {
        let ended = run(&[&["rollout", command, &self.state()], more].concat());
        (ended.code, ended.stdout + &ended.stderr)
    }

    #[track_caller]
    fn wait_status(&self, text: &str) {
        eventually(text, || {
            let (code, shown) = self.command("status", &[]);
            if code == Some(0) && shown.contains(text) { Ok(()) } else { Err(shown) }
        });
    }
}

/// Watch of the clusters by a node.
fn watch(server: &str, node: &str) -> Xds {
    Xds::spawn(&["watch", "--server", server, "--node", node, "-o", "ndjson", "cds"])
}

/// Waits until the newest content of the cluster `a` at a client has a timeout.
#[track_caller]
fn wait_timeout(client: &Xds, timeout: &str) {
    client.wait(timeout, |events| {
        let newest = events.iter().rev().find(|it| it["event"] == "changed" && it["name"] == "a");
        newest.filter(|it| it["resource"]["connect_timeout"] == timeout).map(|_| ())
    });
}

/// Waits for the progress in a phase.
#[track_caller]
fn wait_phase(serve: &Xds, rollout: u64, phase: &str) -> Json {
    let is_wanted =
        |it: &Json| it["event"] == "rollout" && it["rollout"] == rollout && it["phase"] == phase;
    serve.wait_event(phase, is_wanted)
}

#[test]
fn accepted_change_reaches_the_cohort_first_and_all_after_promote() {
    let world = Rollouts::new(LONG);
    let (serve, address) = world.serve();
    let (canary, other) = (watch(&address, "canary-1"), watch(&address, "other-1"));
    wait_timeout(&canary, "1s");
    wait_timeout(&other, "1s");
    assert_eq!(
        world.command("status", &[]),
        (Some(0), "no rollout is under way; all clients have state 1".to_owned())
    );
    let (code, why) = world.command("abort", &[]);
    assert!(code == Some(1) && why.contains("there was no rollout yet"), "{why}");

    world.change("2s");
    wait_timeout(&canary, "2s");
    let begins = serve.wait_count("rollout_begins", 1);
    assert_eq!(begins[0]["changed_resources"], json!([{ "type": "cds", "name": "a" }]));
    let progress = wait_phase(&serve, 2, "soaking");
    let fields = ["step", "steps", "clients", "acknowledged"].map(|it| progress[it].as_u64());
    assert_eq!(fields, [Some(1), Some(1), Some(1), Some(1)], "{progress}");
    world.wait_status("soaking: 1 of 1 clients of the cohort have accepted the change");
    // Endpoints are no change of the configuration: all clients get them at once.
    let of_eds =
        |node| Xds::spawn(&["watch", "--server", &address, "--node", node, "-o", "ndjson", "eds"]);
    let all = [of_eds("canary-2"), of_eds("other-2")];
    world.resources.replace("e.yaml", &endpoints("a", &[7]));
    for client in &all {
        client.wait_count("changed", 1);
    }
    assert_eq!(other.events_of("changed").len(), 1, "it sees the stable resources");
    assert_eq!(serve.events_of("rollout_begins").len(), 1);

    let (code, said) = world.command("promote", &[]);
    assert_eq!((code, &*said), (Some(0), "rollout 2 is completed: all clients have the change"));
    wait_timeout(&other, "2s");
    wait_phase(&serve, 2, "completed");
    assert_eq!(canary.events_of("changed").len(), 2, "it has it already");
    for client in &all {
        assert_eq!(client.events_of("changed").len(), 1);
    }
    let (_, history) = world.command("history", &["-o", "ndjson"]);
    let ended: Json = serde_json::from_str(&history).unwrap();
    assert_eq!((&ended["rollout"], &ended["phase"]), (&json!(2), &json!("completed")));
    println!("covers: M273");
}

#[test]
fn rejected_change_is_rolled_back_and_goes_out_again_only_when_it_is_changed() {
    let world = Rollouts::new("100ms");
    let (serve, address) = world.serve();
    let (canary, other) = (watch(&address, "canary-1"), watch(&address, "other-1"));
    wait_timeout(&canary, "1s");
    wait_timeout(&other, "1s");
    world.change("0s");
    let rolled_back = wait_phase(&serve, 2, "rolled-back");
    let client = &rolled_back["reason"]["clients"][0];
    assert_eq!(
        (&client["node"], &client["type"], &client["resources"]),
        (&json!("canary-1"), &json!("cds"), &json!(["a"])),
        "{rolled_back}"
    );
    assert!(client["message"].as_str().unwrap().contains("connect_timeout"), "{client}");
    let (_, shown) = world.command("status", &[]);
    assert!(shown.starts_with("rollout 2 is rolled back: step 1: clients rejected"), "{shown}");
    // Another change has what was rolled back too, as the files have it.
    world.resources.replace("b.yaml", &clusters("b"));
    wait_phase(&serve, 3, "rolled-back");
    world.change("3s");
    wait_phase(&serve, 4, "completed");
    wait_timeout(&other, "3s");
    wait_timeout(&canary, "3s");
    let names: Vec<_> = other.events_of("changed").iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.contains(&json!("b")), "{names:?}");
    assert_eq!(other.events_of("removed").len(), 0);
    println!("covers: M273");
}

#[test]
fn rollout_continues_after_a_restart_and_can_be_ended_meanwhile() {
    let world = Rollouts::new(LONG);
    let (mut serve, address) = world.serve();
    let first = watch(&address, "canary-1");
    wait_timeout(&first, "1s");
    world.change("2s");
    wait_phase(&serve, 2, "soaking");
    serve.kill();

    let (mut serve, address) = world.serve();
    let (canary, other) = (watch(&address, "canary-1"), watch(&address, "other-1"));
    wait_timeout(&canary, "2s");
    wait_timeout(&other, "1s");
    wait_phase(&serve, 2, "soaking");
    serve.kill();

    // While the server is away, the rollout is paused.
    assert_eq!(world.command("pause", &[]).0, Some(0));
    let (mut serve, address) = world.serve();
    wait_phase(&serve, 2, "paused");
    wait_timeout(&watch(&address, "canary-1"), "2s");
    wait_timeout(&watch(&address, "other-1"), "1s");
    serve.kill();
    assert_eq!(world.command("abort", &[]).0, Some(0));
    let (mut serve, address) = world.serve();
    let (canary, other) = (watch(&address, "canary-1"), watch(&address, "other-1"));
    wait_timeout(&canary, "1s");
    wait_timeout(&other, "1s");
    assert_eq!(serve.events_of("rollout_begins").len(), 0, "the files have not changed");
    serve.kill();

    world.change("4s");
    world.resources.replace("e.yaml", &endpoints("a", &[7]));
    let (mut serve, address) = world.serve();
    let (canary, other) = (watch(&address, "canary-1"), watch(&address, "other-1"));
    wait_timeout(&canary, "4s");
    wait_timeout(&other, "1s");
    let eds = Xds::spawn(&["watch", "--server", &address, "--node", "x", "-o", "ndjson", "eds"]);
    eds.wait_count("changed", 1);
    wait_phase(&serve, 3, "soaking");
    serve.kill();
    assert_eq!(world.command("promote", &[]).0, Some(0));
    let (_serve, address) = world.serve();
    wait_timeout(&watch(&address, "other-1"), "4s");
    println!("covers: M273");
}

#[test]
fn halted_rollout_holds_and_a_newer_change_supersedes_it() {
    let canary = ["--canary", "id=canary-*,50%", "--soak", LONG, "--on-halt", "hold"];
    let world = Rollouts::with(&[&canary[..], &["--metrics", "127.0.0.1:0"]].concat());
    let (serve, address) = world.serve();
    let canary = watch(&address, "canary-1");
    wait_timeout(&canary, "1s");
    world.change("0s");
    wait_phase(&serve, 2, "halted");
    let metrics = serve.events_of("serving")[0]["metrics"].as_str().unwrap().to_owned();
    let shown =
        ["xds_rollout", "xds_rollout_under_way", "xds_rollout_waiting", "xds_rollout_steps"];
    assert_eq!(
        shown.map(|name| metric(&metrics, name)),
        [Some(2.0), Some(1.0), Some(1.0), Some(2.0)]
    );
    world.wait_status("rollout 2 is halted, step 1 of 2: step 1: clients rejected the change");
    world.change("5s");
    wait_phase(&serve, 2, "rolled-back");
    wait_phase(&serve, 3, "soaking");
    wait_timeout(&canary, "5s");
    println!("covers: M273");
}

#[test]
fn metric_command_decides() {
    let world = Rollouts::with_policy(
        "steps: [{ when: { id: canary-* }, min_clients: 0, soak: 100ms }]\n\
         metrics: [{ name: errors, command: [sh, -c, 'cat \"$0\" && exit 1', FILE], every: 100ms }]\n",
    );
    let file = world.other.join("verdict").to_str().unwrap().to_owned();
    let policy = fs::read_to_string(world.other.join("policy.yaml")).unwrap();
    // The command fails with what the file has, and succeeds without the file.
    let policy = policy.replace("&& exit 1", "&& exit 1 || ! test -f \"$0\"");
    world.other.save("policy.yaml", &policy.replace("FILE", &file));
    fs::write(&file, "7 of 100 requests failed\n").unwrap();
    let (serve, _) = world.serve();
    world.change("2s");
    let reason = wait_phase(&serve, 2, "rolled-back")["reason"]["text"].clone();
    let reason = reason.as_str().unwrap();
    assert!(reason.contains("errors") && reason.contains("7 of 100 requests failed"), "{reason}");
    fs::remove_file(file).unwrap();
    world.change("3s");
    wait_phase(&serve, 3, "completed");
    println!("covers: M273");
}

#[test]
fn guards_judge_the_whole_state_before_it_is_rolled_out() {
    let world = Rollouts::with(&[
        "--canary",
        "id=canary-*",
        "--soak",
        LONG,
        "--guard",
        "references",
        "--guard",
        "require:cds=a",
    ]);
    let (serve, _) = world.serve();
    world
        .resources
        .replace("b.yaml", &clusters("b").replace("  name: b\n", "  name: b\n  type: EDS\n"));
    serve.wait_count("refused", 1);
    assert_eq!(serve.events_of("rollout_begins").len(), 0);
    world.resources.replace("e.yaml", &endpoints("b", &[1]));
    serve.wait_count("rollout_begins", 1);
    // The endpoints are in the files and in the candidate, and not in the stable resources.
    world.resources.replace(
        "c.yaml",
        &clusters("c").replace(
            "  name: c\n",
            "  name: c\n  type: EDS\n  eds_cluster_config: { service_name: b }\n",
        ),
    );
    serve.wait_count("rollout_begins", 2);
    assert_eq!(serve.events_of("refused").len(), 1);
    println!("covers: M270 M273");
}

#[test]
fn wrong_options_and_states_are_explained() {
    let world = Rollouts::new(LONG);
    let (mut serve, _) = world.serve();
    let state = world.state();
    let resources = world.resources.path().to_str().unwrap();
    let serve_with = |flags: &[&str]| {
        let ended = run(&[&["serve", resources, "--listen", "127.0.0.1:0"], flags].concat());
        (ended.code, ended.stderr)
    };
    let (code, why) = serve_with(&["--state", &state, "--canary", "5%"]);
    assert!(code == Some(1) && why.contains("another server uses"), "{why}");
    let (code, why) = serve_with(&["--state", resources, "--canary", "5%"]);
    assert!(code == Some(1) && why.contains("must not be the served directory"), "{why}");
    let files = fs::read_dir(world.resources.path()).unwrap().count();
    assert_eq!(files, 1, "nothing was written");
    let (code, why) = serve_with(&["--canary", "5%"]);
    assert!(code == Some(2) && why.contains("--state"), "{why}");
    let (code, why) = serve_with(&["--state", &state]);
    assert!(code == Some(2) && why.contains("only with --canary or --rollout-policy"), "{why}");
    let (code, why) = serve_with(&["--state", &state, "--canary", "5%,5%"]);
    assert!(code == Some(2) && why.contains("step 2 adds no client"), "{why}");
    world.other.save("policy.yaml", "steps:\n- percnt: 5\n");
    let policy = world.other.join("policy.yaml").to_str().unwrap().to_owned();
    let (code, why) = serve_with(&["--state", &state, "--rollout-policy", &policy]);
    assert_eq!(code, Some(1));
    assert!(why.contains("policy.yaml:2:11: steps[0].percnt: unknown field"), "{why}");

    // Another policy than that of the rollout under way.
    world.change("2s");
    let begun = serve.wait_count("rollout_begins", 1);
    assert_eq!(begun[0]["rollout"], 2);
    wait_phase(&serve, 2, "deploying");
    serve.kill();
    let (code, why) = serve_with(&["--state", &state, "--canary", "5%,50%"]);
    assert!(
        code == Some(1)
            && why.contains("1 steps and the policy has 2")
            && why.contains("xds rollout abort"),
        "{why}"
    );
    // The attempt has changed nothing: with its own policy, the rollout continues.
    let (mut serve, address) = world.serve();
    wait_phase(&serve, 2, "deploying");
    wait_timeout(&watch(&address, "canary-1"), "2s");
    wait_timeout(&watch(&address, "other-1"), "1s");
    serve.kill();
    let (code, why) = world.command("resume", &[]);
    assert!(code == Some(1) && why.contains("resume is not possible"), "{why}");
    let (code, why) = {
        let ended = run(&["rollout", "status", world.other.join("none").to_str().unwrap()]);
        (ended.code, ended.stderr)
    };
    assert!(code == Some(1) && why.contains("No such file or directory"), "{why}");
    println!("covers: M273");
}

#[test]
fn change_is_rolled_out_once_the_first_resources_are_stored() {
    let world = Rollouts::new(LONG);
    // No file can have this name.
    fs::create_dir_all(world.other.join("state/contents-1.pb")).unwrap();
    let (serve, address) = world.serve();
    let (canary, other) = (watch(&address, "canary-1"), watch(&address, "other-1"));
    wait_timeout(&canary, "1s");
    wait_timeout(&other, "1s");
    eventually("an error", || {
        let events = format!("{:?}", serve.events_of("file_error"));
        let why = "no change is rolled out until the first resources are stored";
        if events.contains(why) { Ok(()) } else { Err(events) }
    });
    world.change("2s");
    world.resources.save("eds.yaml", &endpoints("a", &[1]));
    let of_eds = ["watch", "--server", &address, "-o", "ndjson", "eds"];
    Xds::spawn(&of_eds).wait_count("changed", 1);
    assert_eq!(canary.events_of("changed").len(), 1);
    fs::remove_dir(world.other.join("state/contents-1.pb")).unwrap();
    wait_timeout(&canary, "2s");
    wait_phase(&serve, 2, "soaking");
    assert_eq!(other.events_of("changed").len(), 1);
    world.command("abort", &[]);
    wait_timeout(&canary, "1s");
}

#[test]
fn change_that_could_not_be_stored_is_rolled_out_later() {
    let world = Rollouts::with(&["--canary", "id=canary-*", "--soak", LONG]);
    let (serve, address, metrics) = serve_with_a_failure_to_store(&world);
    let canary = watch(&address, "canary-1");
    fs::remove_dir(world.other.join("state/contents-2.pb")).unwrap();
    wait_timeout(&canary, "2s");
    wait_rollout_failing(&metrics, 0.0);
    assert_eq!(serve.events_of("file_error").len(), 1, "it is reported once");
}

#[test]
fn failure_to_store_a_change_ends_when_a_guard_refuses_the_next_one() {
    let flags = ["--canary", "id=canary-*", "--soak", LONG, "--guard", "max-removal:cds=0"];
    let world = Rollouts::with(&flags);
    let (serve, _, metrics) = serve_with_a_failure_to_store(&world);
    world.resources.replace("a.yaml", &clusters("b"));
    serve.wait_count("refused", 1);
    wait_rollout_failing(&metrics, 0.0);
}

/// Starts a server that cannot store the second change. Returns it with its addresses for clients and
/// for metrics.
fn serve_with_a_failure_to_store(world: &Rollouts) -> (Xds, String, String) {
    let (serve, address) = world.serve_with(&["--metrics", "127.0.0.1:0"]);
    let serving = serve.wait_event("serving", |event| event["event"] == "serving");
    let metrics = serving["metrics"].as_str().unwrap().to_owned();
    wait_rollout_failing(&metrics, 0.0);
    wait_timeout(&watch(&address, "canary-1"), "1s");
    fs::create_dir_all(world.other.join("state/contents-2.pb")).unwrap();
    world.change("2s");
    eventually("an error", || {
        let events = format!("{:?}", serve.events_of("file_error"));
        if events.contains("the rollout cannot be stored") { Ok(()) } else { Err(events) }
    });
    wait_rollout_failing(&metrics, 1.0);
    (serve, address, metrics)
}

#[track_caller]
fn wait_rollout_failing(metrics: &str, expected: f64) {
    eventually("the metric of failing rollouts", || match metric(metrics, "xds_rollout_failing") {
        Some(found) if found == expected => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

#[test]
fn rollouts_of_a_directory_need_a_place_for_their_state() {
    let world = Rollouts::new(LONG);
    let directory = world.resources.path().to_str().unwrap();
    let flags = world.flags.iter().map(String::as_str).collect::<Vec<_>>();
    let ended = run(&[&["serve", directory, "--listen", "127.0.0.1:0"], &flags[..]].concat());
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("need --state DIR: the source is a directory"),
        "{}",
        ended.stderr
    );
}
