//! Files.

use std::{fs, path::Path};

use xds_core::{
    client::{FilePolicy, ManagementServer},
    types::CLUSTER,
};

use super::config;
use crate::{ClientAdapter, ClientSettings, folder::Folder, wait::value};

fn clusters(version: &str) -> String {
    format!("version_info: {version}\nresources:\n- {{'@type': {CLUSTER}, name: a}}\n")
        .replace("name: a", &format!("name: a, alt_stat_name: {version}"))
}

fn of(path: &Path, policy: FilePolicy) -> ManagementServer {
    ManagementServer::new(path.to_str().expect("a path in UTF-8")).with_files(policy)
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
        // As a ConfigMap is mounted: a link to the generation, which another one replaces.
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
