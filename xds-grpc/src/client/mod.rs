//! The client: a driver task around [`xds_core::Client`].
//!
//! | file | what it does |
//! |---|---|
//! | `driver.rs` | the loop: commands, news, deadlines in; outputs obeyed, requests rendered |
//! | `link.rs` | one channel: dial, call, one queued request, responses when they are wanted |
//! | `polling.rs` | the same for a server that is polled (feature `rest`) |
//! | `file.rs` | the same for a server that is a file (feature `files`) |
//! | `dial.rs` | one attempt to connect: addresses in turn, TLS, HTTP/2 |
//! | `address.rs`, `resolve.rs` | the forms of a server's address, and the addresses behind a name |
//! | `rotation.rs` | whose turn it is among links that all have news |
//! | `service.rs` | which services stand behind a server, and whose turn it is |
//! | `sources.rs` | the clients of one proxy, whose resources name further sources |
//! | `log.rs` | what is logged at which level |
//! | `options.rs` | timeouts, keepalive, limits |

mod address;
mod dial;
mod driver;
#[cfg(feature = "files")]
mod file;
mod link;
mod log;
mod options;
#[cfg(feature = "rest")]
mod polling;
mod resolve;
mod rotation;
mod service;
mod sources;

use core::{convert::Infallible, marker::PhantomData};

use xds_core::client::ClientConfig;
use xds_handle::ClientHandle;

pub use crate::address::AddressFault;
use crate::runtime::{Runtime, Shared};

pub use self::{
    address::{InvalidAddress, check_address},
    options::ClientOptions,
    resolve::{Resolve, Resolving},
    service::Service,
    sources::{MAX_SOURCES, SourceError, Sources},
};
pub(crate) use self::{
    address::{Scheme, Target},
    dial::Security,
};

/// Where clients are started. There are no values of this type: a running client is reached through its
/// [`ClientHandle`].
#[derive(Debug)]
pub struct Client<R>(Infallible, PhantomData<R>);

impl<R: Runtime + Default> Client<R> {
    /// Starts a client on the runtime. It connects once something is watched, and ends when
    /// it is shut down or when the last handle and the last watch are dropped.
    ///
    /// # Panics
    ///
    /// Where tasks of the runtime cannot be spawned, as outside of tokio's.
    #[must_use = "the client ends when its last handle is dropped"]
    pub fn connect(config: ClientConfig, options: ClientOptions) -> ClientHandle {
        let (handle, driver) = Self::driver(config, options);
        R::default().spawn(Box::pin(driver));
        handle
    }

    /// A client and the future that drives it, for those who want to spawn it themselves. The
    /// future needs the runtime, with whatever it has for time and I/O. Dropping it ends the client.
    pub fn driver(
        config: ClientConfig,
        options: ClientOptions,
    ) -> (ClientHandle, impl Future<Output = ()> + Send + 'static) {
        let (handle, side) = xds_handle::channel();
        let driver = async move {
            let runtime = Shared::new(R::default());
            driver::Driver::new(config, options, side, runtime).run().await;
        };
        (handle, driver)
    }
}
