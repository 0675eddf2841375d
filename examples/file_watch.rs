//! Watches the clusters in a file, without a server, until Ctrl-C.
//!
//! `cargo run -p xds-examples --bin file_watch -- examples/config/clusters.yaml`

use std::{env, error::Error};

use tokio::{select, signal};
use xds_core::{
    client::{Change, ClientConfig, FilePolicy, Node, OpaqueType, Profile, ServerAddress},
    types,
};
use xds_tokio::{ClientOptions, client};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).unwrap_or_else(|| "examples/config/clusters.yaml".into());

    // The server has a path instead of an address. Other types can come from other files or from
    // servers: `ClientConfig::with_source`.
    let server = ServerAddress::new(path).with_file(FilePolicy::default());
    let config = ClientConfig::new(Node::new("example"), server)
        .with_profile(Profile::envoy())
        .with_type(OpaqueType::new(types::CLUSTER));
    let client = client::connect(config, ClientOptions::default());
    let mut clusters = client.watch_all_untyped(types::CLUSTER);
    loop {
        select! {
            _ = signal::ctrl_c() => return Ok(()),
            Some(change) = clusters.next() => match change? {
                Change::Resource { name, result: Ok(resource) } => {
                    println!("{name} version {}: {} bytes", resource.version, resource.bytes.len());
                }
                Change::Resource { name, result: Err(error) } => println!("{name} removed: {error}"),
                Change::Ambient { name, error: Some(error) } => {
                    println!("{name} still in use, but has an error: {error}");
                }
                Change::CollectionAmbient(Some(error)) => println!("all resources still in use, but have an error: {error}"),
                Change::Collection(Err(error)) => println!("no resources yet: {error}"),
                Change::Collection(Ok(())) => println!("all resources received"),
                _ => {}
            },
        }
    }
}
