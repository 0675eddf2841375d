//! The wire schema: the protobuf messages the transport itself consists of.
//!
//! Both cores and every adapter speak these types. They are a subset of the Envoy v3 API with
//! the same field numbers: requests and responses, [`Node`] and its parts, the [`Status`] of a
//! NACK, [client status discovery](ClientStatusResponse), and protobuf's well-known types. Resources
//! are not among them. A resource travels as [`Any`], whose value is [`bytes::Bytes`], so taking one
//! out of a frame copies nothing and decodes nothing.
//!
//! Maps are `BTreeMap`s, so a message has one encoding in every process. Every message has its
//! type URL by way of [`prost::Name`], in the form xDS uses: `type.googleapis.com/` and the
//! full name.
//!
//! What the schema knows under a long path is here under a short one: [`DiscoveryRequest`] is
//! [`envoy::service::discovery::v3::DiscoveryRequest`]. A module beside a message, as [`node`]
//! beside [`Node`], holds the types nested in it.
//!
//! # Where the code comes from
//!
//! `generated/` is written by `cargo xtask gen` from the `.proto` files in the repository's
//! `proto/` folder and is checked in, so building needs no protobuf compiler. It is never edited
//! by hand; a test of the `xtask` crate fails when folder and schema differ.
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

// Lints and rustfmt's taste are for people's code; this folder is written by a program, and
// formatting it twice would make the check depend on rustfmt's version.
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
/// Why bytes are no message of the schema.
pub use prost::DecodeError;

pub use generated::{envoy, google, xds};

pub use envoy::admin::v3::{ClientResourceStatus, UpdateFailureState};
pub use envoy::config::core::v3::{
    BuildVersion, ControlPlane, Extension, Locality, Metadata, Node, node,
};
pub use envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
    DynamicParameterConstraints, Resource, ResourceError, ResourceLocator, ResourceName,
    dynamic_parameter_constraints, resource,
};
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
