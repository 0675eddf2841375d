//! gRPC channel whose calls are routed by xDS.
//!
//! A channel is created for a target such as `xds:///name` and is a service for tonic's generated
//! clients. Use [`XdsChannels`] to create it from a bootstrap, or [`XdsChannel::new`] with an
//! existing xDS client:
//!
//! ```no_run
//! use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
//! use xds_channel::{ChannelOptions, XdsChannel};
//! use xds_core::client::{ClientConfig, ManagementServer, Node};
//! use xds_routing::{ClusterLoadAssignments, Clusters, Listeners, RouteConfigurations};
//! use xds_tokio::{Client, ClientOptions};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = ClientConfig::new(Node::new("node-1"), ManagementServer::new("127.0.0.1:18000"))
//!     .with_type(Listeners::default())
//!     .with_type(RouteConfigurations::default())
//!     .with_type(Clusters::default())
//!     .with_type(ClusterLoadAssignments::default());
//! let client = Client::connect(config, ClientOptions::default());
//! let channel = XdsChannel::new(&client, "xds:///shop.example.com", ChannelOptions::new("node-1"))?;
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
//! 2. A route, a cluster and a timeout are chosen once ([`Router`](xds_routing::router::Router)).
//! 3. The call is delayed or aborted if the listener's fault injection filter requires it.
//! 4. The call waits until an endpoint of the cluster is ready, or none will be
//!    ([`Balancer`](xds_routing::balancer::Balancer)).
//! 5. The request is sent. If the connection ends before that, the call waits for another one.
//! 6. If the server reports that it has not processed the request, it is sent once more, on another
//!    connection if there is one.
//!
//! The cluster is kept until the response has ended, even if routes change meanwhile. Connections
//! are made when a route refers to a cluster. When no route refers to it any more, they end with
//! their last calls.
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
//! # TLS
//!
//! A cluster configures the root certificates for its endpoints, the allowed names in their
//! certificates, and the client certificate ([gRFC A29][A29]). It refers to certificate provider
//! instances, which are defined in the options ([`ChannelOptions::certificate_providers`]). Calls
//! to a cluster with an unknown instance fail.
//!
//! - Files are reread at [their interval](TlsFiles::refresh_interval), for new connections. If a
//!   file becomes invalid, a warning is logged and the last valid contents are used.
//! - When the TLS settings of a cluster change, new connections are made. Calls use the old ones
//!   until the new ones are ready or fail.
//! - As in gRPC, the certificate need not contain the channel's name.
//! - Each member of an aggregate cluster has its own TLS settings. A member with invalid settings
//!   or an unsupported policy counts as failed, and the next members are used ([gRFC A75][A75]).
//!
//! # Unsupported features
//!
//! A configuration may request features that a channel does not support. It is used nevertheless,
//! except in the last case. A warning is logged (`tracing`) when a configuration starts to request
//! such a feature.
//!
//! - Load balancing policies other than round robin (ring hash, least request, pick first, weighted
//!   round robin, custom policies): calls to the cluster fail with `UNAVAILABLE`. As a member of an
//!   aggregate cluster it is skipped ([gRFC A75][A75]).
//! - Cluster specifier plugins: calls with the route fail with `UNAVAILABLE`.
//! - Retries ([gRFC A44][A44]): a call fails with its endpoint's first status. Only a request that
//!   the endpoint has not processed is sent once more.
//! - Authority rewriting ([gRFC A81][A81]): calls have the channel's name as their authority.
//! - Outlier detection ([gRFC A50][A50]): failing endpoints are not ejected.
//! - Load reports: load is not reported.
//! - HTTP filters except the router and fault injection ([gRFC A33][A33]): the listener is rejected
//!   with the default [`Rules`](xds_routing::Rules) ([gRFC A39][A39]).
//!
//! [A29]: https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md
//! [A32]: https://github.com/grpc/proposal/blob/master/A32-xds-circuit-breaking.md
//! [A33]: https://github.com/grpc/proposal/blob/master/A33-Fault-Injection.md
//! [A39]: https://github.com/grpc/proposal/blob/master/A39-xds-http-filters.md
//! [A44]: https://github.com/grpc/proposal/blob/master/A44-xds-retry.md
//! [A50]: https://github.com/grpc/proposal/blob/master/A50-xds-outlier-detection.md
//! [A54]: https://github.com/grpc/proposal/blob/master/A54-restrict-control-plane-status-codes.md
//! [A75]: https://github.com/grpc/proposal/blob/master/A75-xds-aggregate-cluster-behavior-fixes.md
//! [A81]: https://github.com/grpc/proposal/blob/master/A81-xds-authority-rewriting.md
// S3.090-S3.095, S3.096-S3.098
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod body;
mod bootstrap;
mod call;
mod certificates;
mod cluster;
mod counters;
mod dial;
mod driver;
mod fault;
mod lacks;
mod metadata;
mod race;
mod replay;
mod status;
mod target;
mod tls;

