//! Fallback from a server that cannot be reached.

use crate::support::{CLUSTER, FakeServer, config, value};
use xds_core::client::ServerAddress;
use xds_tokio::{ClientOptions, client};

#[tokio::test]
async fn invalid_server_address_fails_over_to_the_next_server() {
    for bad in ["", "::::", "http://not a host", "unix:"] {
        let mut server = FakeServer::start().await;
        let mut config = config(server.address);
        config.servers.insert(0, ServerAddress::new(bad));
        let client = client::connect(config, ClientOptions::default().with_seed(7));
        let mut watch = client.watch_untyped(CLUSTER, "a");
        let mut stream = server.stream().await;
        stream.request().await;
        stream.respond(CLUSTER, "1", "n1", &[("a", "one")]);
        assert_eq!(value(&mut watch).await.name.as_str(), "a", "behind {bad:?}");
    }
    println!("covers: FB-18");
}
