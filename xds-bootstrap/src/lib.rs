//! What tells an xDS client where its servers are and who it is.
//!
//! Two kinds of configuration are in use, and both become plain data here: the JSON
//! [bootstrap](Bootstrap) of gRPC, from a file or the environment, and the
//! [`ConfigSource`](envoy::ConfigSource) messages of the Envoy API in their proto3 JSON form.
//! Nothing is opened or dialled. `xds-core` gets a
//! [`ClientConfig`](xds_core::client::ClientConfig); an adapter that dials gets credentials as data.
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
//! [`Bootstrap::from_env`] reads what `GRPC_XDS_BOOTSTRAP` and `GRPC_XDS_BOOTSTRAP_CONFIG` name;
//! [`Bootstrap::from_variables`] takes the variables from the caller, and
//! [`Bootstrap::of_process`] reads once per process.
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
//! - A bootstrap of gRPC passes over what it does not know; a message of the Envoy API refuses it.
//! - Every error names the field, as in `authorities["a.b"].xds_servers[1].server_uri`, and for a
//!   text that is not JSON the line and the column. No error and no `Debug` output shows the value of
//!   a field that may hold a secret.
//! - gRPC's feature guards are [data](Guards) and on by default.
//! - No input panics.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod credentials;
pub mod envoy;
mod error;
mod grpc;
mod guards;
mod into_client;
mod json;
mod node;
mod server;
mod source;
mod transport;

pub use credentials::{CallCredentials, ChannelCredentials, IdentityFiles, TlsFiles};
pub use error::{BootstrapError, ErrorKind, Warning, WarningKind};
pub use grpc::{AllowedService, AuthorityEntry, Bootstrap, CertificateProvider, UnknownAuthority};
pub use guards::{Guard, Guards};
pub use into_client::Inexpressible;
pub use json::RawJson;
pub use node::NodeIdentity;
pub use server::XdsServer;
pub use source::{BOOTSTRAP_FILE, BOOTSTRAP_TEXT, BootstrapSource};
