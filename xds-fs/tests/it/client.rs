//! A client of files with the driver of xds-tokio, from watchers to the disk.

#![cfg(target_os = "linux")]

use std::time::Duration;

use crate::support::{Folder, clusters};
use tokio::time::timeout;
use xds_bootstrap::envoy::EnvoyBootstrap;
use xds_core::{
    client::{
        ClientConfig, FilePolicy, Node, Notice, OpaqueType, Profile, ServerAddress, WatchError,
    },
    types,
};
use xds_format::Validator;
use xds_tokio::{ClientHandle, ClientOptions, ValidatedTypes as _, Watch, client};

fn client(path: &str, profile: Profile) -> ClientHandle {
    let server = ServerAddress::new(path).with_file(FilePolicy::default());
    let config = ClientConfig::new(Node::new("n"), server)
        .with_profile(profile)
        .with_type(OpaqueType::new(types::CLUSTER))
        .with_type(OpaqueType::new(types::CLUSTER_LOAD_ASSIGNMENT));
    client::connect(config, ClientOptions::default())
}

/// Waits for the next notification of a watch and formats it briefly.
async fn next(watch: &mut Watch) -> String {
    let notice = timeout(Duration::from_secs(30), watch.next()).await.expect("soon");
    let notice = notice.expect("the client is there").expect("a sound watch");
    watch.handled();
    let about = |error: &WatchError| error.kind().to_string();
    match notice {
        Notice::Changed(Ok(resource)) => format!("version {}", resource.version),
        Notice::Changed(Err(error)) => format!("none: {}", about(&error)),
        Notice::Ambient(Some(error)) => format!("beside it: {}", about(&error)),
        Notice::Ambient(None) => "all is well".into(),
        other => format!("{other:?}"),
    }
}

fn of_version(version: &str, names: &[&str]) -> String {
    clusters(names).replace("version_info: v", &format!("version_info: {version}"))
}

#[tokio::test]
async fn broken_file_keeps_the_last_valid_state() {
    let folder = Folder::new("client");
    let path = folder.path("cds.yaml").to_str().unwrap().to_owned();
    for profile in [Profile::grpc(), Profile::envoy()] {
        let client = client(&path, profile);
        let mut watch = client.watch_untyped(types::CLUSTER, "a");
        let missing = next(&mut watch).await;
        assert!(missing.starts_with(&format!("none: {path}: No such file")), "{missing}");
        folder.replace("cds.yaml", of_version("one", &["a", "b"]));
        assert_eq!(next(&mut watch).await, "version one");

        folder.write("cds.yaml", clusters(&["a, lb_polcy: MAGLEV"]));
        let broken = next(&mut watch).await;
        assert!(broken.starts_with(&format!("beside it: {path}:3:")), "{broken}");
        assert!(broken.contains("resources[0]") && broken.contains("lb_polcy"), "{broken}");
        let status = client.status().await.expect("it runs");
        assert_eq!(status[0].version.as_str(), "one");

        folder.replace(
            "cds.yaml",
            of_version("two", &["b"]).replace("name: b", "name: a, type: EDS"),
        );
        assert_eq!(next(&mut watch).await, "version two");
        // A resource that was not requested before.
        let mut other = client.watch_untyped(types::CLUSTER_LOAD_ASSIGNMENT, "a");
        let about_another = next(&mut other).await;
        assert!(about_another.starts_with("none: "), "{about_another}");
        std::fs::remove_file(&path).unwrap();
        let gone = next(&mut watch).await;
        assert!(gone.starts_with("beside it: ") && gone.contains("No such file"), "{gone}");
    }
    println!("covers: S0.017 S0.018 IS32");
}

