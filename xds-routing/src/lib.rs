//! gRPC's use of xDS resources as pure functions and state machines: validation, route matching and
//! load balancing, without I/O.
//!
//! `xds-core` carries resources as bytes and asks a
//! [`ResourceType`](xds_core::client::ResourceType) to validate them. This crate provides the four
//! resource types that routing needs. An invalid resource is rejected with the path of every
//! invalid field. A valid resource becomes a typed value:
//!
//! ```
//! use prost::Message;
//! use xds_routing::{Call, Random, RouteConfigurations, Rules, proto, route::*};
//! use proto::envoy::config::route::v3 as schema;
//!
//! # let server = xds_core::client::ServerAddress::new("127.0.0.1:18000");
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
//! // Validate the resource, then find the route of a call.
//! let routes = RouteConfiguration::from_bytes(&resource.encode_to_vec().into(), &Rules::default())?;
//! let host = routes.virtual_host("shop.example.com").expect("one of its domains");
//! let route = host.find(&Call::new("/shop.Cart/Add", &[("user", "1")]), &mut Random::new(42))?;
//! let Action::Forward(forward) = &route.action else { panic!("a route of clients") };
//! assert_eq!(forward.clusters, ClusterChoice::Cluster("carts".into()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Contents
//!
//! | topic | module |
//! |---|---|
//! | resources as typed values | [`listener`], [`route`], [`cluster`], [`endpoint`] |
//! | validation rules | [`rules`] |
//! | matchers for paths, headers and strings | [`pattern`] |
//! | the route of a call | [`route::VirtualHost::find`] |
//! | the reasons why routes do not match a call | [`route::VirtualHost::explain`], [`route::ProxyRoutes`] |
//! | HTTP filters and their overrides in routes | [`filters`] |
//! | routes as the configuration of an LB policy | [`service_config`] |
//! | LB policies | [`lb`] |
//! | all resources that a channel needs, starting from the name of a listener | [`dependencies`] |
//! | endpoint selection within a cluster, and the connections it requires | [`balancer`] |
//! | warming of a proxy's listeners and clusters | [`warming`] |
//! | per-call decisions: cluster, timeout, faults; clusters that are still needed | [`router`] |
//! | servers: filter chain of a connection, admission of calls by routes and access rules | [`serving`] |
//!
//! The crate is `no_std` with `alloc`. It uses neither a clock nor a source of entropy: random
//! decisions take a seeded [`Random`]. Input from peers never causes a panic. Regular expressions
//! are limited in number and size ([`pattern::ExpressionLimits`]) and match in linear time.

#![no_std]
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

extern crate alloc;

pub mod balancer;
#[cfg(feature = "bootstrap")]
mod bootstrap;
pub mod cluster;
mod connection;
pub mod dependencies;
pub mod endpoint;
pub mod extensions;
pub mod filters;
pub mod lb;
pub mod listener;
mod matchers;
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
pub mod serving;
mod text_hash;
mod validation;
pub mod warming;

pub use matching::Call;
pub use random::Random;
pub use resource_types::{ClusterLoadAssignments, Clusters, Listeners, RouteConfigurations};
pub use route::NoRoute;
pub use rules::Rules;
pub use scalars::SocketAddress;
pub use validation::{InvalidField, InvalidResource};
