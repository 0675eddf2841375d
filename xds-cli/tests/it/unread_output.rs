//! Commands whose output is not read continue, stop on a signal, and count dropped output.

#![cfg(unix)]

use std::{
    fmt::Write as _,
    io::{self, BufRead as _, BufReader, Read as _},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use crate::support::{TempDir, Xds, clusters, eventually};
use serde_json::Value as Json;

/// More bytes than a pipe holds.
const PIPE: usize = 256 << 10;
/// Two texts of this size exceed the limit of the queue. Each fits into a response.
const HALF_QUEUE: usize = 3 << 20;

/// Routes to missing clusters: one warning for each, `bytes` bytes together.
fn dangling(name: &str, revision: u32, bytes: usize) -> String {
    const LONGEST: usize = 2_000;
    let mut routes = String::new();
    for route in 0..bytes / LONGEST {
        let cluster = format!("{revision}-{route}-{}", "x".repeat(LONGEST - 20));
        let _ =
            writeln!(routes, "  - {{ match: {{ prefix: / }}, route: {{ cluster: {cluster} }} }}");
    }
    format!(
        "'@type': type.googleapis.com/envoy.config.route.v3.RouteConfiguration\nname: {name}\n\
         virtual_hosts:\n- name: all\n  domains: ['*']\n  routes:\n{routes}"
    )
}

/// Process whose output is only read where a test reads it. Killed when dropped.
struct Unread(Child);

impl Unread {
    fn spawn(args: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_xds"))
            .args(args)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Self(child.unwrap())
    }

    /// Reads the first line. The reader may have buffered more.
    fn first_line(&mut self) -> (String, BufReader<ChildStdout>) {
        let mut out = BufReader::new(self.0.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        (line.trim_end().to_owned(), out)
    }

    fn signal(&mut self, name: &str) -> ExitStatus {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
        self.wait_end()
    }

    #[track_caller]
    fn wait_end(&mut self) -> ExitStatus {
        eventually("the end of xds", || {
            self.0.try_wait().unwrap().ok_or_else(|| "still running".to_owned())
        })
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn listen_of(line: &str) -> String {
    let serving: Json = serde_json::from_str(line).unwrap();
    serving["listen"].as_str().unwrap().to_owned()
}

#[test]
fn serve_continues_and_ends_if_its_output_is_not_read() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let path = directory.path().to_str().unwrap();
    let args = ["serve", path, "--listen", "127.0.0.1:0", "-o", "ndjson"];
    let mut serve = Unread::spawn(&args);
    let (line, _unread) = serve.first_line();
    let watch = Xds::watch(&listen_of(&line), &["cds", "rds:r"]);
    watch.wait_count("changed", 1);
    // Warnings are printed before the change is served.
    directory.replace("rds.yaml", &dangling("r", 1, PIPE));
    watch.wait_event("the route", |event| event["event"] == "changed" && event["name"] == "r");
    directory.replace("cds.yaml", &clusters("one=2s"));
    watch.wait("the next change", |events| {
        let of_one = events.iter().filter(|event| event["name"] == "one");
        (of_one.count() == 2).then_some(())
    });
    assert_eq!(serve.signal("TERM").code(), Some(0));
}

#[test]
fn dropped_output_lines_are_counted_when_reading_resumes() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let path = directory.path().to_str().unwrap();
    let mut serve =
        Unread::spawn(&["serve", path, "--listen", "127.0.0.1:0", "-o", "ndjson", "--for", "60s"]);
    let (line, out) = serve.first_line();
    let watch = Xds::watch(&listen_of(&line), &["cds", "rds:r", "rds:s"]);
    watch.wait_count("changed", 1);
    for name in ["r", "s"] {
        directory.replace(&format!("{name}.yaml"), &dangling(name, 1, HALF_QUEUE));
        watch.wait_event(name, |event| event["event"] == "changed" && event["name"] == name);
    }

    let mut findings = 0;
    let mut lines = out.lines().map(|line| serde_json::from_str::<Json>(&line.unwrap()).unwrap());
    let dropped = lines.find(|event| {
        findings += u64::from(event["event"] == "finding");
        event["event"] == "dropped"
    });
    let dropped = dropped.unwrap()["events"].as_u64().unwrap();
    // All findings are counted; the reloads after them may be among the dropped events.
    let all = 2 * (HALF_QUEUE / 2_000) as u64;
    assert!((all..=all + 2).contains(&(findings + dropped)), "{findings} + {dropped}, not {all}");
    assert!(dropped > 0 && findings > 0, "{findings} + {dropped}");
    // The status of the clients is printed although it changed meanwhile.
    let row = lines.find_map(|event| {
        let rows = event["rows"].as_array()?;
        rows.iter().find(|row| row["type"] == "rds" && row["acks"] == 2).cloned()
    });
    assert_eq!(row.unwrap()["state"], "ACKED");
}

#[test]
fn serve_continues_if_its_errors_and_logs_are_not_read() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let path = directory.path().to_str().unwrap();
    let mut serve = Unread::spawn(&["serve", path, "--listen", "127.0.0.1:0", "-vv"]);
    let (line, mut out) = serve.first_line();
    let (_, address) = line.rsplit_once(" on ").unwrap();
    // The resource is logged too, which doubles the output.
    directory.replace("rds.yaml", &dangling("r", 1, PIPE));
    let watch = Xds::watch(address, &["cds", "rds:r"]);
    watch.wait_count("changed", 2);
    directory.replace("cds.yaml", &clusters("one=2s"));
    watch.wait_count("changed", 3);
    // Standard output is another pipe.
    let mut shown = String::new();
    while !shown.contains("reloaded: 1 changed") {
        assert_ne!(out.read_line(&mut shown).unwrap(), 0, "{shown}");
    }
    let reader = thread::spawn(move || out.read_to_string(&mut shown));
    assert_eq!(serve.signal("INT").code(), Some(0));
    reader.join().unwrap().unwrap();
}

#[test]
fn watch_continues_and_ends_if_its_output_is_not_read() {
    let directory = TempDir::new();
    directory.save("rds.yaml", &dangling("r", 1, PIPE));
    let (serve, address) = Xds::serve(directory.path());
    let args = ["watch", "--server", &address, "--node", "test", "-o", "ndjson", "rds:r"];
    let mut watch = Unread::spawn(&args);
    // The client accepts resources that it cannot print yet.
    for revision in 2..=4 {
        serve.wait_row("rds", |row| row["acks"] == u64::from(revision) - 1);
        directory.replace("rds.yaml", &dangling("r", revision, PIPE));
    }
    serve.wait_row("rds", |row| row["acks"] == 4);
    // Nothing is dropped: the newest version is printed once the output is read.
    let (mut line, mut out) = watch.first_line();
    while !line.contains("4-0-x") {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0);
    }
    directory.replace("rds.yaml", &dangling("r", 5, PIPE));
    serve.wait_row("rds", |row| row["acks"] == 5);
    assert_eq!(watch.signal("TERM").code(), Some(0));
}

