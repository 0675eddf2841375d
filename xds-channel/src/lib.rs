//! A gRPC channel whose calls go where xDS says.
//!
//! It is made for `xds:///name` and is a service for tonic's generated clients. [`XdsChannels`] makes it from a
//! bootstrap; [`XdsChannel::new`] from a client of xDS that there is already:
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
//! # What becomes of a call
//!
//! | step | by |
//! |---|---|
//! | it waits until the listener, its routes and their clusters are known, or known to be missing | [`dependencies`](xds_routing::dependencies) |
//! | a route, a cluster and a limit of time are decided for it, once and for all | [`Router`](xds_routing::router::Router) |
//! | it is held up or fails on purpose, if the filters of the listener say so | this crate |
//! | it waits until an endpoint of the cluster is there, or none will be | [`Balancer`](xds_routing::balancer::Balancer) |
//! | it is sent; if the connection ends before that, it waits for another | this crate |
//! | if the server says that it has done nothing with it, it is sent once more, by another connection if there is one | this crate |
//!
//! Its cluster is there until it has been answered to the end, whatever routes say meanwhile. Connections are made when
//! a route leads to a cluster, and end with the last call on them when none does any more.
//!
//! # How calls fail
//!
//! With UNAVAILABLE and a message that says why, with what is known to be wrong between client and management
//! server, or with the client's node (S3.090-S3.095); so does a call whose time is up (DEADLINE_EXCEEDED), and one
//! that ends with its connection or stream after its response began. What a management server said is in the message and
//! never the status (A54, S3.096-S3.098); INTERNAL is for a cluster nobody knows of, which would be a bug. A call with the
//! extension [`WaitForReady`] waits where another would fail because something is not there.
//!
//! A cluster's limit of calls under way is for all channels of the process together (A32); a call beyond it
//! fails with UNAVAILABLE.
//!
//! # TLS
//!
//! A cluster says who vouches for its endpoints, which names their certificates may have, and which certificate is shown to
//! them (A29). It names instances of certificate providers for that, which the options have
//! ([`ChannelOptions::certificate_providers`]); calls to a cluster that names another one fail and say so. Files are
//! read again at [their interval](TlsFiles::refresh_interval), for connections that are made from then on; a file that
//! is not sound any more is logged once, and what was last good in it stays in use. A cluster that asks for another
//! TLS gets new connections; calls take the old ones until these are there, or cannot be made. As gRPC has it, the name
//! that a channel asks for need not be in a certificate. Of a cluster that is made of others, each is secured in its own
//! way; one that cannot be, or that asks for a policy that is not here, fails, and those after it serve (A75).
//!
//! # What is not here
//!
//! A configuration may ask for more than a channel does. It is in use all the same, but for the last line; what is asked
//! for is said once in the log (`tracing`, a warning) when a configuration with it comes into use.
//!
//! | what is asked for | what becomes of it |
//! |---|---|
//! | a cluster's policy other than round robin: ring hash, least request, pick first, weights that endpoints report, one of the application's | calls to that cluster fail with UNAVAILABLE and say so; as part of another one it is passed over (A75) |
//! | a cluster that a plugin chooses | calls by that route fail with UNAVAILABLE and say so |
//! | retries (A44) | a call fails with what its endpoint first says; only what an endpoint has not looked at is sent once more |
//! | the endpoint's name in place of the channel's (A81) | calls have the channel's name |
//! | outlier detection (A50) | endpoints get calls whatever came of those before |
//! | load reports | nobody is told of the load |
//! | HTTP filters other than those that send calls on and those that make trouble on purpose (A33) | the listener is rejected by [`Rules`](xds_routing::Rules) as they are by default (A39) |
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

/// How a channel is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChannelOptions {
    /// The id of the client's node, for the messages of calls that fail (S3.095).
    pub node_id: String,
    /// The name of the listener to ask for; `None` is what the target has for a name.
    pub listener: Option<ResourceName>,
    /// How long an attempt to connect to an endpoint may take.
    pub connect_timeout: Duration,
    /// How long to wait before the next priority, the next attempt, the end of a priority.
    pub times: BalancerTimes,
    /// The instances of certificate providers that clusters may name, with the files that they watch (A29).
    pub certificate_providers: BTreeMap<String, TlsFiles>,
    /// What chance begins with; `None` is another number in each process.
    pub seed: Option<u64>,
}

impl ChannelOptions {
    /// As gRPC has them, on the client of this node.
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

    /// Lets clusters secure their connections with the files of a certificate provider
    /// ([`CertificateProvider::file_watcher`](xds_bootstrap::CertificateProvider::file_watcher)).
    #[must_use]
    pub fn with_certificate_provider(mut self, name: impl Into<String>, files: TlsFiles) -> Self {
        self.certificate_providers.insert(name.into(), files);
        self
    }

    /// Asks for the listener of this name, as a bootstrap's template may have it.
    #[must_use]
    pub fn with_listener(mut self, name: impl Into<ResourceName>) -> Self {
        self.listener = Some(name.into());
        self
    }
}

/// In the extensions of a request: the call waits for what is not there rather than fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitForReady;

/// A channel for the calls of generated clients. Clones are the same channel, which ends with the last one
/// of them and the last call.
#[derive(Clone, Debug)]
pub struct XdsChannel {
    shared: Arc<Shared>,
}

/// What all calls of a channel have in common.
#[derive(Debug)]
struct Shared {
    routing: watch::Receiver<Routing>,
    authority: Authority,
    node_id: Arc<str>,
    random: Mutex<Random>,
}

impl Shared {
    /// Chance for one decision.
    fn random(&self) -> std::sync::MutexGuard<'_, Random> {
        self.random.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl XdsChannel {
    /// A channel for `xds:///name` on a client, in the tokio runtime that one is in. The client should know
    /// the four types that routing needs, as above, so that what is invalid is rejected.
    ///
    /// # Errors
    ///
    /// The target is of another form, or it has an authority and the options name no listener.
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

    /// Always: a call waits by itself.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(call::call(Arc::clone(&self.shared), request))
    }
}

/// What we are called in the logs of servers, where the application does not say.
const OURSELVES: HeaderValue =
    HeaderValue::from_static(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")));
