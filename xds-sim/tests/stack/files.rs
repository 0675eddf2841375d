//! Resource files: the file transport of a client, and a directory that a server serves. The files
//! are real, in a directory of the run; time is virtual.

use core::time::Duration;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use tokio::time::{sleep, timeout};
use xds_core::{
    client::{ClientConfig, FilePolicy, Node, Notice, OpaqueType, Profile, ServerAddress},
    types::CLUSTER,
};
use xds_fs::Place;
use xds_grpc::{ClientOptions, client::connect};
use xds_handle::ClientHandle;
use xds_sim::{
    stack::{
        Host, Stage,
        check::{check, run_seed},
    },
    trace::Keep,
};

use crate::{
    Directory,
    pair::{Served, client as grpc_client, cluster, value},
    two_processes,
};

/// Maximum time from a change to its read: a check every 2 s, and the quiet period.
const NOTICED: Duration = Duration::from_secs(5);

fn text(value: &str) -> String {
    format!(
        "version_info: '{value}'\nresources:\n- {{'@type': {CLUSTER}, name: web, alt_stat_name: {value}}}\n"
    )
}

/// Saves a file in one of the ways of editors and operators.
async fn save(stage: &Stage, host: &Host, path: &Path, content: &str) {
    let pause = Duration::from_millis(stage.choices().pick("pause", &[0, 30, 400, 3_000]));
    let half = content.len() / 2;
    match stage.below("way to save", 6) {
        0 => {
            let aside = path.with_extension("new");
            fs::write(&aside, content).expect("it is written");
            sleep(pause).await;
            fs::rename(aside, path).expect("it is renamed");
        }
        // Truncated, then filled.
        1 => {
            fs::write(path, "").expect("it is written");
            sleep(pause).await;
            fs::write(path, content).expect("it is written");
        }
        // Written in two parts.
        2 => {
            fs::write(path, &content[..half]).expect("it is written");
            sleep(pause).await;
            fs::write(path, content).expect("it is written");
        }
        3 => {
            let _ = fs::remove_file(path);
            sleep(pause).await;
            fs::write(path, content).expect("it is written");
        }
        4 => {
            fs::write(path, "resources: [}").expect("it is written");
            sleep(pause).await;
            fs::write(path, content).expect("it is written");
        }
        // A new revision, to which a link is swapped.
        _ => {
            let revision = path.with_extension(format!(
                "{}.rev",
                stage.now().since(xds_core::Time::ZERO).as_nanos()
            ));
            fs::write(&revision, content).expect("it is written");
            let link = path.with_extension("link");
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(&revision, &link).expect("a link");
            sleep(pause).await;
            fs::rename(link, path).expect("it is renamed");
        }
    }
    if stage.below("event lost", 3) != 0 {
        host.report_file_changes();
    }
}

fn file_client(host: &Host, path: &Path) -> ClientHandle {
    let path = path.to_str().expect("a path in UTF-8");
    let server = ServerAddress::new(path).with_file(FilePolicy::default());
    let config = ClientConfig::new(Node::new("client"), server)
        .with_profile(Profile::envoy())
        .with_type(OpaqueType::new(CLUSTER));
    connect(host.clone(), config, ClientOptions::default())
}

/// A client watches a file while it is saved again and again.
async fn watch_file(stage: &Stage) {
    let directory = Directory::new();
    let host = stage.host("client");
    let path = directory.path().join("cds.yaml");
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let mut saved = BTreeSet::new();
    let client = file_client(&host, &path);
    let (mut watch, values) = (client.watch_untyped(CLUSTER, "web"), Arc::clone(&seen));
    host.start(async move {
        while let Some(Ok(notice)) = watch.next().await {
            if let Notice::Changed(Ok(resource)) = notice {
                values.lock().unwrap().push(resource.version.as_str().to_owned());
            }
            watch.handled();
        }
    });
    for number in 0..1 + stage.below("number of saves", 6) {
        stage.choices().begin_span();
        let name = format!("v{number}");
        save(stage, &host, &path, &text(&name)).await;
        saved.insert(name);
        let wait = stage.choices().pick("wait", &[0, 100, 2_000, 60_000]);
        sleep(Duration::from_millis(wait)).await;
        stage.choices().end_span();
    }
    let last = saved.last().cloned();
    let is_seen = || seen.lock().unwrap().last().cloned() == last;
    if !stage.until(NOTICED, is_seen).await {
        let what = format!("{:?} instead of {last:?}", seen.lock().unwrap());
        stage.violate("liveness", "the last saved content is read", what);
    }
    if let Some(other) = seen.lock().unwrap().iter().find(|it| !saved.contains(*it)) {
        stage.violate("complete", "only complete files are used", other.clone());
    }
    stage.kick().await;
}

/// A server serves the files of a directory to a client.
async fn serve_directory(stage: &Stage) {
    let directory = Directory::new();
    let served = Served::start(stage, "server");
    let near = stage.host("client");
    let client = grpc_client(&near, &["server"], xds_core::service::Variant::Incremental);
    let mut watch = client.watch_untyped(CLUSTER, "web");
    let place = directory.path().to_owned();
    let (changed, changes) = tokio::sync::watch::channel(());
    let _watch = served.host.watch_place(
        Place::Directory(place.clone()),
        &FilePolicy::default(),
        move |_| _ = changed.send(()),
    );
    let server = served.server.handle();
    served.host.start(follow(place, changes, server));
    let path = directory.path().join("cds.yaml");
    let mut last = String::new();
    for number in 0..1 + stage.below("number of saves", 5) {
        stage.choices().begin_span();
        last = format!("v{number}");
        save(stage, &served.host, &path, &text(&last)).await;
        if stage.below("reset", 3) == 0 {
            stage.reset(&near, &served.host);
        }
        let wait = stage.choices().pick("wait", &[0, 100, 2_000, 60_000]);
        sleep(Duration::from_millis(wait)).await;
        stage.choices().end_span();
    }
    // Noticing, and the backoff after a reset.
    let limit = NOTICED + Duration::from_secs(30);
    if timeout(limit, value(&mut watch, "web", &last)).await.is_err() {
        stage.violate("liveness", "the last saved content is served", format!("no {last}"));
    }
    stage.kick().await;
}

/// Applies the values in the files of a directory.
async fn follow(
    place: PathBuf,
    mut changes: tokio::sync::watch::Receiver<()>,
    server: xds_grpc::ServerHandle,
) {
    while changes.changed().await.is_ok() {
        let files = xds_fs::list(&place).expect("a directory");
        for content in files.into_iter().filter_map(|file| file.content.ok()) {
            let content = String::from_utf8_lossy(&content);
            let Some((_, rest)) = content.split_once("alt_stat_name: ") else { continue };
            let Some((value, _)) = rest.split_once("}\n") else { continue };
            let mut change = xds_core::server::Transaction::new();
            change.set(CLUSTER, "web", cluster("web", value));
            server.apply(change).await.expect("a sound change");
        }
    }
}

#[test]
fn file_client_reads_the_last_saved_content() {
    assert_eq!(check(0..150, &watch_file).runs, 150);
}

#[test]
fn served_directory_reaches_the_client() {
    assert_eq!(check(0..100, &serve_directory).runs, 100);
}

#[test]
fn runs_with_files_are_equal_in_two_processes() {
    let hashes = || -> Vec<u64> {
        (20..26).map(|seed| run_seed(seed, &serve_directory, Keep::Hash).hash).collect()
    };
    two_processes("files::runs_with_files_are_equal_in_two_processes", hashes);
}