fn wait_no_clients(serve: &Xds) {
    serve.wait("the end of the stream", |events| {
        let status = events.iter().rev().find(|event| event["event"] == "status")?;
        status["rows"].as_array().is_some_and(Vec::is_empty).then_some(())
    });
}

#[test]
fn command_end_waits_for_a_paused_reader() {
    let directory = TempDir::new();
    directory.save("rds.yaml", &dangling("r", 1, PIPE));
    let (serve, address) = Xds::serve(directory.path());
    let args =
        ["watch", "--server", &address, "--node", "test", "-o", "ndjson", "--for", "2s", "rds:r"];
    let mut watch = Unread::spawn(&args);
    serve.wait_row("rds", |row| row["acks"] == 1);
    wait_no_clients(&serve);
    // Like a pager that waits for its user.
    thread::sleep(Duration::from_secs(2));
    let mut printed = String::new();
    watch.0.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    let changed: Json = serde_json::from_str(&printed).expect("a whole line");
    assert_eq!(changed["event"], "changed");
    assert_eq!(watch.wait_end().code(), Some(0));
}

#[test]
fn signal_ends_the_wait_for_a_blocked_reader() {
    let directory = TempDir::new();
    directory.save("rds.yaml", &dangling("r", 1, PIPE));
    let (serve, address) = Xds::serve(directory.path());
    let args =
        ["watch", "--server", &address, "--node", "test", "-o", "ndjson", "--for", "2s", "rds:r"];
    let mut watch = Unread::spawn(&args);
    serve.wait_row("rds", |row| row["acks"] == 1);
    wait_no_clients(&serve);
    thread::sleep(Duration::from_secs(1));
    assert!(watch.0.try_wait().unwrap().is_none(), "it waits for its reader");
    assert_eq!(watch.signal("TERM").code(), Some(0));
    let mut stderr = String::new();
    watch.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let told = stderr.lines().find(|line| line.starts_with("xds: standard output was not read: "));
    assert!(told.is_some_and(|line| line.ends_with(" bytes not written")), "{stderr}");
}

