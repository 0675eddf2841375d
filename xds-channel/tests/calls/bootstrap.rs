//! Channels from a bootstrap.

use std::{env, process::Command};

use tokio::{runtime, task::spawn_blocking};
use tonic_health::pb::health_client::HealthClient;
use xds_bootstrap::Bootstrap;
use xds_channel::{ChannelOptions, InvalidServer, InvalidTarget, XdsChannel, XdsChannels};
use xds_core::types;

use crate::{
    support::*,
    world::{Backend, Change, World, check},
};

fn bootstrap(world: &World) -> Bootstrap {
    let text = r#"{
        "xds_servers": [{ "server_uri": "ADDRESS", "channel_creds": [{ "type": "insecure" }] }],
        "node": { "id": "by-bootstrap" },
        "client_default_listener_resource_name_template": "of/%s",
        "authorities": {
            "east": {
                "client_listener_resource_name_template":
                    "xdstp://east/envoy.config.listener.v3.Listener/%s"
            }
        },
        "certificate_providers": {
            "files": { "plugin_name": "file_watcher", "config": { "ca_certificate_file": "ca.pem" } },
            "other": { "plugin_name": "of_another_kind", "config": {} }
        }
    }"#;
    Bootstrap::from_json(&text.replace("ADDRESS", &world.address.to_string())).expect("a bootstrap")
}

/// Listener name and certificate providers of a server come from the bootstrap.
#[tokio::test]
async fn server_can_be_made_from_a_bootstrap() {
    let world = World::new().await;
    let channels = XdsChannels::connect(&bootstrap(&world)).expect("channels");
    let address = "[::]:50051".parse().unwrap();
    assert_eq!(channels.server(address).unwrap_err(), InvalidServer::NoTemplate);

    let text = r#"{
        "xds_servers": [{ "server_uri": "ADDRESS", "channel_creds": [{ "type": "insecure" }] }],
        "server_listener_resource_name_template": "servers/%s",
        "certificate_providers": {
            "files": { "plugin_name": "file_watcher", "config": { "ca_certificate_file": "ca.pem" } }
        }
    }"#;
    let text = text.replace("ADDRESS", &world.address.to_string());
    let channels = XdsChannels::connect(&Bootstrap::from_json(&text).unwrap()).expect("channels");
    let options = channels.server_options(address).expect("options");
    assert_eq!(options.listener.as_str(), "servers/[::]:50051");
    assert!(options.certificate_providers.contains_key("files"));
    let states = channels.server(address).expect("a server").states();
    assert!(!states.current().is_serving());
    let no_port = "[::]:0".parse().unwrap();
    assert_eq!(channels.server(no_port).unwrap_err(), InvalidServer::NoPort(no_port));
}

/// Node, listener template, authorities and certificate providers come from the bootstrap.
#[tokio::test]
async fn channel_can_be_made_from_a_bootstrap_alone() {
    let world = World::new().await;
    let [near, east] = [Backend::new().await, Backend::new().await];
    let named = "xdstp://east/envoy.config.listener.v3.Listener/shop";
    let mut change = Change::new().at("near", &[near.address]).at("east", &[east.address]);
    for (listener, name) in [("of/shop", "near"), (named, "east")] {
        let table = routes(name, vec![host(&["shop"], vec![route(prefix(""), cluster(name))])]);
        let listed = prost::Message::encode_to_vec(&api_listener(listener, &manager(rds(name))));
        change.0.set(types::LISTENER, listener, listed);
        change.0.set(types::ROUTE_CONFIGURATION, name, prost::Message::encode_to_vec(&table));
    }
    world.apply(change.0).await;
    let channels = XdsChannels::connect(&bootstrap(&world)).expect("channels");
    let providers: Vec<_> = channels.options().certificate_providers.keys().collect();
    assert_eq!(providers, ["files"]);
    for (target, backend) in [("xds:///shop", &near), ("xds://east/shop", &east)] {
        let channel = channels.channel(target).expect("a target");
        check(&mut HealthClient::new(channel), &[]).await.expect("an answer");
        assert_eq!(backend.calls(), 1, "{target}");
    }
    assert_eq!((near.calls(), east.calls()), (1, 1));
    // Errors contain the node id.
    let absent = channels.channel("xds:///nothing").expect("a target");
    let status = check(&mut HealthClient::new(absent), &[("grpc-timeout", "200m")]).await;
    let status = status.unwrap_err();
    assert!(status.message().contains("by-bootstrap"), "{status}");

    let unknown =
        |target: &str| InvalidTarget::Authority { target: target.into(), authority: "west".into() };
    let west = "xds://west/shop";
    assert_eq!(channels.channel(west).unwrap_err(), unknown(west));
    let options = || ChannelOptions::new("node-1");
    assert_eq!(XdsChannel::new(&world.client, west, options()).unwrap_err(), unknown(west));
    let listed = XdsChannel::new(&world.client, west, options().with_listener("of/shop"));
    check(&mut HealthClient::new(listed.expect("a channel")), &[]).await.expect("an answer");
    let form = InvalidTarget::Form { target: "dns:///shop".into() };
    assert_eq!(channels.channel("dns:///shop").unwrap_err(), form);
    println!("covers: FE-20");
}

/// The client of the process outlives the runtime in which the first channel was created. This test
/// runs itself in a process with a bootstrap.
#[test]
fn channels_of_the_process_outlive_a_runtime() {
    const VARIABLE: &str = "GRPC_XDS_BOOTSTRAP_CONFIG";
    let runtime = || runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if env::var_os("CHANNELS_OF_THE_PROCESS").is_some() {
        for _ in 0..2 {
            runtime().block_on(async {
                let channels = XdsChannels::of_process().expect("channels");
                let channel = channels.channel("xds:///shop").expect("a target");
                check(&mut HealthClient::new(channel), &[]).await.expect("an answer");
            });
        }
        return;
    }
    runtime().block_on(async {
        let world = World::new().await;
        let backend = Backend::new().await;
        let change = Change::new().routes(vec![route(prefix(""), cluster("c"))]);
        world.apply(change.at("c", &[backend.address]).0).await;
        let text = format!(
            r#"{{ "xds_servers": [{{
                "server_uri": "{}", "channel_creds": [{{ "type": "insecure" }}]
            }}], "node": {{ "id": "node-1" }} }}"#,
            world.address
        );
        let mut itself = Command::new(env::current_exe().unwrap());
        itself.args(["--exact", "bootstrap::channels_of_the_process_outlive_a_runtime"]);
        itself.env(VARIABLE, text).env_remove("GRPC_XDS_BOOTSTRAP");
        itself.env("CHANNELS_OF_THE_PROCESS", "");
        let output = spawn_blocking(move || itself.output()).await.unwrap().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(backend.calls(), 2);
    });
}
