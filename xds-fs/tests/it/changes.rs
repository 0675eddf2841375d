//! The final content of a file is read, however the file changes.

#![cfg(target_os = "linux")]

use std::{
    fs::{self, File},
    io::Write as _,
    iter,
    os::unix::fs::symlink,
    path::Path,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Waker},
    thread,
    time::{Duration, SystemTime},
};

use crate::support::{self, Folder, Reader, clusters, noticing};
use xds_core::{Debounce, client::FilePolicy, types};
use xds_fs::{Cause, Place, Watch};

#[test]
fn existing_file_is_read_on_request() {
    let folder = Folder::new("asked");
    folder.write("cds.yaml", clusters(&["a"]));
    let mut reader = Reader::of_clusters(&folder.path("cds.yaml"));
    reader.wait_for_names(&["a"]);
    reader.0.read();
    reader.wait_for_names(&["a"]);
    println!("covers: S0.010 FS-01");
}

#[test]
fn changes_before_the_first_read_are_not_reported() {
    let folder = Folder::new("before");
    folder.write("cds.yaml", clusters(&["a"]));
    let mut reader = Reader::unasked(&folder.path("cds.yaml"), types::CLUSTER, noticing());
    for name in ["b", "c"] {
        folder.replace("cds.yaml", clusters(&[name]));
        assert!(reader.0.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    reader.0.read();
    assert_eq!(support::names_in(&reader.next()).unwrap(), ["c"]);
    println!("covers: FS-15");
}

#[test]
fn renaming_another_file_over_it_is_noticed() {
    let folder = Folder::new("rename");
    folder.write("cds.yaml", clusters(&["a"]));
    let mut reader = Reader::of_clusters(&folder.path("cds.yaml"));
    reader.wait_for_names(&["a"]);
    for name in ["b", "c"] {
        folder.replace("cds.yaml", clusters(&[name]));
        reader.wait_for_names(&[name]);
    }
    println!("covers: S0.011 FS-03");
}

#[test]
fn save_in_place_and_delete_and_recreate_are_noticed() {
    let folder = Folder::new("in-place");
    let path = folder.path("cds.yaml");
    folder.write("cds.yaml", clusters(&["a"]));
    let mut reader = Reader::of_clusters(&path);
    reader.wait_for_names(&["a"]);
    folder.write("cds.yaml", clusters(&["b"]));
    reader.wait_for_names(&["b"]);
    fs::remove_file(&path).unwrap();
    let why = reader.wait_for_trouble();
    assert!(why.starts_with(path.to_str().unwrap()), "{why}");
    folder.write("cds.yaml", clusters(&["c"]));
    reader.wait_for_names(&["c"]);
    println!("covers: X42");
}

#[test]
fn config_map_swap_is_read_as_a_whole() {
    let folder = Folder::new("config-map");
    let revise = |number: u32, name: &str| {
        let revision = format!("..revision-{number}");
        fs::create_dir(folder.path(&revision)).unwrap();
        folder.write(&format!("{revision}/cds.yaml"), clusters(&[name]));
        symlink(&revision, folder.path("..data_tmp")).unwrap();
        fs::rename(folder.path("..data_tmp"), folder.path("..data")).unwrap();
        if number > 1 {
            fs::remove_dir_all(folder.path(&format!("..revision-{}", number - 1))).unwrap();
        }
    };
    revise(1, "a");
    symlink("..data/cds.yaml", folder.path("cds.yaml")).unwrap();
    let path = folder.path("cds.yaml");
    let mut by_link = Reader::of_clusters(&path);
    let watched = noticing().with_watched_directory(folder.path("").to_str().unwrap());
    let mut by_directory = Reader::of(&path, types::CLUSTER, watched);
    for reader in [&mut by_link, &mut by_directory] {
        reader.wait_for_names(&["a"]);
    }
    for (number, name) in [(2, "b"), (3, "c")] {
        revise(number, name);
        by_link.wait_for_names(&[name]);
        by_directory.wait_for_names(&[name]);
    }
    println!("covers: FS-05 B18 X42");
}

#[test]
fn with_a_watched_directory_only_its_changes_trigger_a_read() {
    let folder = Folder::new("watched");
    fs::create_dir(folder.path("signals")).unwrap();
    folder.write("cds.yaml", clusters(&["a"]));
    let watched = noticing().with_watched_directory(folder.path("signals").to_str().unwrap());
    let mut reader = Reader::of(&folder.path("cds.yaml"), types::CLUSTER, watched);
    reader.wait_for_names(&["a"]);
    folder.write("cds.yaml", clusters(&["b"]));
    folder.write("cds.yaml", clusters(&["c"]));
    folder.write("signals/now", "");
    assert_eq!(support::names_in(&reader.next()).unwrap(), ["c"], "the first that is noticed");
    println!("covers: X42");
}

#[test]
fn file_and_its_directories_may_be_missing_at_first() {
    let folder = Folder::new("missing");
    let path = folder.path("one/two/cds.yaml");
    let mut reader = Reader::of_clusters(&path);
    let why = reader.wait_for_trouble();
    assert!(why.contains("one/two/cds.yaml: No such file"), "{why}");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, clusters(&["a"])).unwrap();
    reader.wait_for_names(&["a"]);
    // The directories may also be removed and created again.
    fs::remove_dir_all(folder.path("one")).unwrap();
    reader.wait_for_trouble();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, clusters(&["b"])).unwrap();
    reader.wait_for_names(&["b"]);
    println!("covers: FS-02");
}

