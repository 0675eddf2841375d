//! gRPC channels whose calls are routed by xDS, and gRPC servers that are configured by it.
//!
//! ```no_run
//! # use tonic_health::pb::health_client::HealthClient;
//! # fn run() -> Result<(), xds::channel::ChannelError> {
//! let mut health = HealthClient::new(xds::channel("xds:///greeter")?);
//! # Ok(())
//! # }
//! ```

use std::net::SocketAddr;

pub use xds_channel::*;

/// Creates a channel to a target, such as `xds:///greeter`, for the clients that tonic generates.
///
/// All channels of the process share one client ([`XdsChannels::of_process`]), which runs on a
/// thread of its own. The first call reads its bootstrap from the file that the environment variable
/// `GRPC_XDS_BOOTSTRAP` names or, if it is not set, from the variable `GRPC_XDS_BOOTSTRAP_CONFIG`
/// itself.
///
/// # Errors
///
/// Returns an error if the bootstrap is missing or invalid, or the target is not an `xds` URI.
/// After an error of the bootstrap, every later call returns the same error.
///
/// # Panics
///
/// Panics outside of a tokio runtime.
pub fn channel(target: &str) -> Result<XdsChannel, ChannelError> {
    Ok(XdsChannels::of_process()?.channel(target)?)
}

/// Creates a server for tonic's services that listens on an address and is configured by xDS.
///
/// It shares the client of the process, and so the bootstrap, with [`channel`]. The bootstrap's
/// `server_listener_resource_name_template` gives the name of the listener.
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use tonic::service::Routes;
///
/// let (_reporter, health) = tonic_health::server::health_reporter();
/// xds::channel::grpc_server("0.0.0.0:50051".parse()?)?.serve(Routes::new(health)).await;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Returns an error if the bootstrap is missing or invalid, or does not say how the listeners of
/// servers are named, or if the port is 0.
pub fn grpc_server(address: SocketAddr) -> Result<XdsServer, ChannelError> {
    Ok(XdsChannels::of_process()?.server(address)?)
}
