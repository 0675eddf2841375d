//! Configuration of a gRPC server by xDS ([gRFC A36], [gRFC A41]).
//!
//! A server asks for a listener, whose name contains the address that the server listens on. The
//! listener has filter chains: which connections they handle, their TLS, and their routes and HTTP
//! filters. A [`ServingManager`] watches the listener and the route configurations that it names,
//! and combines them into a [`ServerConfiguration`].
//!
//! [gRFC A36]: https://github.com/grpc/proposal/blob/master/A36-xds-for-servers.md
//! [gRFC A41]: https://github.com/grpc/proposal/blob/master/A41-xds-rbac.md
//!
//! ```text
//!                                             watches to start, watches to end
//!   client ──── notices ────▶ ServingManager ──────────────────────────────────▶ client
//!                                   │
//!                                   ▼  Result<ServerConfiguration, ServingError>
//!                   listen, or close the port and drain the connections
//!
//!   connection ──▶ SocketListener::filter_chain ──▶ TLS, or close the connection
//!   call ────────▶ ServerRoutes::admit ───────────▶ the service, or a status
//! ```
//!
//! It performs no I/O. [`ClientServing`] connects it to a client core. With the feature `handle`,
//! `HandleServing` connects it to the handle of a running client. The crate `xds-channel` has a server for tonic's services that is built on it.
//!
//! # Updates
//!
//! | change | effect |
//! |---|---|
//! | another listener | it is used once each of its route configurations is known or known to be unavailable. New connections use it, and connections of the old one are to be [drained](ServerConfiguration::listener) |
//! | the content of a route configuration | used at once, by open connections too |
//! | a route configuration is lost | calls of its filter chains fail with UNAVAILABLE |
//! | the listener is lost, or is for another address | the server does not serve: a [`ServingError`] |

mod admission;
mod chains;
mod configuration;
mod manager;
mod on_client;
#[cfg(feature = "handle")]
mod on_handle;

#[cfg(feature = "handle")]
pub use self::on_handle::HandleServing;
pub use self::{
    admission::{CallRefused, IncomingCall},
    configuration::{ServerConfiguration, ServerRoutes, ServingError},
    manager::{ServingManager, ServingOutput},
    on_client::ClientServing,
};
pub use crate::connection::{ClientIdentity, Connection, ConnectionSecurity};
