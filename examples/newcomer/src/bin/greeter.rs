//! Calls a gRPC service whose endpoints come from xDS. `GRPC_XDS_BOOTSTRAP` names the bootstrap.

use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut health = HealthClient::new(xds::channel("xds:///greeter")?);
    println!("{:?}", health.check(HealthCheckRequest::default()).await?.into_inner());
    Ok(())
}