#[tokio::test]
async fn accepted_and_rejected_contents_are_counted() {
    let folder = Folder::new("counted");
    let path = folder.path("cds.yaml").to_str().unwrap().to_owned();
    let client = client(&path, Profile::grpc());
    let mut watch = client.watch_untyped(types::CLUSTER, "a");
    next(&mut watch).await;
    folder.write("cds.yaml", of_version("one", &["a"]));
    assert_eq!(next(&mut watch).await, "version one");
    let listener = format!("- {{'@type': {}, name: l}}\n", types::LISTENER);
    folder.write(
        "cds.yaml",
        of_version("two", &["a"]).replace("}\n", ", alt_stat_name: s}\n") + &listener,
    );
    assert_eq!(next(&mut watch).await, "version two", "the rest of the response is good");
    let stats = client.stats().await.expect("it runs");
    assert_eq!((stats.server_failures, stats.acks, stats.nacks), (1, 1, 1));
    println!("covers: S0.017");
}

/// An Envoy bootstrap may have one type in a file and another in a mounted ConfigMap.
#[tokio::test]
async fn envoy_bootstrap_sets_a_file_for_each_type() {
    let folder = Folder::new("bootstrap");
    let listener = format!("resources: [{{'@type': {}, name: l}}]", types::LISTENER);
    folder.write("lds.yaml", listener);
    folder.write("cds.yaml", of_version("one", &["a"]));
    let path = |name: &str| folder.path(name).to_str().unwrap().to_owned();
    let text = format!(
        r#"{{ "dynamic_resources": {{
            "lds_config": {{ "path": "{}" }},
            "cds_config": {{ "path_config_source": {{
                "path": "{}", "watched_directory": {{ "path": "{}" }} }} }} }} }}"#,
        path("lds.yaml"),
        path("cds.yaml"),
        path(""),
    );
    let bootstrap = EnvoyBootstrap::from_json(&text).expect("it is right");
    let config = bootstrap.client_config().expect("the core can do that");
    let config = config
        .with_type(OpaqueType::new(types::LISTENER))
        .with_type(OpaqueType::new(types::CLUSTER));
    let client = client::connect(config, ClientOptions::default());
    let mut listeners = client.watch_untyped(types::LISTENER, "l");
    let mut clusters = client.watch_untyped(types::CLUSTER, "a");
    assert!(next(&mut listeners).await.starts_with("version "));
    assert_eq!(next(&mut clusters).await, "version one");
    folder.replace("cds.yaml", of_version("two", &["b"]));
    assert_eq!(next(&mut clusters).await, "none: does not exist: deleted by the server");
    println!("covers: S0.010 B18");
}

/// In a client made from an Envoy bootstrap, a resource that violates the constraints is rejected,
/// and the previous one is kept.
#[tokio::test]
async fn client_of_an_envoy_bootstrap_validates_constraints() {
    let folder = Folder::new("validated");
    let path = folder.path("cds.yaml").to_str().unwrap().to_owned();
    let timeout = |version: &str, timeout: &str| {
        of_version(version, &["a"]).replace("}\n", &format!(", connect_timeout: {timeout}}}\n"))
    };
    folder.write("cds.yaml", timeout("one", "1s"));
    let text = format!(
        r#"{{ "dynamic_resources": {{ "cds_config": {{ "path_config_source": {{ "path": "{path}" }} }} }} }}"#
    );
    let bootstrap = EnvoyBootstrap::from_json(&text).expect("it is right");
    let plain = || {
        let config = bootstrap.client_config().expect("the core can do that");
        config.with_type(OpaqueType::new(types::CLUSTER))
    };
    let validated = plain().with_validated_types(Validator::envoy());
    let client = client::connect(validated, ClientOptions::default());
    let mut watch = client.watch_untyped(types::CLUSTER, "a");
    assert_eq!(next(&mut watch).await, "version one");
    folder.replace("cds.yaml", timeout("two", "0s"));
    let rejected = next(&mut watch).await;
    let why = "connect_timeout: must be greater than 0s, is 0s";
    assert!(rejected.starts_with("beside it: ") && rejected.contains(why), "{rejected}");
    let status = client.status().await.expect("it runs");
    assert_eq!(status[0].version.as_str(), "one");

    // Validation is not the default.
    let careless = client::connect(plain(), ClientOptions::default());
    assert_eq!(next(&mut careless.watch_untyped(types::CLUSTER, "a")).await, "version two");
    println!("covers: S4.032 X39");
}
