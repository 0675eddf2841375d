//! Prints the endpoints that calls of a gRPC channel go to, whenever they change, until Ctrl-C.
//!
//! Start `cargo run -p xds-cli -- serve examples/grpc --listen 127.0.0.1:18000`, then
//! `cargo run -p xds-examples --bin resolve -- 127.0.0.1:18000 shop.example.com`, and edit the
//! served files.

use std::{env, error::Error};

use tokio::{select, signal};
use xds_core::client::{ClientConfig, Node, ServerAddress};
use xds_routing::{
    ClusterLoadAssignments, Clusters, Listeners, RouteConfigurations,
    dependencies::{
        Children, ClusterConfiguration, Configuration, DependencyManager, Endpoints,
        HandleDependencies,
    },
};
use xds_tokio::{ClientOptions, client};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let server = arguments.next().unwrap_or_else(|| "127.0.0.1:18000".into());
    let name = arguments.next().unwrap_or_else(|| "shop.example.com".into());
    client::check_address(&server)?;

    // Invalid resources are rejected with a NACK that names the field.
    let config = ClientConfig::new(Node::new("resolve"), ServerAddress::new(server))
        .with_type(Listeners::default())
        .with_type(RouteConfigurations::default())
        .with_type(Clusters::default())
        .with_type(ClusterLoadAssignments::default());
    let client = client::connect(config, ClientOptions::default());

    // The channel's target is the name of the listener, and selects the virtual host.
    let manager = DependencyManager::new(name.as_str(), name.as_str(), "resolve");
    let mut dependencies = HandleDependencies::new(manager, client);
    loop {
        select! {
            _ = signal::ctrl_c() => return Ok(()),
            Some(configuration) = dependencies.next() => match configuration {
                Ok(configuration) => print(&configuration),
                Err(error) => println!("all calls fail: {error}"),
            },
        }
    }
}

fn print(configuration: &Configuration) {
    println!("calls go to {:?}", configuration.virtual_host().clusters());
    for (name, cluster) in configuration.clusters() {
        match cluster {
            Ok(cluster) => println!("  {name}: {}", describe(cluster)),
            Err(error) => println!("  {name}: calls fail: {error}"),
        }
    }
}

fn describe(cluster: &ClusterConfiguration) -> String {
    match &cluster.children {
        Children::Leaf(leaf) => match &leaf.endpoints {
            Endpoints::Known(endpoints) => {
                let addresses = endpoints.endpoints().flat_map(|it| &it.addresses);
                let addresses: Vec<String> = addresses.map(ToString::to_string).collect();
                format!("{} ({})", addresses.join(", "), cluster.note)
            }
            Endpoints::Dns(address) => format!("DNS name {address} ({})", cluster.note),
            _ => format!("no endpoints: {}", cluster.note),
        },
        Children::Aggregate(leaves) => format!("first available of: {leaves:?}"),
        _ => "unknown kind of cluster".into(),
    }
}