#[test]
fn signal_ends_commands_that_wait_for_a_reader() {
    let directory = TempDir::new();
    directory.save("rds.yaml", &dangling("r", 1, PIPE));
    let (serve, address, csds) = Xds::serve_with_csds(directory.path());
    let _watch = Xds::watch(&address, &["rds:r"]);
    serve.wait_row("rds", |row| row["acks"] == 1);
    let path = directory.path().to_str().unwrap();
    // A command that prints line by line may not have begun with the lines that do not fit.
    for (args, is_in_one_piece) in [
        (&["get", "--server", &address, "rds:r"][..], true),
        (&["status", &csds, "-o", "yaml"], true),
        (&["check", path, "-o", "ndjson"], false),
    ] {
        let mut command = Unread::spawn(args);
        let (_, _unread) = command.first_line();
        assert_eq!(command.signal("TERM").code(), Some(130), "{args:?}");
        let mut stderr = String::new();
        command.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let start = "xds: standard output was not read: ";
        let is_told = stderr.lines().any(|line| line.starts_with(start));
        assert!(is_told || !is_in_one_piece, "{args:?}: {stderr}");
    }
}

#[test]
fn slow_reader_delays_the_end_after_a_signal_by_seconds_only() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let path = directory.path().to_str().unwrap();
    let mut serve = Unread::spawn(&["serve", path, "--listen", "127.0.0.1:0", "-o", "ndjson"]);
    let (line, mut out) = serve.first_line();
    let watch = Xds::watch(&listen_of(&line), &["rds:r"]);
    directory.replace("rds.yaml", &dangling("r", 1, HALF_QUEUE));
    watch.wait_event("the route", |event| event["event"] == "changed");
    // Reading everything would take minutes.
    let reader = thread::spawn(move || {
        let mut piece = [0; 4 << 10];
        while out.read(&mut piece).unwrap() > 0 {
            thread::sleep(Duration::from_millis(200));
        }
    });
    assert_eq!(serve.signal("TERM").code(), Some(0));
    drop(reader);
}

/// `xds check DIR | head -1` fails if there are errors.
#[test]
fn closed_output_does_not_change_the_verdict() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let path = directory.path().to_str().unwrap();
    let code = |args: &[&str]| {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_xds"));
        command.args(args).stdout(writer).stderr(Stdio::null()).status().unwrap().code()
    };
    assert_eq!(code(&["check", path]), Some(0));
    directory.save("eds.yaml", "neither a list nor an object");
    assert_eq!(code(&["check", path]), Some(1));
    assert_eq!(code(&["route", "explain", path, "--host", "shop.example.com"]), Some(1));
}

#[test]
fn closed_output_ends_watch_but_not_serve() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let path = directory.path().to_str().unwrap();
    let mut serve = Unread::spawn(&["serve", path, "--listen", "127.0.0.1:0", "-o", "ndjson"]);
    let (line, out) = serve.first_line();
    let address = listen_of(&line);
    let watch = Xds::watch(&address, &["cds"]);
    watch.wait_count("changed", 1);
    let mut other =
        Unread::spawn(&["watch", "--server", &address, "--node", "other", "-o", "ndjson", "cds"]);
    drop(other.first_line());
    directory.replace("cds.yaml", &clusters("one=2s"));
    assert_eq!(other.wait_end().code(), Some(0));
    drop(out);
    for (changes, timeout) in [(3, "3s"), (4, "4s")] {
        directory.replace("cds.yaml", &clusters(&format!("one={timeout}")));
        watch.wait_count("changed", changes);
    }
    assert_eq!(serve.signal("TERM").code(), Some(0));
    let mut stderr = String::new();
    serve.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let told = stderr.matches("the server continues to serve without output").count();
    assert_eq!(told, 1, "{stderr}");
}
