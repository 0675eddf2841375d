//! Config sources and bootstraps of the Envoy API.
//!
//! | message | type | meaning |
//! |---|---|---|
//! | `ConfigSource` | [`ConfigSource`] | source of the resources of one type |
//! | `ApiConfigSource` | [`ApiConfigSource`] | server: transport, services and limits |
//! | `AggregatedConfigSource`, `SelfConfigSource` | [`Specifier`] | existing stream |
//! | `PathConfigSource` | [`PathSource`] | file |
//! | `Bootstrap.dynamic_resources` | [`EnvoyBootstrap`] | sources of a proxy |
//! | `Bootstrap.static_resources` | [`StaticResource`], [`UpstreamCluster`] | resources |
//!
//! Messages are in proto3 JSON form: field names have two spellings, `null` means not set, and
//! unknown fields are errors. Paths in errors use the spelling of the input.
// S0.052, B18

mod api;
mod bootstrap;
mod into_client;
mod message;
mod nested;
mod source;
mod static_resources;
mod transport;
mod upstream;

pub use api::{
    ApiConfigSource, ApiType, ApiVersion, GrpcService, GrpcTarget, Header, ProxyHeaders, RateLimit,
    Rest, Target,
};
pub use bootstrap::EnvoyBootstrap;
pub use into_client::UnsupportedConfig;
pub use nested::{NestedSource, ResourceSelection};
pub use source::{ConfigSource, PathSource, Specifier};
pub use static_resources::StaticResource;
pub use upstream::{TcpKeepalive, TransportSocket, UpstreamCluster};
pub use xds_core::client::SendNode;
