//! `xds serve`: changes of files that look like deletions, and their results.

use std::{
    fs::{self, File},
    io::Write as _,
};

use crate::support::{TempDir, Xds, clusters};
use serde_json::json;

fn serve(directory: &TempDir, flags: &[&str]) -> (Xds, Xds) {
    let (serve, address) =
        Xds::serve_with(directory.path(), &[&["--listen", "127.0.0.1:0"], flags].concat());
    let watch = Xds::watch(&address, &["cds"]);
    (serve, watch)
}

/// Expects that nothing was removed and that the server still follows changes, using `more.yaml`.
#[track_caller]
fn expect_nothing_removed(directory: &TempDir, serve: &Xds, watch: &Xds) {
    directory.replace("more.yaml", &clusters("more=9s"));
    let reloaded = serve.wait_count("reloaded", 1);
    assert_eq!((&reloaded[0]["changed"], &reloaded[0]["removed"]), (&json!(1), &json!(0)));
    watch.wait("the change", |events| {
        let of_more = events.iter().filter(|event| event["name"] == "more");
        (of_more.count() == 2).then_some(())
    });
    assert!(watch.events_of("removed").is_empty(), "{:?}", watch.events());
}

#[test]
fn directory_replacing_a_file_is_an_error_and_removes_nothing() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    directory.save("more.yaml", &clusters("more"));
    let (serve, watch) = serve(&directory, &[]);
    watch.wait_count("changed", 2);
    fs::rename(directory.join("cds.yaml"), directory.join(".cds.yaml.old")).unwrap();
    // The state in between, without the file, is too short to be read.
    fs::create_dir(directory.join("cds.yaml")).unwrap();
    let error = serve.wait_count("file_error", 1);
    let text = error[0]["error"].as_str().unwrap();
    assert!(text.ends_with("cds.yaml: expected a regular file, found a directory"), "{text}");
    expect_nothing_removed(&directory, &serve, &watch);
}

/// Mounting a missing file into a container creates a directory.
#[test]
fn directory_with_a_resource_file_name_delays_readiness() {
    let directory = TempDir::new();
    fs::create_dir(directory.join("cds.yaml")).unwrap();
    let (serve, watch) = serve(&directory, &[]);
    serve.wait_count("not_ready", 1);
    fs::remove_dir(directory.join("cds.yaml")).unwrap();
    directory.save("cds.yaml", &clusters("one"));
    serve.wait_count("ready", 1);
    watch.wait_count("changed", 1);
}

/// The first half is a valid file.
#[cfg(target_os = "linux")]
#[test]
fn file_written_in_two_steps_is_read_after_close() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one two"));
    let (serve, watch) = serve(&directory, &[]);
    watch.wait_count("changed", 2);
    let content = clusters("one=2s two=2s");
    let (first, second) = content.split_at(clusters("one=2s").len());
    let mut file = File::create(directory.join("cds.yaml")).unwrap();
    file.write_all(first.as_bytes()).unwrap();
    // Takes longer than the quiet time before files are read.
    let (other, _) = Xds::serve(directory.path());
    let read = other.wait_event("serving", |event| event["event"] == "serving");
    assert_eq!(read["resources"], 1, "the half is valid");
    for _ in 0..3 {
        Xds::serve(directory.path());
    }
    assert!(serve.events_of("reloaded").is_empty(), "{:?}", serve.events());
    file.write_all(second.as_bytes()).unwrap();
    drop(file);
    let reloaded = serve.wait_count("reloaded", 1);
    assert_eq!((&reloaded[0]["changed"], &reloaded[0]["removed"]), (&json!(2), &json!(0)));
    watch.wait_count("changed", 4);
    assert!(watch.events_of("removed").is_empty());
}