#[test]
fn replacing_the_parent_directory_is_noticed() {
    let folder = Folder::new("folders");
    for (name, cluster) in [("now", "a"), ("next", "b")] {
        fs::create_dir(folder.path(name)).unwrap();
        folder.write(&format!("{name}/cds.yaml"), clusters(&[cluster]));
    }
    let mut reader = Reader::of_clusters(&folder.path("now/cds.yaml"));
    reader.wait_for_names(&["a"]);
    fs::rename(folder.path("now"), folder.path("before")).unwrap();
    fs::rename(folder.path("next"), folder.path("now")).unwrap();
    reader.wait_for_names(&["b"]);
    folder.write("now/cds.yaml", clusters(&["c"]));
    reader.wait_for_names(&["c"]);
}

/// Writes a file in two steps, and checks that the subscription reads only the whole.
fn write_in_two_steps(mut reader: Reader, path: &Path) {
    let whole = clusters(&["c", "d"]);
    let half = clusters(&["c"]);
    assert!(whole.starts_with(&half), "the half reads well");
    let mut file = File::create(path).unwrap();
    file.write_all(half.as_bytes()).unwrap();
    // Requests during the write, and a pause longer than the quiet period.
    reader.0.read();
    thread::sleep(3 * noticing().debounce.quiet);
    reader.0.read();
    file.write_all(&whole.as_bytes()[half.len()..]).unwrap();
    drop(file);
    assert_eq!(support::names_in(&reader.next()).unwrap(), ["c", "d"]);
}

#[test]
fn file_written_in_two_steps_is_read_when_complete() {
    let folder = Folder::new("halves");
    folder.write("cds.yaml", clusters(&["a", "b"]));
    let mut reader = Reader::of_clusters(&folder.path("cds.yaml"));
    reader.wait_for_names(&["a", "b"]);
    write_in_two_steps(reader, &folder.path("cds.yaml"));
    println!("covers: IS32");
}

#[test]
fn target_of_a_link_written_in_two_steps_is_read_when_complete() {
    let folder = Folder::new("linked-halves");
    for name in ["watched", "targets"] {
        fs::create_dir(folder.path(name)).unwrap();
    }
    folder.write("targets/cds.yaml", clusters(&["a", "b"]));
    let link = folder.path("watched/cds.yaml");
    symlink("../targets/cds.yaml", &link).unwrap();
    let watched = noticing().with_watched_directory(folder.path("watched").to_str().unwrap());
    let mut reader = Reader::of(&link, types::CLUSTER, watched);
    reader.wait_for_names(&["a", "b"]);
    write_in_two_steps(reader, &folder.path("targets/cds.yaml"));
    println!("covers: IS32");
}

#[test]
fn replacing_an_ancestor_directory_is_noticed_by_polling() {
    let folder = Folder::new("further-up");
    for name in ["now", "next"] {
        fs::create_dir_all(folder.path(name).join("one/two")).unwrap();
    }
    let file = folder.path("now/one/two/cds.yaml");
    let mut policy = noticing();
    policy.poll_interval = Duration::from_millis(20);
    let (sender, looks) = mpsc::channel();
    let look = move |cause| {
        let _ = sender.send(cause);
    };
    let _watch = Watch::start(Place::File(file.clone()), &policy, look).unwrap();
    let wait_for = |cause| {
        let mut causes = iter::from_fn(|| looks.recv_timeout(support::LONGEST).ok());
        // By then it has checked a thousand times.
        assert!(causes.by_ref().take(1_000).any(|it| it == cause), "{cause:?} does not come");
    };
    wait_for(Cause::Requested);
    fs::rename(folder.path("now"), folder.path("before")).unwrap();
    fs::rename(folder.path("next"), folder.path("now")).unwrap();
    while looks.try_recv().is_ok() {}
    // One check may have started before.
    wait_for(Cause::Periodic);
    wait_for(Cause::Periodic);
    fs::write(&file, "").unwrap();
    wait_for(Cause::Changed);
}

