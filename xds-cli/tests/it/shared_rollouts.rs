//! Rollouts that servers share through a real etcd. `XDS_ETCD` names its binary:
//! `XDS_ETCD=etcd cargo test -p xds-cli --test it shared_rollouts:: -- --ignored`.

use serde_json::Value as Json;

use crate::{
    etcd::{Etcd, Relay},
    support::{TempDir, Xds, eventually, run},
};

/// Servers on one etcd, with a policy of two steps.
struct World {
    etcd: Etcd,
    policy: TempDir,
}

impl World {
    /// Steps soak for this time.
    fn new(soak: &str) -> Self {
        let (etcd, policy) = (Etcd::start(), TempDir::new());
        etcd.write("", "a=1s");
        let steps = format!(
            "steps:\n- {{ when: {{ id: canary-* }}, soak: {soak}, timeout: 30s }}\n\
             - {{ percent: 50, soak: {soak}, timeout: 30s }}\n"
        );
        policy.save("policy.yaml", &steps);
        Self { etcd, policy }
    }

    fn serve(&self) -> Replica {
        Replica::start(self, &self.etcd.source(), "127.0.0.1:0")
    }

    /// Starts a server that reaches etcd through a relay.
    fn serve_through(&self, relay: &Relay) -> Replica {
        Replica::start(self, &format!("etcd://{}/xds", relay.address), "127.0.0.1:0")
    }

    fn command(&self, command: &str) -> String {
        let ended = run(&["rollout", command, &self.etcd.source()]);
        ended.stdout + &ended.stderr
    }

    fn status(&self) -> Json {
        let ended = run(&["rollout", "status", &self.etcd.source(), "-o", "ndjson"]);
        serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr))
    }

    #[track_caller]
    fn wait_phase(&self, phase: &str) -> Json {
        eventually(phase, || match self.status() {
            status if status["state"]["phase"] == phase => Ok(status),
            status => Err(status.to_string()),
        })
    }
}

struct Replica {
    serve: Xds,
    listen: String,
}

impl Replica {
    fn start(world: &World, source: &str, listen: &str) -> Self {
        let policy = world.policy.join("policy.yaml");
        let flags = ["serve", source, "-o", "ndjson", "--listen", listen, "--report-rejections"];
        let flags = [&flags[..], &["--rollout-policy", policy.to_str().unwrap()]].concat();
        let serve = Xds::spawn(&flags);
        let serving = serve.wait_event("serving", |event| event["event"] == "serving");
        Self { serve, listen: serving["listen"].as_str().unwrap().to_owned() }
    }

    fn watch(&self, node: &str) -> Xds {
        let args = ["watch", "--server", &self.listen, "--node-id", node, "-o", "ndjson", "cds"];
        Xds::spawn(&args)
    }

    /// Ends it as a crash does, and starts it again on its port.
    fn restart(&mut self, world: &World) {
        self.serve.kill();
        *self = Self::start(world, &world.etcd.source(), &self.listen);
    }
}

