//! gRPC channels whose calls are routed by xDS.
//!
//! ```no_run
//! # use tonic_health::pb::health_client::HealthClient;
//! # fn run() -> Result<(), xds::channel::ChannelError> {
//! let mut health = HealthClient::new(xds::channel("xds:///greeter")?);
//! # Ok(())
//! # }
//! ```

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
