//! `xds serve`: changes of files, as seen in its events and by a client.

use std::{fs, path::Path};

use crate::support::{TempDir, Xds, clusters, endpoints};
use serde_json::{Value as Json, json};

/// Server on a directory, and a client that watches its clusters.
struct World {
    directory: TempDir,
    serve: Xds,
    watch: Xds,
}

impl World {
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = TempDir::new();
        for (name, content) in files {
            directory.save(name, content);
        }
        let (serve, address) = Xds::serve(directory.path());
        let watch = Xds::watch(&address, &["cds", "eds"]);
        Self { directory, serve, watch }
    }

    /// Waits until the client has reported these changes of clusters: `+name` and
    /// `-name`, in order.
    #[track_caller]
    fn expect_changes(&self, expected: &[&str]) {
        let news = self.watch.wait(&format!("{expected:?}"), |events| {
            let mut news: Vec<String> = events.iter().filter_map(news).collect();
            // The order within one response does not matter.
            let complete = news.len() >= expected.len();
            news.sort();
            complete.then_some(news)
        });
        let mut expected: Vec<&str> = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(news, expected);
    }

    /// Expects these reloads so far, each as the numbers of resources, changed and removed.
    #[track_caller]
    fn expect_reloads(&self, expected: &[(u64, u64, u64)]) {
        let seen: Vec<_> = self
            .serve
            .wait_count("reloaded", expected.len())
            .iter()
            .map(|it| ["resources", "changed", "removed"].map(|field| it[field].as_u64().unwrap()))
            .map(|[resources, changed, removed]| (resources, changed, removed))
            .collect();
        assert_eq!(seen, expected);
    }
}

fn news(event: &Json) -> Option<String> {
    let name = event["name"].as_str()?;
    match event["event"].as_str()? {
        "changed" => Some(format!("+{name}")),
        "removed" => Some(format!("-{name}")),
        "ambient" if !event["error"].is_null() => Some(format!("!{name}")),
        _ => None,
    }
}