/// Timeouts that a client has got for the cluster `a`.
fn seen(client: &Xds) -> Vec<String> {
    let of_a = |it: &&Json| it["event"] == "changed" && it["name"] == "a";
    let events = client.events();
    let changed = events.iter().filter(of_a);
    changed.map(|it| it["resource"]["connect_timeout"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn wait_seen(client: &Xds, timeout: &str) {
    eventually(timeout, || match seen(client) {
        all if all.last().is_some_and(|it| it == timeout) => Ok(()),
        all => Err(format!("{all:?}")),
    });
}

#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn change_reaches_the_cohort_at_all_servers_first_and_all_after_the_last_step() {
    let world = World::new("1s");
    let servers = [world.serve(), world.serve(), world.serve()];
    let canaries: Vec<_> = servers.iter().map(|it| it.watch("canary-1")).collect();
    let others: Vec<_> = servers.iter().map(|it| it.watch("other-1")).collect();
    canaries.iter().chain(&others).for_each(|it| wait_seen(it, "1s"));
    assert!(world.command("status").contains("no rollout is under way"));
    world.etcd.write("", "a=2s");
    canaries.iter().for_each(|it| wait_seen(it, "2s"));
    others.iter().for_each(|it| assert_eq!(seen(it), ["1s"]));
    world.wait_phase("completed");
    others.iter().for_each(|it| wait_seen(it, "2s"));
    canaries.iter().for_each(|it| assert_eq!(seen(it), ["1s", "2s"]));
    assert!(world.command("history").contains("is completed"));
}

#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn rejection_at_one_server_rolls_back_at_all() {
    let world = World::new("1h");
    let servers = [world.serve(), world.serve()];
    let canaries: Vec<_> = servers.iter().map(|it| it.watch("canary-1")).collect();
    canaries.iter().for_each(|it| wait_seen(it, "1s"));
    let other = servers[1].watch("other-1");
    wait_seen(&other, "1s");
    // The client checks the constraints of the API.
    world.etcd.write("", "a=0s");
    let status = world.wait_phase("rolled-back");
    assert!(status["state"]["why"].as_str().unwrap().contains("canary-1"), "{status}");
    for server in &servers {
        server.serve.wait_event("rolled back", |it| it["phase"] == "rolled-back");
    }
    assert_eq!(seen(&other), ["1s"]);
    // The author of the resource learns it, although no client has it any more.
    eventually("a rejection", || {
        let rejected = world.etcd.with_store("/xds/@rejected", async |store| {
            let stored = store.read().await.unwrap().resources;
            stored.iter().map(|(name, value)| format!("{name:?} {value:?}")).collect::<String>()
        });
        let is_written = rejected.contains("a/") && rejected.contains("connect_timeout");
        if is_written { Ok(()) } else { Err(rejected) }
    });
    // A new server has the stable resources, although the source has the bad ones.
    let new = world.serve();
    let client = new.watch("canary-1");
    wait_seen(&client, "1s");
    // The source is repaired.
    world.etcd.write("", "a=3s");
    wait_seen(&client, "3s");
    canaries.iter().for_each(|it| wait_seen(it, "3s"));
    assert!(!seen(&client).contains(&"0s".to_owned()));
}

#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn rollout_continues_when_all_servers_have_restarted_and_on_command() {
    let world = World::new("1h");
    let mut servers = [world.serve(), world.serve()];
    wait_seen(&servers[0].watch("canary-1"), "1s");
    world.etcd.write("", "a=2s");
    world.wait_phase("running");
    for server in &mut servers {
        server.restart(&world);
    }
    let (canary, other) = (servers[0].watch("canary-1"), servers[1].watch("other-1"));
    wait_seen(&canary, "2s");
    wait_seen(&other, "1s");
    let paused = world.command("pause");
    assert!(paused.contains("is paused, step 1 of 2"), "{paused}");
    for server in &servers {
        server.serve.wait_event("paused", |it| it["phase"] == "paused");
    }
    world.command("resume");
    eventually("progress", || match world.command("status") {
        shown if shown.contains("soaking: 1 of 1 clients of the cohort have accepted") => Ok(()),
        shown => Err(shown),
    });
    let promoted = world.command("promote");
    assert!(promoted.contains("is completed"), "{promoted}");
    wait_seen(&other, "2s");
    assert_eq!(
        (seen(&canary), seen(&other)),
        (vec!["2s".to_owned()], vec!["1s".to_owned(), "2s".to_owned()])
    );
}

#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn change_that_a_server_has_missed_is_rolled_out_once() {
    let world = World::new("1h");
    let (first, mut second) = (world.serve(), world.serve());
    wait_seen(&first.watch("other-1"), "1s");
    second.serve.kill();
    world.etcd.write("", "a=2s");
    let status = world.wait_phase("running");
    let rollout = status["state"]["rollout"].clone();
    second.restart(&world);
    wait_seen(&second.watch("canary-1"), "2s");
    wait_seen(&second.watch("other-1"), "1s");
    let status = world.status();
    assert_eq!(
        (&status["state"]["rollout"], &status["state"]["generation"]),
        (&rollout, &2.into())
    );
    assert_eq!(first.serve.events_of("rollout_begins").len(), 1);
}

