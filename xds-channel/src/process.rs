//! Channels of the process.

use core::future::pending;
use std::{
    io,
    sync::{Arc, OnceLock, mpsc},
    thread,
};

use thiserror::Error;
use tokio::runtime;
use xds_bootstrap::{Bootstrap, BootstrapError};

use crate::{
    bootstrap::{InvalidServer, XdsChannels},
    target::InvalidTarget,
};

/// Reason why a channel or a server of the process was not created.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The bootstrap of the process is missing or invalid.
    #[error(transparent)]
    Bootstrap(Arc<BootstrapError>),
    /// The thread of the xDS client was not started, for this reason.
    #[error("cannot start the thread of the xDS client: {0}")]
    Thread(String),
    /// The target is not valid.
    #[error(transparent)]
    Target(#[from] InvalidTarget),
    /// The server cannot be configured by xDS.
    #[error(transparent)]
    Server(#[from] InvalidServer),
}

impl XdsChannels {
    /// Returns the channels of the process, which share one xDS client. The first call reads the
    /// bootstrap ([`Bootstrap::of_process`]).
    ///
    /// The client runs on a thread of its own, so it does not end with the runtime of the first
    /// caller, for example that of a test. Channels run in the runtime in which they are created.
    ///
    /// # Errors
    ///
    /// Returns an error if the bootstrap is missing or invalid, or if the thread cannot be started.
    /// Every later call returns the same error.
    pub fn of_process() -> Result<&'static Self, ChannelError> {
        static CHANNELS: OnceLock<Result<XdsChannels, ChannelError>> = OnceLock::new();
        let channels = CHANNELS.get_or_init(|| match Bootstrap::of_process() {
            Ok(bootstrap) => connect_on_thread(bootstrap),
            Err(error) => Err(ChannelError::Bootstrap(Arc::new(error.clone()))),
        });
        channels.as_ref().map_err(Clone::clone)
    }
}

/// Connects on a new thread, which runs until the process ends.
fn connect_on_thread(bootstrap: &'static Bootstrap) -> Result<XdsChannels, ChannelError> {
    let failed = |why: io::Error| ChannelError::Thread(why.to_string());
    let (sender, receiver) = mpsc::channel();
    let run = move || {
        let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(why) => {
                let _ = sender.send(Err(failed(why)));
                return;
            }
        };
        runtime.block_on(async {
            let connected = XdsChannels::connect(bootstrap);
            let is_connected = connected.is_ok();
            let invalid = |error| ChannelError::Bootstrap(Arc::new(error));
            let _ = sender.send(connected.map_err(invalid));
            if is_connected {
                pending::<()>().await;
            }
        });
    };
    thread::Builder::new().name("xds-client".into()).spawn(run).map_err(failed)?;
    receiver.recv().unwrap_or_else(|_| Err(ChannelError::Thread("it has ended".into())))
}