#[test]
fn each_edit_causes_one_reload() {
    let world =
        World::new(&[("cds.yaml", &clusters("one two")), ("eds.yaml", &endpoints("one", &[1]))]);
    let World { directory, serve, .. } = &world;
    let serving = serve.wait_event("serving", |event| event["event"] == "serving");
    assert_eq!(serving["resources"], 3);
    world.expect_changes(&["+one", "+two", "+one"]);

    // Saved in place: the file is empty for a moment, which is not taken as its new state.
    directory.save("cds.yaml", &clusters("one=2s two"));
    world.expect_changes(&["+one", "+two", "+one", "+one"]);
    world.expect_reloads(&[(3, 1, 0)]);
    // A new file renamed over the old one.
    directory.replace("cds.yaml", &clusters("one=2s three"));
    world.expect_changes(&["+one", "+two", "+one", "+one", "+three", "-two"]);
    world.expect_reloads(&[(3, 1, 0), (3, 1, 1)]);
    // A new file, in another format, with several types.
    let four = json!({ "resources": [
        { "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "four" },
        { "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment", "clusterName": "four" },
    ] });
    directory.replace("four.json", &four.to_string());
    world.expect_reloads(&[(3, 1, 0), (3, 1, 1), (5, 2, 0)]);
    // A deleted file. State of the world cannot remove endpoints, so the client keeps those
    // of the cluster.
    directory.remove("four.json");
    world.expect_reloads(&[(3, 1, 0), (3, 1, 1), (5, 2, 0), (3, 0, 2)]);
    world.expect_changes(&[
        "+one", "+two", "+one", "+one", "+three", "-two", "+four", "+four", "-four",
    ]);
    // Changes without an effect cause no reload: hidden files, other suffixes, other spellings.
    directory.save(".hidden.yaml", &clusters("hidden"));
    directory.save("README.md", "not a resource");
    directory.save("cds.yaml", &format!("# The same.\n{}", clusters("three one=2.0s")));
    directory.save("last.yaml", &clusters("last"));
    world.expect_reloads(&[(3, 1, 0), (3, 1, 1), (5, 2, 0), (3, 0, 2), (4, 1, 0)]);
    assert!(serve.events_of("file_error").is_empty());
}

#[test]
fn broken_file_keeps_its_last_valid_state_and_is_reported() {
    let world = World::new(&[("cds.yaml", &clusters("one")), ("more.yaml", &clusters("two"))]);
    let World { directory, serve, watch } = &world;
    world.expect_changes(&["+one", "+two"]);
    let row = serve.wait_row("cds", |row| row["state"] == "ACKED");

    let broken = clusters("one").replace("connect_timeout", "connect_timeouts");
    directory.replace("cds.yaml", &broken);
    let errors = serve.wait_count("file_error", 1);
    assert!(errors[0]["file"].as_str().unwrap().ends_with("cds.yaml"), "{errors:?}");
    let error = errors[0]["error"].as_str().unwrap();
    assert!(error.contains("cds.yaml:4:3: "), "a place: {error}");
    assert!(error.contains("did you mean `connect_timeout`?"), "a reason: {error}");
    // Invalid content of another kind, and a file that stays empty.
    directory.replace("cds.yaml", "\u{0}\u{1}[{");
    serve.wait_count("file_error", 2);
    directory.save("cds.yaml", "");
    let errors = serve.wait_count("file_error", 3);
    assert!(errors[2]["error"].as_str().unwrap().contains("empty"), "{errors:?}");

    // The other files are still followed, and the repaired file is used.
    directory.replace("more.yaml", &clusters("two=7s"));
    world.expect_changes(&["+one", "+two", "+two"]);
    directory.replace("cds.yaml", &clusters("one=7s"));
    world.expect_changes(&["+one", "+two", "+two", "+one"]);
    world.expect_reloads(&[(2, 1, 0), (2, 1, 0)]);
    assert_eq!(serve.events_of("file_error").len(), 3);
    let now = serve.wait_row("cds", |row| row["acks"] == 3);
    assert_eq!(now["responses"].as_u64(), row["responses"].as_u64().map(|before| before + 2));
    assert!(watch.events_of("removed").is_empty());
    println!("covers: M204");
}

#[test]
fn file_over_the_size_limit_is_not_read() {
    let world = World::new(&[("cds.yaml", &clusters("one")), ("more.yaml", &clusters("two"))]);
    let World { directory, serve, watch } = &world;
    world.expect_changes(&["+one", "+two"]);

    // A sparse file that exceeds the size limit.
    let new = directory.join(".cds.yaml.new");
    fs::File::create(&new).unwrap().set_len((256 << 20) + 1).unwrap();
    fs::rename(new, directory.join("cds.yaml")).unwrap();
    let errors = serve.wait_count("file_error", 1);
    assert!(errors[0]["file"].as_str().unwrap().ends_with("cds.yaml"), "{errors:?}");
    let error = errors[0]["error"].as_str().unwrap();
    assert!(error.contains("268435457 bytes") && error.contains("268435456 bytes"), "{error}");

    directory.replace("more.yaml", &clusters("two=7s"));
    world.expect_changes(&["+one", "+two", "+two"]);
    world.expect_reloads(&[(2, 1, 0)]);
    assert!(watch.events_of("removed").is_empty());
}

#[test]
fn initial_file_errors_are_reported_after_the_serving_event() {
    let directory = TempDir::new();
    directory.save("bad.yaml", "{");
    directory.save("good.yaml", &clusters("one"));
    let (serve, _) = Xds::serve(directory.path());
    serve.wait_count("not_ready", 1);
    let kinds: Vec<Json> = serve.events().into_iter().map(|it| it["event"].clone()).collect();
    assert_eq!(kinds[..3], ["serving", "file_error", "not_ready"], "always in this order");
}

#[test]
fn duplicate_resource_error_names_both_files() {
    let world = World::new(&[("a.yaml", &clusters("one")), ("b.yaml", &clusters("two"))]);
    let World { directory, serve, .. } = &world;
    world.expect_changes(&["+one", "+two"]);
    directory.replace("a.yaml", &clusters("one=5s two=5s"));
    let errors = serve.wait_count("file_error", 1);
    let error = errors[0]["error"].as_str().unwrap();
    assert!(errors[0]["file"].as_str().unwrap().ends_with("a.yaml"), "{errors:?}");
    assert!(
        error.contains("`two`") && error.contains("a.yaml") && error.contains("b.yaml"),
        "{error}"
    );
    // Once the other file no longer defines the resource, the whole file is used.
    directory.replace("b.yaml", &clusters("three"));
    world.expect_changes(&["+one", "+two", "+one", "+two", "+three"]);
    world.expect_reloads(&[(3, 3, 0)]);
}

#[cfg(unix)]
#[test]
fn config_map_swap_causes_one_reload() {
    use std::os::unix::fs::symlink;

    // Layout of the kubelet: files are links through `..data`, and only this link is swapped.
    let mount = |directory: &TempDir, revision: u32, cds: &str| {
        let files = [("cds.yaml", clusters(cds)), ("eds.yaml", endpoints("one", &[1]))];
        let name = format!("..revision-{revision}");
        fs::create_dir(directory.join(&name)).unwrap();
        for (file, content) in &files {
            fs::write(directory.join(&name).join(file), content).unwrap();
        }
        symlink(&name, directory.join("..data_tmp")).unwrap();
        fs::rename(directory.join("..data_tmp"), directory.join("..data")).unwrap();
        for (file, _) in files {
            let _ = symlink(Path::new("..data").join(file), directory.join(file));
        }
        let _ = fs::remove_dir_all(directory.join(format!("..revision-{}", revision - 1)));
    };
    let directory = TempDir::new();
    mount(&directory, 1, "one");
    let (serve, address) = Xds::serve(directory.path());
    let watch = Xds::watch(&address, &["cds"]);
    let world = World { directory, serve, watch };
    world.expect_changes(&["+one"]);

    mount(&world.directory, 2, "one=2s");
    world.expect_changes(&["+one", "+one"]);
    world.expect_reloads(&[(2, 1, 0)]);
    // The watches follow the swap.
    mount(&world.directory, 3, "one=3s");
    world.expect_changes(&["+one", "+one", "+one"]);
    world.expect_reloads(&[(2, 1, 0), (2, 1, 0)]);
    // A key removed from the config map: its link is deleted after the swap.
    fs::remove_file(world.directory.join("eds.yaml")).unwrap();
    world.expect_reloads(&[(2, 1, 0), (2, 1, 0), (1, 0, 1)]);
    assert!(world.serve.events_of("file_error").is_empty());
}

#[cfg(unix)]
#[test]
fn symlinks_are_followed() {
    use std::os::unix::fs::symlink;

    // The directory is a link that is swapped, as in deployments with links, and a file in it is a
    // link to another directory.
    let base = TempDir::new();
    for (revision, content) in [("first", "one"), ("second", "one=2s")] {
        fs::create_dir(base.join(revision)).unwrap();
        fs::write(base.join(revision).join("cds.yaml"), clusters(content)).unwrap();
        symlink("../shared/eds.yaml", base.join(revision).join("eds.yaml")).unwrap();
    }
    fs::create_dir(base.join("shared")).unwrap();
    fs::write(base.join("shared/eds.yaml"), endpoints("one", &[1])).unwrap();
    symlink("first", base.join("current")).unwrap();

    let (serve, address) = Xds::serve(&base.join("current"));
    let watch = Xds::watch(&address, &["cds", "eds"]);
    let world = World { directory: base, serve, watch };
    let base = &world.directory;
    world.expect_changes(&["+one", "+one"]);

    symlink("second", base.join("next")).unwrap();
    fs::rename(base.join("next"), base.join("current")).unwrap();
    world.expect_changes(&["+one", "+one", "+one"]);
    fs::write(base.join("shared/eds.yaml"), endpoints("one", &[1, 2])).unwrap();
    world.expect_changes(&["+one", "+one", "+one", "+one"]);
    fs::write(base.join("second/cds.yaml"), clusters("one=3s")).unwrap();
    world.expect_changes(&["+one", "+one", "+one", "+one", "+one"]);
    world.expect_reloads(&[(2, 1, 0), (2, 1, 0), (2, 1, 0)]);
}

#[test]
fn removed_directory_keeps_its_last_state_until_it_is_back() {
    let base = TempDir::new();
    let path = base.join("config");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("cds.yaml"), clusters("one")).unwrap();
    let (serve, address) = Xds::serve(&path);
    let watch = Xds::watch(&address, &["cds"]);
    let world = World { directory: base, serve, watch };
    world.expect_changes(&["+one"]);

    fs::rename(&path, world.directory.join("elsewhere")).unwrap();
    let errors = world.serve.wait_count("file_error", 1);
    assert!(errors[0]["file"].as_str().unwrap().ends_with("config"), "{errors:?}");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("cds.yaml"), clusters("one=2s")).unwrap();
    world.expect_changes(&["+one", "+one"]);
    // Further changes are followed.
    fs::write(path.join("cds.yaml"), clusters("one=3s")).unwrap();
    world.expect_changes(&["+one", "+one", "+one"]);
}

