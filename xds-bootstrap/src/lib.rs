//! Configuration of xDS clients: management servers, credentials, authorities and the node.
//!
//! This crate parses two kinds of configuration into plain data: gRPC's JSON
//! [bootstrap](Bootstrap), from a file or the environment, and the
//! [`ConfigSource`](envoy::ConfigSource) messages of the Envoy API in their proto3 JSON form. It
//! opens no connections. The result is a [`ClientConfig`](xds_core::client::ClientConfig) for
//! `xds-core`, and credentials for the adapter that connects to the servers.
//!
//! # A bootstrap
//!
//! ```
//! use xds_bootstrap::{Bootstrap, ChannelCredentials};
//!
//! let bootstrap = Bootstrap::from_json(
//!     r#"{
//!         "xds_servers": [{
//!             "server_uri": "xds.example.com:443",
//!             "channel_creds": [{ "type": "not-known-here" }, { "type": "insecure" }],
//!             "server_features": ["fail_on_data_errors", { "something": "new" }]
//!         }],
//!         "node": { "id": "node-1", "metadata": { "zone-weight": 0.5 } }
//!     }"#,
//! )?;
//! let server = &bootstrap.servers[0];
//! assert_eq!(server.channel_credentials, ChannelCredentials::Insecure);
//!
//! let config = bootstrap.client_config();
//! assert_eq!(config.node.id(), "node-1");
//!
//! let wrong = r#"{"xds_servers": [{"server_uri": "a", "channel_creds": [{"type": 5}]}]}"#;
//! assert_eq!(
//!     Bootstrap::from_json(wrong).unwrap_err().to_string(),
//!     "xds_servers[0].channel_creds[0].type: expected a string, found a number"
//! );
//! # Ok::<(), xds_bootstrap::BootstrapError>(())
//! ```
//!
//! [`Bootstrap::from_env`] reads the source given by the environment variables
//! `GRPC_XDS_BOOTSTRAP` and `GRPC_XDS_BOOTSTRAP_CONFIG`. [`Bootstrap::from_variables`] takes the
//! variables from the caller. [`Bootstrap::of_process`] reads the environment once per process.
//!
//! # A config source
//!
//! ```
//! use std::time::Duration;
//! use xds_bootstrap::envoy::{ApiType, ConfigSource, Specifier};
//!
//! let source = ConfigSource::from_json(
//!     r#"{"apiConfigSource": {
//!         "apiType": "DELTA_GRPC",
//!         "grpcServices": [{ "envoyGrpc": { "clusterName": "control-plane" } }]
//!     }}"#,
//! )?;
//! assert_eq!(source.initial_fetch_timeout, Some(Duration::from_secs(15)));
//! let Specifier::Api(api) = &source.specifier else { panic!("it is an API") };
//! assert_eq!(api.api_type, ApiType::DeltaGrpc);
//! # Ok::<(), xds_bootstrap::BootstrapError>(())
//! ```
//!
//! # Rules
//!
//! - Unknown fields of a gRPC bootstrap are ignored. Unknown fields of an Envoy message are errors.
//! - Every error names the field, such as `authorities["a.b"].xds_servers[1].server_uri`. An error
//!   of JSON syntax has the line and column. Neither errors nor `Debug` output contain the value of
//!   a field that may be secret.
//! - gRPC's environment variables that disable features are [data](FeatureSwitches). Features are on
//!   by default.
//! - No input causes a panic.

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

mod credentials;
pub mod envoy;
mod error;
mod feature_switches;
mod grpc;
mod into_client;
mod json;
mod node;
mod server;
mod source;
mod transport;

pub use credentials::{CallCredentials, ChannelCredentials, IdentityFiles, TlsFiles};
pub use envoy::UnsupportedConfig;
pub use error::{BootstrapError, ErrorKind, Warning, WarningKind};
pub use feature_switches::{FeatureSwitch, FeatureSwitches};
pub use grpc::{AllowedService, AuthorityEntry, Bootstrap, CertificateProvider, UnknownAuthority};
pub use json::RawJson;
pub use node::NodeIdentity;
pub use server::XdsServer;
pub use source::{BOOTSTRAP_FILE, BOOTSTRAP_TEXT, BootstrapSource};
