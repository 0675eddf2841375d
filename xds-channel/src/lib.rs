//! gRPC channel whose calls are routed by xDS, and a gRPC server that is configured by it.
//!
//! [`XdsServer`] describes the server, and the rest of this page the channel.
//!
//! A channel is created for a target such as `xds:///name` and is a service for tonic's generated
//! clients. Use [`XdsChannels`] to create it from a bootstrap, or [`XdsChannel::new`] with an
//! existing xDS client:
//!
//! ```no_run
//! use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
//! use xds_channel::{ChannelOptions, XdsChannel};
//! use xds_core::client::{ClientConfig, ServerAddress, Node};
//! use xds_routing::{ClusterLoadAssignments, Clusters, Listeners, RouteConfigurations};
//! use xds_tokio::{ClientOptions, client};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = ClientConfig::new(Node::new("node-1"), ServerAddress::new("127.0.0.1:18000"))
//!     .with_type(Listeners::default())
//!     .with_type(RouteConfigurations::default())
//!     .with_type(Clusters::default())
//!     .with_type(ClusterLoadAssignments::default());
//! let client = client::connect(config, ClientOptions::default());
//! let options = ChannelOptions::new("node-1");
//! let channel = XdsChannel::new(&client, "xds:///shop.example.com", options)?;
//! let mut health = HealthClient::new(channel);
//! let answer = health.check(HealthCheckRequest::default()).await?;
//! println!("{:?}", answer.into_inner().status());
//! # Ok(())
//! # }
//! ```
//!
//! # Path of a call
//!
//! 1. The call waits until the listener, its routes and their clusters are known, or known to be
//!    missing ([`dependencies`](xds_routing::dependencies)).
//! 2. A route, a cluster and a timeout are chosen once ([`Router`](xds_routing::router::Router)). If
//!    the call has a [session](#sessions), its cookie can choose among the clusters of the route.
//! 3. The call is delayed or aborted if the listener's fault injection filter requires it.
//! 4. The call waits until an endpoint of the cluster is ready, or none will be
//!    ([`Balancer`](xds_routing::balancer::Balancer)). The endpoint of a session is used if it can be.
//!    Endpoints whose calls fail too often are
//!    ejected for a time if the cluster says so ([gRFC A50][A50]). If weighted round robin needs the
//!    load of endpoints, a stream of load reports is opened on each connection, or the responses
//!    contain them ([gRFC A58][A58]).
//! 5. The request is sent. If the connection ends before that, the call waits for another one. The
//!    authority is the channel's name or, if the route of a trusted management server says so, the
//!    host name of the endpoint ([gRFC A81][A81]). The TLS server name does not change.
//! 6. If the server reports that it has not processed the request, it is sent once more, on another
//!    connection if there is one. With ring hash or a session, it is sent to the same endpoint.
//! 7. If the call fails before its response has begun, with a status that the route's retry policy
//!    names, it is repeated from step 4 after a pause, in at most five attempts ([gRFC A44][A44]). A
//!    server can state the pause or prevent a retry (`grpc-retry-pushback-ms`). Up to 256 KiB of a
//!    request are kept; a longer one is not repeated. Calls that are dropped, or above the limit of
//!    active calls, are not repeated.
//!
//! If a cluster says so (`lrs_server`), the channel reports its calls, and metrics of endpoints, to
//! the management server that sent the cluster ([gRFC A27][A27], [gRFC A64][A64], [gRFC
//! A85][A85]). Channels from
//! [`XdsChannels`] do that; for others set [`ChannelOptions::load_reports`].
//!
//! The cluster is kept until the response has ended, even if routes change meanwhile. Connections
//! are made when a route refers to a cluster. When no route refers to it any more, they end with
//! their last calls.
//!
//! # Metrics
//!
//! [`ChannelOptions::with_metrics`] sets a receiver of the measurements of calls and of their attempts:
//! their number, times, sizes and statuses, by method, locality and cluster ([gRFC A66][A66]).
//!
//! # Failures of calls
//!
//! - **`UNAVAILABLE`** is the usual status, also for a lost connection. The message contains the
//!   reason and a resolution note: known errors between client and management server, or else the
//!   node id.
//! - **`DEADLINE_EXCEEDED`** means that the timeout has passed. The message contains such a note
//!   too.
//! - **`INTERNAL`** is used for an unknown cluster, which would be a bug.
//! - A reset stream has the status of gRPC's mapping of HTTP/2 error codes, and a fault injection
//!   filter can set any status.
//!
//! A status from a management server appears in the message and never becomes the status of a call
//! ([gRFC A54][A54]). A call with the extension [`WaitForReady`] waits instead of failing if
//! something is not available.
//!
//! A cluster's limit of active calls applies to all channels of the process together ([gRFC
//! A32][A32]). A call above the limit fails with `UNAVAILABLE`.
//!
//! # Sessions
//!
//! The stateful session filter of the listener, or its override in a route, names a cookie
//! ([gRFC A55][A55], [gRFC A60][A60]). The value of the cookie contains the addresses of an endpoint
//! and its cluster. The channel adds `set-cookie` to a response if the request had no cookie for the
//! endpoint that was used. The application keeps the cookie for as long as its session lasts, and adds
//! it to further requests:
//!
//! ```no_run
//! use tonic::{Request, Status, metadata::AsciiMetadataValue};
//! use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
//! use xds_channel::XdsChannel;
//!
//! /// Makes a call of the session that `cookie` belongs to, or begins one.
//! async fn check(
//!     client: &mut HealthClient<XdsChannel>,
//!     cookie: &mut Option<AsciiMetadataValue>,
//! ) -> Result<(), Status> {
//!     let mut request = Request::new(HealthCheckRequest::default());
//!     if let Some(cookie) = cookie {
//!         request.metadata_mut().insert("cookie", cookie.clone());
//!     }
//!     let response = client.check(request).await?;
//!     let set = response.metadata().get("set-cookie").and_then(|set| set.to_str().ok());
//!     // The name and the value precede the attributes.
//!     if let Some((pair, _)) = set.and_then(|set| set.split_once(';')) {
//!         *cookie = pair.parse().ok();
//!     }
//!     Ok(())
//! }
//! ```
//!
//! - The endpoint of a session is used if it is known, its health status is in the cluster's
//!   `override_host_status` (by default `UNKNOWN` and `HEALTHY`), and it is connected. The call waits
//!   while it is connecting. Otherwise another endpoint is chosen, and the response sets a new cookie.
//! - With `DRAINING` in `override_host_status`, a draining endpoint gets the calls of its sessions, and
//!   no other ones. A session can use endpoints of all priorities, but only of the member of an aggregate
//!   cluster that serves at the time ([gRFC A75][A75]).
//! - A connection that only sessions need is made when a call needs it. It is closed if no session has
//!   used it for the cluster's idle timeout (`common_http_protocol_options.idle_timeout`, by default one
//!   hour).
//! - All attempts of a call go to the endpoint of its session. Drop categories and the limit of active
//!   calls apply. An endpoint that outlier detection has ejected keeps its sessions, as in gRPC.
//!
//! # TLS
//!
//! A cluster configures the root certificates for its endpoints, the allowed names in their
//! certificates, and the client certificate ([gRFC A29][A29]). It refers to certificate provider
//! instances, which are defined in the options ([`ChannelOptions::certificate_providers`]). Calls
//! to a cluster with an unknown instance fail.
//!
//! - Files are reread at the interval that the provider states
//!   (`xds_bootstrap::TlsFiles::refresh_interval`), for new connections. If a file becomes invalid,
//!   a warning is logged and the last valid contents are used.
//! - When the TLS settings of a cluster change, new connections are made. Calls use the old ones
//!   until the new ones are ready or fail.
//! - As in gRPC, the certificate need not contain the channel's name.
//! - Each member of an aggregate cluster has its own TLS settings. A member with invalid settings
//!   or an unsupported policy counts as failed, and the next members are used ([gRFC A75][A75]).
//!
//! # Unsupported features
//!
//! A configuration may request features that a channel does not support. Except in the last of
//! these cases, it is used nevertheless. A warning is logged (`tracing`) when a configuration
//! starts to request such a feature.
//!
//! - Custom load balancing policies: calls to the cluster fail with `UNAVAILABLE`. As a member of an
//!   aggregate cluster it is skipped ([gRFC A75][A75]).
//! - Cluster specifier plugins: calls with the route fail with `UNAVAILABLE`.
//! - Load reports to the management server, if the channel has none: load is not reported.
//! - HTTP filters except the router, fault injection ([gRFC A33][A33]) and stateful sessions ([gRFC
//!   A55][A55]): the listener is rejected with the default [`Rules`](xds_routing::Rules) ([gRFC
//!   A39][A39]).
//!
//! [A27]: https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md
//! [A29]: https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md
//! [A32]: https://github.com/grpc/proposal/blob/master/A32-xds-circuit-breaking.md
//! [A33]: https://github.com/grpc/proposal/blob/master/A33-Fault-Injection.md
//! [A39]: https://github.com/grpc/proposal/blob/master/A39-xds-http-filters.md
//! [A44]: https://github.com/grpc/proposal/blob/master/A44-xds-retry.md
//! [A50]: https://github.com/grpc/proposal/blob/master/A50-xds-outlier-detection.md
//! [A54]: https://github.com/grpc/proposal/blob/master/A54-restrict-control-plane-status-codes.md
//! [A55]: https://github.com/grpc/proposal/blob/master/A55-xds-stateful-session-affinity.md
//! [A58]: https://github.com/grpc/proposal/blob/master/A58-client-side-weighted-round-robin-lb-policy.md
//! [A60]: https://github.com/grpc/proposal/blob/master/A60-xds-stateful-session-affinity-weighted-clusters.md
//! [A64]: https://github.com/grpc/proposal/blob/master/A64-lrs-custom-metrics.md
//! [A66]: https://github.com/grpc/proposal/blob/master/A66-otel-stats.md
//! [A75]: https://github.com/grpc/proposal/blob/master/A75-xds-aggregate-cluster-behavior-fixes.md
//! [A81]: https://github.com/grpc/proposal/blob/master/A81-xds-authority-rewriting.md
//! [A85]: https://github.com/grpc/proposal/blob/master/A85-lrs-custom-metrics-changes.md
// S3.090-S3.095, S3.096-S3.098
#![forbid(unsafe_code)]
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

mod body;
mod bootstrap;
mod call;
mod certificates;
mod channel;
mod cluster;
mod counters;
mod dial;
mod driver;
mod endpoint;
mod events;
mod fault;
mod load;
mod load_reports;
mod metadata;
mod metrics;
mod options;
mod process;
mod replay;
mod retry;
mod routing;
mod send;
mod server;
mod state;
mod status;
mod target;
mod tls;
mod unsupported;

#[cfg(test)]
#[path = "../../xds-routing/tests/it/support/mod.rs"]
mod support;

pub use self::{
    body::CallBody,
    bootstrap::{InvalidServer, XdsChannels},
    channel::XdsChannel,
    metrics::{ChannelInstrument, ChannelMetrics},
    options::ChannelOptions,
    process::ChannelError,
    server::{ServingState, ServingStates, XdsServer, XdsServerOptions},
    state::WaitForReady,
    target::InvalidTarget,
};
pub use xds_grpc::{Keepalive, server::Http2Options};