#[test]
fn rejected_resource_is_shown_with_its_reason_and_not_resent() {
    let world = World::new(&[("cds.yaml", &clusters("good bad"))]);
    let World { directory, serve, watch } = &world;
    world.expect_changes(&["+good", "+bad"]);
    let first = serve.wait_row("cds", |row| row["state"] == "ACKED");
    assert_eq!(first["subscribed"], "*");
    assert_eq!((first["node"].as_str(), first["error"].as_str()), (Some("test"), None));

    directory.replace("cds.yaml", &clusters("good=2s bad=0s"));
    let row = serve.wait_row("cds", |row| row["state"] == "NACKED");
    let reason = row["error"].as_str().unwrap();
    assert!(reason.contains("bad") && reason.contains("connect_timeout"), "{reason}");
    assert_eq!(row["acked"], first["sent"]);
    assert_ne!(row["sent"], first["sent"]);
    // The valid part of the response is in use, and the old version of the rejected resource.
    world.expect_changes(&["+good", "+bad", "+good", "!bad"]);
    serve.wait_stderr("rejected a response (NACK)");
    assert_eq!(watch.stderr(), "", "the event of `watch` has the reason");

    // After another change has settled, nothing was sent for clusters.
    directory.save("eds.yaml", &endpoints("good", &[1]));
    serve.wait_row("eds", |row| row["acks"] == 1);
    let row = serve.wait_row("cds", |_| true);
    assert_eq!((row["responses"].as_u64(), row["nacks"].as_u64()), (Some(2), Some(1)));
    directory.replace("cds.yaml", &clusters("good=2s bad=3s"));
    let row = serve.wait_row("cds", |row| row["state"] == "ACKED");
    assert_eq!((row["responses"].as_u64(), row["error"].as_str()), (Some(3), None));
}

