//! Prints the clusters of a management server as they change.

use xds::{Client, client::Event, resources::Cluster};

fn address() -> String {
    std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:18000".into())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect(address()).node_id("newcomer").start()?;
    let mut clusters = client.watch_all::<Cluster>();
    while let Some(event) = clusters.next().await {
        match event {
            Event::Applied(cluster) => println!("{} {}", cluster.name, cluster.version()),
            Event::Removed { name, reason } => println!("{name} removed: {reason}"),
            other => println!("{other:?}"),
        }
    }
    Ok(())
}
