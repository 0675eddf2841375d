//! Protobuf messages of the transport protocol.
//!
//! The client and server cores and every adapter use these types. They are a subset of the Envoy v3
//! API with the same field numbers: requests and responses, [`Node`] and its parts, the [`Status`]
//! of a NACK, [client status discovery](ClientStatusResponse), [load reports](LoadStatsRequest), and protobuf's well-known types.
//! Resources are not included. A resource is sent as [`Any`], whose value is [`bytes::Bytes`], so
//! extracting one from a frame copies and decodes nothing.
//!
//! Maps are `BTreeMap`s, so a message has the same encoding in every process. [`prost::Name`] gives
//! each message its type URL in the form xDS uses: `type.googleapis.com/` and the full name.
//!
//! Messages with a long path are re-exported under a short one: [`DiscoveryRequest`] is
//! [`envoy::service::discovery::v3::DiscoveryRequest`]. A module beside a message, such as [`node`]
//! beside [`Node`], contains its nested types.
//!
//! # Source of the generated code
//!
//! `generated/` is written by `cargo xtask gen` from the `.proto` files in the repository's
//! `proto/` folder and is checked in, so building needs no protobuf compiler. Do not edit it; a
//! test of the `xtask` crate fails if the folder differs from the schema.
//!
//! ```
//! use prost::{Message as _, Name as _};
//! use xds_core::proto::{DiscoveryRequest, DiscoveryResponse, Node};
//!
//! let request = DiscoveryRequest {
//!     node: Some(Node { id: "node-1".into(), ..Node::default() }),
//!     resource_names: vec!["foo".into()],
//!     ..DiscoveryRequest::default()
//! };
//! let sent = request.encode_to_vec();
//! assert_eq!(DiscoveryRequest::decode(sent.as_slice()), Ok(request));
//!
//! assert_eq!(
//!     DiscoveryResponse::type_url(),
//!     "type.googleapis.com/envoy.service.discovery.v3.DiscoveryResponse"
//! );
//! ```

// Generated code is exempt from lints, and from rustfmt because the check would otherwise depend on
// rustfmt's version.
#[rustfmt::skip]
#[allow(
    deprecated,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::use_self
)]
mod generated;

pub(crate) use generated::services;
/// Error of decoding a protobuf message.
pub use prost::DecodeError;

pub use generated::{envoy, google, xds};

pub use envoy::admin::v3::{ClientResourceStatus, UpdateFailureState};
pub use envoy::config::core::v3::{
    BuildVersion, ControlPlane, Extension, Locality, Metadata, Node, node,
};
pub use envoy::config::endpoint::v3::{
    ClusterStats, EndpointLoadMetricStats, UnnamedEndpointLoadMetricStats, UpstreamLocalityStats,
    cluster_stats,
};
pub use envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
    DynamicParameterConstraints, Resource, ResourceError, ResourceLocator, ResourceName,
    dynamic_parameter_constraints, resource,
};
pub use envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
pub use envoy::service::status::v3::{
    ClientConfig, ClientStatusRequest, ClientStatusResponse, ConfigStatus, client_config,
};
pub use envoy::r#type::matcher::v3::{NodeMatcher, StringMatcher};
pub use envoy::r#type::v3::SemanticVersion;
pub use google::protobuf::{
    Any, BoolValue, BytesValue, DoubleValue, Duration, FloatValue, Int32Value, Int64Value,
    ListValue, NullValue, StringValue, Struct, Timestamp, UInt32Value, UInt64Value, Value, value,
};
pub use google::rpc::Status;
pub use xds::core::v3::ContextParams;
