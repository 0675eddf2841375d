//! From xDS resources to routed calls, without IO: what gRPC makes of listeners, route configurations,
//! clusters and endpoints, as pure functions and state machines.
//!
//! `xds-core` carries resources as bytes and asks a [`ResourceType`](xds_core::client::ResourceType) whether
//! they are valid. This crate has the four types that routing needs. What is invalid is rejected with
//! the path of each field at fault; what is valid is a value to match on:
//!
//! ```
//! use prost::Message;
//! use xds_routing::{Call, Random, RouteConfigurations, Rules, proto, route::*};
//! use proto::envoy::config::route::v3 as schema;
//!
//! # let server = xds_core::client::ManagementServer::new("127.0.0.1:18000");
//! // A client that knows the type: watches of it get values, the server gets NACKs.
//! let config = xds_core::client::ClientConfig::new(xds_core::client::Node::new("n"), server)
//!     .with_type(RouteConfigurations::default());
//! # let _ = config;
//!
//! // What a server may send: calls of one service to one cluster, all others to another.
//! let route = |prefix: &str, cluster: &str| schema::Route {
//!     r#match: Some(schema::RouteMatch {
//!         path_specifier: Some(schema::route_match::PathSpecifier::Prefix(prefix.into())),
//!         ..Default::default()
//!     }),
//!     action: Some(schema::route::Action::Route(schema::RouteAction {
//!         cluster_specifier: Some(schema::route_action::ClusterSpecifier::Cluster(cluster.into())),
//!         ..Default::default()
//!     })),
//!     ..Default::default()
//! };
//! let resource = schema::RouteConfiguration {
//!     name: "routes".into(),
//!     virtual_hosts: vec![schema::VirtualHost {
//!         domains: vec!["*.example.com".into()],
//!         routes: vec![route("/shop.Cart/", "carts"), route("", "rest")],
//!         ..Default::default()
//!     }],
//!     ..Default::default()
//! };
//!
//! // What becomes of it, and of a call.
//! let routes = RouteConfiguration::from_bytes(&resource.encode_to_vec().into(), &Rules::default())?;
//! let host = routes.virtual_host("shop.example.com").expect("one of its domains");
//! let route = host.find(&Call::new("/shop.Cart/Add", &[("user", "1")]), &mut Random::new(42))?;
//! let Action::Forward(forward) = &route.action else { panic!("a route of clients") };
//! assert_eq!(forward.clusters, ClusterChoice::Cluster("carts".into()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is here
//!
//! | what | where |
//! |---|---|
//! | resources as values, and what makes them valid | [`listener`], [`route`], [`cluster`], [`endpoint`]; [`Rules`] |
//! | how paths, headers and texts look | [`pattern`] |
//! | which route a call takes | [`route::VirtualHost::find`] |
//! | HTTP filters, and what routes set for them | [`filters`] |
//! | routes as the configuration of an LB policy | [`service_config`] |
//! | LB policies | [`lb`] |
//! | everything that calls need, followed from the name of a listener | [`dependencies`] |
//! | which endpoint of a cluster gets a call, and which connections that takes | [`balancer`] |
//! | when a proxy's listeners and clusters take over from older ones | [`warming`] |
//! | where a call goes, how long it may take, which clusters are needed | [`router`] |
//!
//! The crate is `no_std` with `alloc` and has no clock and no entropy: chance is a [`Random`] with a seed.
//! Input of peers never panics; regular expressions are bounded in number and size
//! ([`pattern::ExpressionLimits`]) and match in linear time.

#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

extern crate alloc;

pub mod balancer;
#[cfg(feature = "bootstrap")]
mod bootstrap;
pub mod cluster;
pub mod dependencies;
pub mod endpoint;
pub mod extensions;
pub mod filters;
#[cfg(feature = "handle")]
mod handle;
mod judge;
pub mod lb;
pub mod listener;
mod matching;
pub mod pattern;
pub mod proto;
mod random;
mod resource_types;
pub mod route;
pub mod router;
pub mod rules;
mod scalars;
pub mod service_config;
pub mod warming;

pub use judge::{InvalidField, InvalidResource};
pub use matching::{Call, NoRoute};
pub use random::Random;
pub use resource_types::{ClusterLoadAssignments, Clusters, Listeners, RouteConfigurations};
pub use rules::Rules;
pub use scalars::SocketAddress;
