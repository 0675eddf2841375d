//! Watches the clusters of a management server by polling over REST-JSON, until Ctrl-C.
//!
//! Start `--bin control_plane`, then
//! `cargo run -p xds-examples --bin rest_poll -- 127.0.0.1:18001`.

use core::time::Duration;
use std::{env, error::Error};

use tokio::{select, signal};
use xds_core::{
    client::{Change, ClientConfig, Node, OpaqueType, PollPolicy, Profile, ServerAddress},
    types,
};
use xds_tokio::{ClientOptions, client};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:18001".into());

    // A server may hold a request until it has a change: for 25 s by default with
    // this workspace's server.
    let polls =
        PollPolicy::new(Duration::from_secs(1)).with_request_timeout(Duration::from_secs(60));
    let server = ServerAddress::new(address).with_polling(polls);
    let config = ClientConfig::new(Node::new("rest_poll"), server)
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
                Change::CollectionAmbient(Some(error)) => println!("all resources still in use, but have an error: {error}"),
                Change::Collection(Err(error)) => println!("no resources yet: {error}"),
                _ => {}
            },
        }
    }
}
