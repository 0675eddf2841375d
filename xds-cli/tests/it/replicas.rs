//! `xds status` of several replicas, and what a server reports about its source.

use serde_json::{Value as Json, json};

use crate::support::{Ended, TempDir, Xds, clusters, eventually, free_address, run};

fn watch(server: &str, node: &str) -> Xds {
    Xds::spawn(&["watch", "--server", server, "--node-id", node, "-o", "ndjson", "cds"])
}

fn status(args: &[&str]) -> Ended {
    run(&[&["status"][..], args].concat())
}

fn events(text: &str) -> Vec<Json> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn replicas_are_shown_as_one_status() {
    let (one, other) = (TempDir::new(), TempDir::new());
    one.save("cds.yaml", &clusters("a b"));
    other.save("cds.yaml", &clusters("a b=2s"));
    let (_first, first_discovery, first) = Xds::serve_with_csds(one.path());
    let (_second, second_discovery, second) = Xds::serve_with_csds(other.path());
    let gone = free_address();
    let watches = [
        watch(&first_discovery, "n1"),
        watch(&second_discovery, "n1"),
        watch(&second_discovery, "n2"),
        watch(&second_discovery, "n2"),
    ];
    watches.iter().for_each(|watch| drop(watch.wait_count("changed", 2)));

    let shown = eventually("clients", || {
        let ended = status(&[&first, &second, &gone]);
        let words = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        // Each replica has the ACKs of its clients.
        let are_synced = ["n1 cds 2 SYNCED", "n2 cds 2 SYNCED"].iter().all(|it| words.contains(it));
        if are_synced { Ok(ended) } else { Err(ended.stdout) }
    });
    assert_eq!(shown.code, Some(1), "{}", shown.stderr);
    assert_eq!(shown.stderr, "xds: 1 of 3 replicas cannot be read, 1 resource differs");
    let lines: Vec<Vec<&str>> =
        shown.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["REPLICA", "REVISION", "BEHIND", "CLIENTS", "STREAMS", "SOURCE"]);
    assert_eq!(lines[1], [&*first, "-", "-", "1", "1", "-"]);
    assert_eq!(lines[2], [&*second, "-", "-", "2", "3", "-"]);
    assert_eq!(lines[3][..5], [&*gone, "-", "-", "-", "-"]);
    assert_eq!(lines[5], ["CLIENT", "TYPE", "RESOURCES", "STATUS", "REPLICAS"]);
    let mut both = [first.as_str(), second.as_str()];
    both.sort_unstable();
    let both = format!("{}, {}", both[0], both[1]);
    assert_eq!(lines[6].join(" "), format!("n1 cds 2 SYNCED {both}"));
    assert_eq!(lines[7].join(" "), format!("n2 cds 2 SYNCED {second} (2 streams)"));
    assert_eq!(lines[9], ["~", "cds", "b", "differs"]);
    assert_eq!((lines[10][0], lines[11][0]), (&*first, &*second));

    // Replicas that agree, as NDJSON.
    other.replace("cds.yaml", &clusters("a b"));
    let ended = eventually("no difference", || {
        let ended = status(&[&first, &second, "--replicas", "-o", "ndjson", "--node", "n2"]);
        if ended.code == Some(0) { Ok(ended) } else { Err(ended.stdout) }
    });
    let events = events(&ended.stdout);
    let kinds: Vec<_> = events.iter().map(|it| it["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["replica", "replica", "client"]);
    assert_eq!((&events[0]["replica"], &events[0]["clients"]), (&json!(first), &json!(0)));
    assert_eq!(events[2]["replicas"], json!([second]));
    assert_eq!(events[2]["streams"], json!({ second.as_str(): 2 }));
    // The other client accepts the change at another time.
    let document = eventually("no difference of any client", || {
        let stdout = status(&[&first, &second, "--replicas", "-o", "json"]).stdout;
        let document: Json = serde_json::from_str(&stdout).unwrap();
        if document["differing"] == json!([]) { Ok(document) } else { Err(stdout) }
    });
    assert_eq!(document["clients"].as_array().unwrap().len(), 2);
}

#[test]
fn changes_of_replicas_are_printed_while_watching() {
    let (one, other) = (TempDir::new(), TempDir::new());
    one.save("cds.yaml", &clusters("a"));
    other.save("cds.yaml", &clusters("a"));
    let (_first, first_discovery, first) = Xds::serve_with_csds(one.path());
    let (mut second_server, second_discovery, second) = Xds::serve_with_csds(other.path());
    let watches = [watch(&first_discovery, "n1"), watch(&second_discovery, "n2")];
    watches.iter().for_each(|watch| drop(watch.wait_count("changed", 1)));
    let follow = |more: &[&str]| {
        let args = ["status", &first, &second, "--replicas", "--watch=100ms", "--for", "60s"];
        Xds::spawn(&[&args[..], more].concat())
    };
    let (events, lines) = (follow(&["-o", "ndjson"]), follow(&[]));
    events.wait_count("client", 2);
    lines.wait_stdout("+ n2  cds  1 SYNCED at ");
    other.replace("cds.yaml", &clusters("a=2s"));
    let differing = events.wait_count("differing", 1).remove(0);
    assert_eq!(differing["name"], "a");
    lines.wait_stdout("+ cds a differs");
    one.replace("cds.yaml", &clusters("a=2s"));
    events.wait_count("agreed", 1);
    lines.wait_stdout("- cds a differs");
    second_server.kill();
    events.wait_event("an error", |it| it["event"] == "replica" && it["error"].is_string());
    events.wait_event("the client", |it| it["event"] == "removed" && it["node"] == "n2");
    lines.wait_stdout(&format!("~ {second}  cannot be read: "));
}

#[test]
fn no_replica_that_can_be_read_is_exit_code_4() {
    let gone = free_address();
    for (args, code) in [
        (&[&*gone, &gone, &gone][..], 4),
        (&[&gone, "--replicas"], 4),
        (&[&gone, &gone, &gone, "--watch"], 4),
        (&[&gone, &gone, "--replicas", "-o", "yaml"], 2),
        (&[&gone, &gone, &gone, "--watch", "-o", "json"], 2),
    ] {
        let ended = status(args);
        assert_eq!(ended.code, Some(code), "{args:?}: {}", ended.stderr);
    }
}
