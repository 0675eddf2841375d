//! gRPC channels whose calls are routed by xDS.
//!
//! ```no_run
//! # use tonic_health::pb::health_client::HealthClient;
//! # fn run() -> Result<(), xds::channel::ChannelError> {
//! let mut health = HealthClient::new(xds::channel("xds:///greeter")?);
//! # Ok(())
//! # }
//! ```

use std::sync::{Arc, OnceLock};

use thiserror::Error;
use xds_bootstrap::{Bootstrap, BootstrapError};

pub use xds_channel::*;

/// Reason why a channel was not created.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The bootstrap of the process is missing or invalid.
    #[error(transparent)]
    Bootstrap(Arc<BootstrapError>),
    /// The target is not valid.
    #[error(transparent)]
    Target(#[from] InvalidTarget),
}

/// Creates a channel to a target, such as `xds:///greeter`, for the clients that tonic generates.
///
/// All channels of the process share one client. The first call reads its bootstrap from the file
/// that the environment variable `GRPC_XDS_BOOTSTRAP` names or, if it is not set, from the variable
/// `GRPC_XDS_BOOTSTRAP_CONFIG` itself.
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
    static CHANNELS: OnceLock<Result<XdsChannels, Arc<BootstrapError>>> = OnceLock::new();
    let channels = CHANNELS.get_or_init(|| {
        let bootstrap = Bootstrap::of_process().map_err(|error| Arc::new(error.clone()))?;
        XdsChannels::connect(bootstrap).map_err(Arc::new)
    });
    let channels = channels.as_ref().map_err(|error| ChannelError::Bootstrap(Arc::clone(error)))?;
    Ok(channels.channel(target)?)
}
