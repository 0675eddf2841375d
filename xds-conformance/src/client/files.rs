//! Test cases for files.

use std::{fs, path::Path};

use xds_core::{
    client::{FilePolicy, ServerAddress},
    types::CLUSTER,
};

use super::config;
use crate::{
    ClientAdapter, ClientSettings,
    folder::Folder,
    wait::{first_value, soon, trouble, value},
};

fn clusters(version: &str) -> String {
    format!("version_info: {version}\nresources:\n- {{'@type': {CLUSTER}, name: a}}\n")
        .replace("name: a", &format!("name: a, alt_stat_name: {version}"))
}

fn of(path: &Path, policy: FilePolicy) -> ServerAddress {
    ServerAddress::new(path.to_str().expect("a path in UTF-8")).with_file(policy)
}

pub(super) async fn rename(adapter: &dyn ClientAdapter) {
    let folder = Folder::new();
    let path = folder.put("cds.yaml", &clusters("one"));
    let config = config(of(&path, FilePolicy::default()));
    let client = adapter.connect(config, &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    assert_eq!(value(&mut watch).await.version.as_str(), "one");
    folder.put("cds.yaml", &clusters("two"));
    assert_eq!(value(&mut watch).await.version.as_str(), "two");
    println!("covers: S0.010");
}

pub(super) async fn swapped_directory(adapter: &dyn ClientAdapter) {
    let folder = Folder::new();
    let generation = |name: &str| {
        fs::create_dir(folder.path(name)).expect("a directory");
        fs::write(folder.path(name).join("cds.yaml"), clusters(name)).expect("a file");
        // Layout of a mounted ConfigMap: a link to the current generation is replaced.
        std::os::unix::fs::symlink(name, folder.path("next")).expect("a link");
        fs::rename(folder.path("next"), folder.path("..data")).expect("the link in its place");
    };
    generation("one");
    let path = folder.path("..data").join("cds.yaml");
    let directory = folder.path("");
    let policy =
        FilePolicy::default().with_watched_directory(directory.to_str().expect("a path in UTF-8"));
    let client = adapter.connect(config(of(&path, policy)), &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    assert_eq!(value(&mut watch).await.version.as_str(), "one");
    generation("two");
    assert_eq!(value(&mut watch).await.version.as_str(), "two");
}

pub(super) async fn created_again(adapter: &dyn ClientAdapter) {
    let folder = Folder::new();
    let path = folder.put("cds.yaml", &clusters("one"));
    let config = config(of(&path, FilePolicy::default()));
    let client = adapter.connect(config, &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    assert_eq!(value(&mut watch).await.version.as_str(), "one");
    fs::remove_file(&path).expect("it is there");
    let why = trouble(&mut watch).await.to_string();
    assert!(why.contains(path.to_str().expect("a path in UTF-8")), "{why}");
    let held = client.status().await.expect("it runs");
    assert_eq!(held[0].version.as_str(), "one", "the last good state stays");
    folder.put("cds.yaml", &clusters("two"));
    assert_eq!(first_value(&mut watch).await.version.as_str(), "two");
    println!("covers: S0.018");
}

pub(super) async fn shut_down(adapter: &dyn ClientAdapter) {
    let folder = Folder::new();
    let path = folder.put("cds.yaml", &clusters("one"));
    let config = config(of(&path, FilePolicy::default()));
    let client = adapter.connect(config, &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    assert_eq!(value(&mut watch).await.version.as_str(), "one");
    let mut other = client.watch_untyped(CLUSTER, "b");
    client.shut_down();
    soon("the end of the client", client.ended()).await;
    folder.put("cds.yaml", &clusters("two"));
    assert!(soon("the end of the watch", watch.next()).await.is_none());
    // Earlier notices may come first.
    while soon("the end of the other", other.next()).await.is_some() {}
}
