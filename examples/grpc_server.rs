//! gRPC servers configured by xDS: the health service on each given address, until Ctrl-C.
//!
//! Needs a bootstrap with a `server_listener_resource_name_template`. Start
//! `cargo run -p xds-cli -- serve examples/server --listen 127.0.0.1:18000`, then
//! `GRPC_XDS_BOOTSTRAP=examples/server-bootstrap.json cargo run -p xds-examples --bin grpc_server --
//! 127.0.0.1:50051`, and edit the served file.

use std::{env, error::Error, net::SocketAddr};

use tokio::{signal, task::JoinSet};
use tonic::service::Routes;
use xds_channel::{ServingStates, XdsChannels};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for argument in env::args().skip(1) {
        addresses.push(argument.parse()?);
    }
    if addresses.is_empty() {
        addresses.push(SocketAddr::from(([127, 0, 0, 1], 50051)));
    }

    let (_reporter, health) = tonic_health::server::health_reporter();
    let services = Routes::new(health);
    // Reads the bootstrap that the environment names.
    let channels = XdsChannels::of_process()?;
    let mut servers = JoinSet::new();
    for address in addresses {
        let server = channels.server(address)?;
        tokio::spawn(print(address, server.states()));
        // Waits for calls that have begun before it ends.
        servers.spawn(server.serve_until(services.clone(), async {
            let _ = signal::ctrl_c().await;
        }));
    }
    servers.join_all().await;
    println!("shut down");
    Ok(())
}

/// Prints the states of a server.
async fn print(address: SocketAddr, mut states: ServingStates) {
    println!("{address}: {}", states.current());
    while let Some(state) = states.changed().await {
        println!("{address}: {state}");
    }
}
