//! Name resolution.

use core::{fmt::Debug, net::SocketAddr, pin::Pin};
use std::io;

/// Resolver of management server names.
///
/// A client resolves the name at every attempt to connect, and tries the addresses in the returned
/// order. The time is limited by
/// [`ClientOptions::connect_timeout`](crate::ClientOptions::connect_timeout).
// S1.034
pub trait Resolve: Debug + Send + Sync {
    /// Returns the addresses of `host` with `port`. `host` may be an IP address. A panic fails the
    /// attempt to connect.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a>;
}

/// Future of a name resolution.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;