#[test]
fn last_of_many_changes_is_read() {
    let folder = Folder::new("many");
    folder.write("cds.yaml", clusters(&["a"]));
    let mut reader = Reader::of_clusters(&folder.path("cds.yaml"));
    reader.wait_for_names(&["a"]);
    for number in 0..500 {
        folder.replace("cds.yaml", clusters(&[&format!("b{number}")]));
    }
    folder.replace("cds.yaml", clusters(&["last"]));
    reader.wait_for_names(&["last"]);
    println!("covers: FS-16");
}

#[test]
fn polling_finds_unnoticed_changes_and_reports_them_once() {
    let folder = Folder::new("anyway");
    fs::create_dir(folder.path("elsewhere")).unwrap();
    folder.write("cds.yaml", clusters(&["a"]));
    let mut policy = noticing().with_watched_directory(folder.path("elsewhere").to_str().unwrap());
    policy.poll_interval = Duration::from_millis(10);
    let mut reader = Reader::of(&folder.path("cds.yaml"), types::CLUSTER, policy);
    reader.wait_for_names(&["a"]);
    folder.replace("cds.yaml", clusters(&["b"]));
    assert_eq!(support::names_in(&reader.next()).unwrap(), ["b"], "the same is told once");
}

#[test]
fn replacement_with_equal_content_is_reported_again() {
    let folder = Folder::new("same");
    folder.write("cds.yaml", clusters(&["a"]));
    let mut reader = Reader::of_clusters(&folder.path("cds.yaml"));
    reader.wait_for_names(&["a"]);
    folder.replace("cds.yaml", clusters(&["a"]));
    reader.wait_for_names(&["a"]);
    println!("covers: FS-09");
}

#[test]
fn longest_times_of_a_policy_do_not_end_the_watch() {
    let folder = Folder::new("longest");
    let longest = FilePolicy::default().with_poll_interval(Duration::MAX);
    for policy in [longest.clone(), longest.with_writer_timeout(Duration::MAX)] {
        folder.write("cds.yaml", clusters(&["a"]));
        let mut reader = Reader::of(&folder.path("cds.yaml"), types::CLUSTER, policy);
        reader.wait_for_names(&["a"]);
        folder.replace("cds.yaml", clusters(&["b"]));
        reader.wait_for_names(&["b"]);
        // A writer that has not closed the file is waited for.
        let mut file = File::create(folder.path("cds.yaml")).unwrap();
        file.write_all(clusters(&["c"]).as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(200));
        drop(file);
        reader.wait_for_names(&["c"]);
    }
}

#[test]
fn ended_task_is_reported_and_the_next_read_starts_another() {
    let folder = Folder::new("ended");
    let path = folder.path("cds.yaml");
    folder.write("cds.yaml", clusters(&["a"]));
    let mut reader = Reader::unasked(&path, types::CLUSTER, noticing());
    let starts = AtomicUsize::new(0);
    reader.0 = reader.0.with_start(move |task| match starts.fetch_add(1, Ordering::Relaxed) {
        0 => {
            drop(task);
            Ok(())
        }
        _ => task.start_thread(),
    });
    reader.0.read();
    let why = reader.wait_for_trouble();
    assert!(why.starts_with(path.to_str().unwrap()) && why.contains("no longer watched"), "{why}");
    reader.0.read();
    reader.wait_for_names(&["a"]);
}

#[test]
fn file_that_was_just_changed_is_not_read_before_it_settles() {
    let folder = Folder::new("just-changed");
    folder.write("cds.yaml", clusters(&["a"]));
    let hour = Duration::from_secs(3_600);
    let policy = noticing().with_debounce(Debounce::new(hour, hour));
    let mut reader = Reader::of(&folder.path("cds.yaml"), types::CLUSTER, policy);
    thread::sleep(Duration::from_millis(300));
    assert!(reader.0.poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[test]
fn old_file_is_read_at_once() {
    let folder = Folder::new("old");
    let path = folder.path("cds.yaml");
    folder.write("cds.yaml", clusters(&["a"]));
    let hour = Duration::from_secs(3_600);
    let policy = noticing().with_debounce(Debounce::new(hour, hour));
    for date in [SystemTime::now() - 2 * hour, SystemTime::now() + 2 * hour] {
        File::options().write(true).open(&path).unwrap().set_modified(date).unwrap();
        let mut reader = Reader::of(&path, types::CLUSTER, policy.clone());
        assert_eq!(support::names_in(&reader.next()).unwrap(), ["a"]);
    }
}
