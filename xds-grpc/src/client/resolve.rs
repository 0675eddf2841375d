//! From a name to the addresses behind it.

use core::{fmt::Debug, net::SocketAddr, pin::Pin};
use std::io;

/// Finds the addresses behind the name of a management server.
///
/// A client asks anew at every attempt to connect, and tries the addresses in the order in which they
/// are given (S1.034). How long that may take is bounded by
/// [`ClientOptions::connect_timeout`](super::ClientOptions::connect_timeout).
pub trait Resolve: Debug + Send + Sync {
    /// The addresses of `host` with `port`. IP addresses are asked for as well. A panic is a failure to connect.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a>;
}

/// A resolution on its way.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;
