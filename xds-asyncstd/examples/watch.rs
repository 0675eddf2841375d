//! Prints the clusters of a management server and their changes, on smol: `cargo run -p
//! xds-asyncstd --example watch -- 127.0.0.1:18000`

use std::env;

use xds_asyncstd::{ClientOptions, smol::connect};
use xds_core::{
    client::{ClientConfig, Node, OpaqueType, ServerAddress},
    types::CLUSTER,
};

fn main() {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:18000".to_owned());
    let config = ClientConfig::new(Node::new("example"), ServerAddress::new(address))
        .with_type(OpaqueType::new(CLUSTER));
    smol::block_on(async {
        let client = connect(config, ClientOptions::default());
        let mut clusters = client.watch_all_untyped(CLUSTER);
        while let Some(Ok(change)) = clusters.next().await {
            println!("{change:?}");
            clusters.handled();
        }
    });
}
