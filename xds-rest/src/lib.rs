//! xDS over REST-JSON, without a runtime of its own.
//!
//! REST is xDS for those who cannot or will not speak gRPC: a client posts a `DiscoveryRequest` as JSON
//! to a path that stands for a resource type, gets a `DiscoveryResponse` as JSON, and after a pause asks
//! again (S0.199-S0.205). There is no stream, so there is no push: a server can only hold a request
//! until it has something new, which is called long polling.
//!
//! This crate has both ends of that and no rule of the protocol:
//!
//! - [`Gateway`] stands in front of any server of the discovery services that speaks gRPC, as a
//!   [`tower_service::Service`], and turns one into the other.
//! - [`Poller`] is the transport of a client that polls: `xds-core` decides when and what it asks, see
//!   [`ManagementServer::with_polls`](xds_core::client::ManagementServer::with_polls).
//!
//! Both need a connection and a timer from outside, in the form that [`hyper::rt`] gives them, and run on
//! whatever runtime has these.
//!
//! | file | what it does |
//! |---|---|
//! | `json.rs` | requests and responses between protobuf and JSON |
//! | `gateway.rs` | one request of HTTP on its way to a call of gRPC and back |
//! | `grpc.rs` | one call of gRPC, by hand: a message in its frame, a status in its trailers |
//! | `printed.rs` | responses that were printed before |
//! | `poller.rs` | one request after the other over one connection |
//! | `status.rs` | statuses of gRPC and of HTTP |
//! | `unprintable.rs` | responses of which a resource has no form in JSON |

#![deny(missing_docs)]

mod gateway;
mod grpc;
mod json;
mod poller;
mod printed;
mod status;
mod unprintable;

pub use gateway::{Gateway, GatewayOptions};
pub use poller::{Answer, Authorize, Dial, Io, Poller, PollerOptions};