#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn change_that_a_running_server_has_missed_is_read_from_etcd() {
    let world = World::new("1h");
    let first = world.serve();
    let relay = Relay::start(&world.etcd.address);
    let second = world.serve_through(&relay);
    let (canary, other) = (second.watch("canary-1"), second.watch("other-1"));
    wait_seen(&other, "1s");
    wait_seen(&canary, "1s");
    relay.close();
    world.etcd.write("", "a=2s");
    world.wait_phase("running");
    world.command("promote");
    wait_seen(&first.watch("other-1"), "2s");
    world.etcd.write("", "a=3s");
    let rollout = world.wait_phase("running")["state"]["rollout"].clone();
    // The server has to read all again, and cannot know when they have changed.
    world.etcd.compact();
    relay.open();
    wait_seen(&canary, "3s");
    wait_seen(&other, "2s");
    assert_eq!(seen(&other), ["1s", "2s"]);
    assert_eq!(world.status()["state"]["rollout"], rollout, "it is the same rollout");
    world.command("abort");
    wait_seen(&canary, "2s");
}

#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn large_change_is_one_rollout() {
    let world = World::new("1h");
    let servers = [world.serve(), world.serve(), world.serve()];
    let canaries: Vec<_> = servers.iter().map(|it| it.watch("canary-1")).collect();
    let other = servers[0].watch("other-1");
    canaries.iter().chain([&other]).for_each(|it| wait_seen(it, "1s"));
    // More than a transaction may have, so it is written as a new generation.
    let clusters: Vec<_> = (0..300).map(|it| format!("c{it}=1s")).collect();
    world.etcd.write("", &format!("a=2s {}", clusters.join(" ")));
    canaries.iter().for_each(|it| drop(it.wait_count("changed", 302)));
    eventually("progress of all", || match world.command("status") {
        shown if shown.matches("soaking: 1 of 1 clients").count() == 3 => Ok(()),
        shown => Err(shown),
    });
    assert_eq!(seen(&other), ["1s"]);
    assert_eq!(canaries.iter().map(seen).collect::<Vec<_>>(), vec![["1s", "2s"]; 3]);
    world.command("promote");
    wait_seen(&other, "2s");
}

#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn rejection_rolls_back_at_once_while_etcd_is_away() {
    let world = World::new("1h");
    let relay = Relay::start(&world.etcd.address);
    let server = world.serve_through(&relay);
    wait_seen(&server.watch("canary-1"), "1s");
    // No client has rejected it yet.
    world.etcd.write("", "a=0s");
    world.wait_phase("running");
    relay.close();
    let canary = server.watch("canary-2");
    server.serve.wait_event("rolled back", |it| it["phase"] == "rolled-back");
    wait_seen(&canary, "1s");
    assert_eq!(world.status()["state"]["phase"], "running");
    relay.open();
    world.wait_phase("rolled-back");
}

#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn server_waits_for_etcd_and_explains_another_policy() {
    let mut world = World::new("1h");
    world.etcd.kill();
    let server = world.serve();
    let error = server.serve.wait_event("an error", |it| it["event"] == "file_error");
    assert!(error["error"].as_str().unwrap().contains("etcd"), "{error}");
    let canary = server.watch("canary-1");
    world.etcd.restart();
    wait_seen(&canary, "1s");
    world.etcd.write("", "a=2s");
    wait_seen(&canary, "2s");
    world.policy.save("policy.yaml", "steps: [{ percent: 1, soak: 1h }]\n");
    let other = world.serve();
    let error = other.serve.wait_event("an error", |it| it["event"] == "file_error");
    let why = error["error"].as_str().unwrap();
    assert!(why.contains("steps") && why.contains("xds rollout abort"), "{why}");
    // It serves nothing until the rollout of the others has ended.
    let waiting = other.watch("other-1");
    world.command("promote");
    wait_seen(&waiting, "2s");
    assert_eq!(other.serve.events_of("file_error").len(), 1, "it is reported once");
}

#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn running_server_with_another_policy_says_so_once() {
    let world = World::new("1h");
    let server = world.serve();
    let canary = server.watch("canary-1");
    wait_seen(&canary, "1s");
    world.policy.save("policy.yaml", "steps: [{ percent: 1, soak: 1h }]\n");
    let mut other = world.serve();
    // The other server begins the rollout.
    other.serve.send_signal("STOP");
    world.etcd.write("", "a=2s");
    wait_seen(&canary, "2s");
    other.serve.send_signal("CONT");
    let error = other.serve.wait_event("an error", |it| it["event"] == "file_error");
    let why = error["error"].as_str().unwrap();
    assert!(why.contains("steps") && why.contains("xds rollout abort"), "{why}");
    // It repeats the attempt for some seconds.
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(other.serve.events_of("file_error").len(), 1, "{}", other.serve.stdout());
    assert!(other.serve.is_running());
}