#[test]
fn truncated_or_unreadable_file_removes_nothing() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one two"));
    directory.save("more.yaml", &clusters("more"));
    let (serve, watch) = serve(&directory, &[]);
    watch.wait_count("changed", 3);
    let mut errors = 0;
    let mut expect_error = |told: &str| {
        errors += 1;
        let error = serve.wait_count("file_error", errors);
        let text = error[errors - 1]["error"].as_str().unwrap();
        assert!(text.contains(told), "{text}");
    };
    directory.save("cds.yaml", "");
    expect_error("the file is empty");
    directory.save("cds.yaml", "# Nothing but a comment.\n");
    expect_error("cds.yaml");
    directory.save("cds.yaml", "resources:\n- '@type'");
    expect_error("cds.yaml:2:");
    #[cfg(unix)]
    {
        let link = directory.join(".link");
        std::os::unix::fs::symlink("cds.yaml", &link).unwrap();
        fs::rename(link, directory.join("cds.yaml")).unwrap();
        expect_error("cds.yaml: Too many levels of symbolic links");
    }
    expect_nothing_removed(&directory, &serve, &watch);
    // An empty list of resources must be explicit.
    directory.replace("cds.yaml", "resources: []\n");
    let reloaded = serve.wait_count("reloaded", 2);
    assert_eq!(reloaded[1]["removed"], 2, "{reloaded:?}");
}

#[test]
fn deleted_files_remove_resources_up_to_max_removal() {
    let directory = TempDir::new();
    let files = ["a", "b", "c", "d"];
    let fill = || {
        for name in files {
            directory.save(&format!("{name}.yaml"), &clusters(name));
        }
    };
    fill();
    let (guarded, watch) = serve(&directory, &["--max-removal", "50"]);
    let (free, _) = serve(&directory, &[]);
    watch.wait_count("changed", 4);
    for name in files {
        directory.remove(&format!("{name}.yaml"));
    }
    let reloaded = free.wait_count("reloaded", 1);
    assert_eq!((&reloaded[0]["removed"], &reloaded[0]["resources"]), (&json!(4), &json!(0)));
    let refused = guarded.wait_event("a refusal of all", |event| {
        event["event"] == "refused" && event["removed"] == 4
    });
    assert_eq!((&refused["max_removal"], &refused["resources"]), (&json!(50), &json!(4)));

    // Removing two of four resources is allowed. Another change in the same update is served too.
    directory.save("a.yaml", &clusters("a=9s"));
    directory.save("b.yaml", &clusters("b"));
    let reloaded = guarded
        .wait_event("a reload", |event| event["event"] == "reloaded" && event["removed"] == 2);
    assert_eq!((&reloaded["changed"], &reloaded["resources"]), (&json!(1), &json!(2)));

    fill();
    let path = directory.path().to_str().unwrap();
    let table = Xds::spawn(&["serve", path, "--listen", "127.0.0.1:0", "--max-removal", "0"]);
    table.wait_stdout("4 resources");
    directory.remove("c.yaml");
    table.wait_stderr(
        "error: refused: would remove 1 of 4 resources (25 percent), the limit is 0 percent: cds `c` \
         (guard max-removal=0)\n",
    );
    table.wait_stderr("       the served state is unchanged: 4 resources");
    // After a restart the files are served as they are.
    let (restarted, _) = serve(&directory, &["--max-removal", "0"]);
    assert_eq!(restarted.events()[0]["resources"], 3);
}

/// Reading a pipe would never end.
#[cfg(unix)]
#[test]
fn pipe_replacing_a_file_is_an_error() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    directory.save("more.yaml", &clusters("more"));
    let (serve, watch) = serve(&directory, &[]);
    watch.wait_count("changed", 2);
    let pipe = directory.join(".pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::rename(pipe, directory.join("cds.yaml")).unwrap();
    let error = serve.wait_count("file_error", 1);
    let text = error[0]["error"].as_str().unwrap();
    assert!(text.contains("a pipe, socket or device"), "{text}");
    expect_nothing_removed(&directory, &serve, &watch);
}