#[test]
fn rows_of_a_disconnected_client_are_removed() {
    let mut world = World::new(&[("cds.yaml", &clusters("one"))]);
    world.serve.wait_row("cds", |row| row["state"] == "ACKED");
    world.watch.kill();
    world.serve.wait("no rows", |events| {
        let status = events.iter().rev().find(|event| event["event"] == "status")?;
        status["rows"].as_array()?.is_empty().then_some(())
    });
}

#[test]
fn table_output_is_human_readable() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("bad=0s"));
    directory.save("broken.yaml", "{");
    let path = directory.path().to_str().unwrap();
    let serve = Xds::spawn(&["serve", path, "--listen", "127.0.0.1:0"]);
    serve.wait_stdout("serving ");
    let first = serve.stdout().lines().next().unwrap().to_owned();
    let address = first.strip_prefix(&format!("serving {path} on ")).unwrap();
    serve.wait_stderr("broken.yaml");
    serve.wait_stderr("no resource of the file is served");
    directory.remove("broken.yaml");
    serve.wait_stdout("ready: 1 resource");

    let watch = Xds::watch(address, &["cds", "lds"]);
    serve.wait_stdout("NODE  STREAM  TYPE  SUBSCRIBED  RESPONSES  ACKS  NACKS  SENT");
    serve.wait_stdout("NACKED: resource 0 (bad): connect_timeout: must be greater than 0s, is 0s");
    serve.wait_stdout("1 stream");
    directory.replace("cds.yaml", &clusters("good"));
    serve.wait_stdout("reloaded: 1 changed, 1 removed, 1 resource");
    directory.replace("cds.yaml", "{");
    serve.wait_stderr("the last valid state of the file stays in use: 1 resource");

    // A row is printed once, until it changes.
    let mut other = Xds::watch(address, &["eds:one"]);
    serve.wait_stdout("2 streams");
    let rows = |type_name: &str| {
        let stdout = serve.stdout();
        let of_type = |line: &&str| line.split_whitespace().nth(2) == Some(type_name);
        stdout.lines().filter(of_type).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = rows("lds");
    other.kill();
    serve.wait_stdout("GONE");
    assert!(rows("eds").last().is_some_and(|row| row.ends_with("GONE")), "{}", serve.stdout());
    assert_eq!(rows("lds"), before);
    drop(watch);
    serve.wait_stdout("no clients");
}

