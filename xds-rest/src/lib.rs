//! xDS over REST-JSON, for any async runtime.
//!
//! REST-JSON is the variant of xDS without gRPC. A client posts a `DiscoveryRequest` as JSON to the
//! path of a resource type, gets a `DiscoveryResponse` as JSON, and repeats this after a delay.
//! There are no streams, so a server cannot push. It can only hold a request until it has something
//! new (long polling). See the [xDS
//! protocol](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol).
//!
//! This crate contains the transports. The rules of the protocol are in `xds-core`.
//!
//! - [`Gateway`] is a [`tower_service::Service`] that answers REST requests by calling a gRPC
//!   discovery service.
//! - [`Poller`] is the transport of a polling client. `xds-core` decides when and what to request;
//!   see [`ServerAddress::with_polling`](xds_core::client::ServerAddress::with_polling).
//!
//! The application provides connections and timers through the traits of [`hyper::rt`].
//!
//! | file | content |
//! |---|---|
//! | `budget.rs` | memory budgets for request bodies and responses |
//! | `json.rs` | requests and responses between protobuf and JSON |
//! | `gateway.rs` | conversion of an HTTP request to a gRPC call |
//! | `http_response.rs` | responses over HTTP |
//! | `grpc.rs` | unary gRPC calls |
//! | `pause.rs` | yields to other tasks during long computations |
//! | `print.rs` | printing of responses, resource by resource |
//! | `printed.rs` | cache of printed responses |
//! | `poller.rs` | polling over one connection |
//! | `status.rs` | conversion of gRPC and HTTP statuses |
//! | `unprintable.rs` | responses with a resource that has no JSON form |
// S0.199, S0.200, S0.201, S0.202, S0.203, S0.204, S0.205

#![deny(missing_docs)]
// Code that may panic states why it cannot.
#![cfg_attr(
    not(test),
    warn(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

mod budget;
mod gateway;
mod grpc;
mod http_response;
mod json;
mod pause;
mod poller;
mod print;
mod printed;
mod status;
mod unprintable;

pub use budget::{RefusedBody, ResponseBudget, ResponseMemory};
pub use gateway::{Gateway, GatewayOptions};
pub use poller::{Authorize, Dial, Io, PollResult, Poller, PollerOptions};
