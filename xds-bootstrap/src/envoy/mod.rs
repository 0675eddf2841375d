//! The Envoy API's way of saying where configuration comes from (S0.052, B18).
//!
//! | message | here | says |
//! |---|---|---|
//! | `ConfigSource` | [`ConfigSource`] | how to obtain the resources of one type |
//! | `ApiConfigSource` | [`ApiConfigSource`] | a server: which transport, which services, which limits |
//! | `AggregatedConfigSource`, `SelfConfigSource` | [`Specifier`] | the stream that is there already |
//! | `PathConfigSource` | [`PathSource`] | a file |
//! | `Bootstrap.dynamic_resources` | [`EnvoyBootstrap`] | where listeners, clusters and the aggregated stream come from |
//! | `Bootstrap.static_resources` | [`StaticResource`], [`UpstreamCluster`] | resources without a server; where servers are |
//!
//! The JSON form is proto3's: names in either spelling, `null` means not set, unknown fields are
//! errors. Paths in errors are spelled as the input spells them.

mod api;
mod bootstrap;
mod message;
mod nested;
mod source;
mod static_resources;
mod upstream;

pub use api::{
    ApiConfigSource, ApiType, ApiVersion, GrpcService, GrpcTarget, Header, ProxyHeaders, RateLimit,
    Rest, Target,
};
pub use bootstrap::EnvoyBootstrap;
pub use nested::{NestedSource, Wanted};
pub use source::{ConfigSource, PathSource, Specifier};
pub use static_resources::StaticResource;
pub use upstream::{TcpKeepalive, TransportSocket, UpstreamCluster};
pub use xds_core::client::NodeIn;
