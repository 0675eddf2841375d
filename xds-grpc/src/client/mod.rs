//! gRPC client: a driver task around [`xds_core::Client`].
//!
//! | file | content |
//! |---|---|
//! | `driver.rs` | main loop: commands, link events and timeouts in; outputs and requests out |
//! | `link.rs` | one channel: dial, call, one queued request, responses on demand |
//! | `polling.rs` | a channel to a polled server (feature `rest`) |
//! | `file.rs` | a channel to a file (feature `files`) |
//! | `dial.rs` | one attempt to connect: addresses in turn, TLS, HTTP/2 |
//! | `http1_io.rs` | detection of servers that answer HTTP/1.1 in another protocol |
//! | `rotation.rs` | fair polling of links |
//! | `service.rs` | the services of a server and their order |
//! | `single_call.rs` | requests outside of discovery streams |
//! | `sources.rs` | the clients of one proxy with nested config sources |
//! | `log.rs` | log lines and levels |
//! | `options.rs` | timeouts, keepalive, limits |

mod dial;
mod driver;
#[cfg(feature = "files")]
mod file;
#[cfg(feature = "rest")]
mod http1_io;
mod link;
mod log;
mod options;
#[cfg(feature = "rest")]
mod polling;
mod rotation;
mod service;
mod single_call;
mod sources;

use xds_core::client::ClientConfig;
use xds_handle::ClientHandle;

use crate::runtime::{Runtime, SharedRuntime};
pub use crate::{
    address::{AddressFault, InvalidAddress, check_address},
    resolve::{Resolve, Resolving},
};

#[cfg(feature = "rest")]
pub use self::single_call::{GetError, GetResponse, http_get};
pub use self::{
    options::ClientOptions,
    service::Service,
    single_call::{CallConnection, Unreachable},
    sources::{MAX_SOURCES, SourceError, Sources},
};

/// Starts a client on the runtime. It connects when the first resource is watched. It ends when
/// it is shut down, or when the last handle and the last watch are dropped.
///
/// # Panics
///
/// Panics if tasks cannot be spawned; with tokio, outside of a runtime.
#[must_use = "the client ends when its last handle is dropped"]
pub fn connect(
    runtime: impl Runtime,
    config: ClientConfig,
    options: ClientOptions,
) -> ClientHandle {
    let runtime = SharedRuntime::new(runtime);
    let (handle, driver) = driver_on(runtime.clone(), config, options);
    runtime.spawn(driver);
    handle
}

/// Creates a client and the future that drives it on the runtime, to be spawned by the caller.
///
/// The future must run within the runtime, with its timers and I/O enabled. Dropping it ends the
/// client.
pub fn driver(
    runtime: impl Runtime,
    config: ClientConfig,
    options: ClientOptions,
) -> (ClientHandle, impl Future<Output = ()> + Send + 'static) {
    driver_on(SharedRuntime::new(runtime), config, options)
}

fn driver_on(
    runtime: SharedRuntime,
    config: ClientConfig,
    options: ClientOptions,
) -> (ClientHandle, impl Future<Output = ()> + Send + 'static) {
    let (handle, side) = xds_handle::channel();
    let dates = runtime.clone();
    let side = side.with_system_time(move || dates.system_time());
    let driver = async move {
        driver::Driver::new(config, options, side, runtime).run().await;
    };
    (handle, driver)
}
