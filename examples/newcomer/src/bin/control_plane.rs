//! Serves a cluster to each of two zones, over TLS.

use xds::{ManagementServer, resources::Cluster, server::Transaction};

fn cluster(name: &str) -> Cluster {
    Cluster { name: name.into(), ..Cluster::default() }
}

fn address() -> String {
    std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:18443".into())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ManagementServer::builder()
        .tls("cert.pem", "key.pem")
        .view_of(|node| node.zone().to_owned())
        .bind(address())
        .await?;
    println!("serving on {}", server.address());
    for zone in ["zone-a", "zone-b"] {
        let snapshot = Transaction::snapshot(zone).with(&cluster("web"))?;
        server.apply(snapshot.with(&cluster(zone))?).await?;
    }
    Ok(server.run_until(tokio::signal::ctrl_c()).await?)
}