#[test]
fn serve_ends_after_its_duration_or_on_a_signal() {
    let directory = TempDir::new();
    let path = directory.path().to_str().unwrap();
    let mut short =
        Xds::spawn(&["serve", path, "--listen", "127.0.0.1:0", "-o", "ndjson", "--for", "200ms"]);
    assert_eq!(short.wait_end().code(), Some(0));
    #[cfg(unix)]
    for signal in Xds::ending_signals() {
        let (mut serve, address) = Xds::serve(directory.path());
        // The client is notified, and does not delay the exit.
        let watch = Xds::watch(&address, &["cds"]);
        serve.wait_row("cds", |_| true);
        assert_eq!(serve.signal(signal).code(), Some(0), "{signal}");
        watch.wait_event("an error", |event| {
            event["error"].as_str().is_some_and(|it| it.contains("server"))
        });
    }
}

#[test]
fn directory_without_resources_is_a_warning_at_the_start() {
    let directory = TempDir::new();
    let (serve, _) = Xds::serve(directory.path());
    let finding = serve.wait_count("finding", 1).remove(0);
    assert_eq!(
        (&finding["rule"], &finding["severity"]),
        (&json!("no-resources"), &json!("warning"))
    );
}

#[test]
fn example_configuration_is_served_without_errors() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/config");
    let (serve, address) = Xds::serve(&directory);
    let watch = Xds::watch(&address, &["lds", "rds:web", "cds", "eds:api", "eds:pages"]);
    for type_name in ["lds", "rds", "cds", "eds"] {
        serve.wait_row(type_name, |row| row["state"] == "ACKED");
    }
    watch.wait_count("changed", 6);
    assert_eq!(serve.events()[0]["resources"], 6);
    assert!(serve.events_of("file_error").is_empty());
}

#[test]
fn every_ordering_delivers_all_resources_and_changes() {
    for ordering in ["off", "order", "ack-gated"] {
        let directory = TempDir::new();
        directory.save("cds.yaml", &clusters("one two"));
        directory.save("eds.yaml", &endpoints("one", &[1]));
        let flags = ["--listen", "127.0.0.1:0", "--ordering", ordering];
        let (_serve, address) = Xds::serve_with(directory.path(), &flags);
        let watch = Xds::watch(&address, &["cds", "eds:one"]);
        watch.wait_count("changed", 3);
        directory.replace("cds.yaml", &clusters("two"));
        watch.wait_event(ordering, |event| event["event"] == "removed" && event["name"] == "one");
    }
}