#[cfg(test)]
#[path = "../../xds-routing/tests/support/mod.rs"]
mod support;

use core::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::{
    collections::BTreeMap,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex},
};

use http::{HeaderValue, Request, Response, uri::Authority};
use tokio::sync::watch;
use tonic::{Status, body::Body};
use xds_bootstrap::TlsFiles;
use xds_core::ResourceName;
use xds_handle::ClientHandle;
use xds_routing::{Random, balancer::BalancerTimes, dependencies::DependencyManager};

pub use self::{body::CallBody, bootstrap::XdsChannels, target::InvalidTarget};
use self::{
    driver::{Driver, Routing},
    target::Target,
};

/// Options of a channel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChannelOptions {
    /// Node id of the client, for error messages.
    // S3.095
    pub node_id: String,
    /// Name of the listener; `None` uses the name in the target.
    pub listener: Option<ResourceName>,
    /// Maximum time of an attempt to connect to an endpoint; 20 s by default.
    pub connect_timeout: Duration,
    /// Delays of failover, reconnection and removal of priorities.
    pub times: BalancerTimes,
    /// Certificate provider instances with the files that they watch, by name ([gRFC A29][A29]).
    ///
    /// [A29]: https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md
    pub certificate_providers: BTreeMap<String, TlsFiles>,
    /// Seed of random decisions; `None` selects a random seed.
    pub seed: Option<u64>,
}

impl ChannelOptions {
    /// Creates gRPC's default options for a client with this node id.
    #[must_use]
    pub fn new(node_id: impl Into<String>) -> Self {
        Self {
            node_id: node_id.into(),
            listener: None,
            connect_timeout: Duration::from_secs(20),
            times: BalancerTimes::default(),
            certificate_providers: BTreeMap::new(),
            seed: None,
        }
    }

    /// Adds a certificate provider instance with the files that it watches
    /// ([`CertificateProvider::file_watcher`](xds_bootstrap::CertificateProvider::file_watcher)).
    #[must_use]
    pub fn with_certificate_provider(mut self, name: impl Into<String>, files: TlsFiles) -> Self {
        self.certificate_providers.insert(name.into(), files);
        self
    }

    /// Sets the name of the listener, for example from a bootstrap's template.
    #[must_use]
    pub fn with_listener(mut self, name: impl Into<ResourceName>) -> Self {
        self.listener = Some(name.into());
        self
    }
}

/// Request extension for gRPC's wait-for-ready: the call waits instead of failing if something is
/// not available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitForReady;

/// Channel for generated clients. Clones share the channel, which ends with the last clone and the
/// last call.
#[derive(Clone, Debug)]
pub struct XdsChannel {
    shared: Arc<Shared>,
}

/// State shared by all calls of a channel.
#[derive(Debug)]
struct Shared {
    routing: watch::Receiver<Routing>,
    authority: Authority,
    node_id: Arc<str>,
    random: Mutex<Random>,
}

impl Shared {
    /// Returns the random number generator.
    fn random(&self) -> std::sync::MutexGuard<'_, Random> {
        self.random.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl XdsChannel {
    /// Creates a channel for the target `xds:///name` on an xDS client, in the current tokio
    /// runtime.
    ///
    /// Register the four resource types of the example in the crate documentation with the client,
    /// so that invalid resources are rejected.
    ///
    /// # Errors
    ///
    /// Returns an error if the target has another form, or if it has an authority and the options
    /// contain no listener.
    pub fn new(
        client: &ClientHandle,
        target: &str,
        options: ChannelOptions,
    ) -> Result<Self, InvalidTarget> {
        let parts = Target::read(target)?;
        let Target { name, .. } = parts;
        let invalid = || InvalidTarget::Form { target: target.into() };
        let authority = parts.host().ok_or_else(invalid)?;
        let listener = match (options.listener.clone(), parts.authority) {
            (Some(listener), _) => listener,
            (None, None) => ResourceName::from(name),
            (None, Some(unknown)) => {
                let authority = unknown.into();
                return Err(InvalidTarget::Authority { target: target.into(), authority });
            }
        };
        let manager = DependencyManager::new(listener, name, options.node_id.as_str());
        let node_id = Arc::from(options.node_id.as_str());
        let seed = options.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        let (driver, routing) =
            Driver::new(manager, client.clone(), authority.host(), options, seed);
        tokio::spawn(driver.run());
        let random = Mutex::new(Random::new(seed));
        Ok(Self { shared: Arc::new(Shared { routing, authority, node_id, random }) })
    }
}

impl tower_service::Service<Request<Body>> for XdsChannel {
    type Response = Response<CallBody>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Status>> + Send>>;

    // Always ready, because a call waits in its future.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(call::call(Arc::clone(&self.shared), request))
    }
}

/// Value of the `user-agent` header, unless the application sets one.
const OURSELVES: HeaderValue =
    HeaderValue::from_static(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")));
