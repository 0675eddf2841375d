//! References between resources, and a check of a set of resources for consistency.
//!
//! A listener names its route configuration, a route its clusters, a cluster its endpoints. The
//! client and server cores ignore these references: to them a resource is a name and bytes. This
//! module is for applications that need them, for example to find a dangling reference before it is
//! served.
//!
//! ```
//! use xds_core::references::{Consistency, references};
//! use xds_core::types;
//!
//! // Cluster { name: "backend", type: EDS }
//! let cluster = b"\x0a\x07backend\x10\x03";
//! let found = references(types::CLUSTER, cluster)?;
//! assert_eq!(found[0].to_string(), "eds backend");
//!
//! let findings = Consistency::default().check([(types::CLUSTER, "backend", &cluster[..])]);
//! assert_eq!(findings[0].to_string(), "cds `backend` refers to eds `backend`, which is missing");
//! # Ok::<(), xds_core::Malformed>(())
//! ```
//!
//! # References that are followed
//!
//! | from | to | by |
//! |---|---|---|
//! | cluster | endpoints | type `EDS`: `service_name`, or else the cluster's own name |
//! | | clusters | aggregate clusters, request mirrors in `HttpProtocolOptions` |
//! | | secrets | transport sockets: TLS, QUIC and STARTTLS, also inside other sockets |
//! | listener | route configurations | `rds` and scoped routes of HTTP connection managers |
//! | | scoped routes | `scoped_rds`: all of them |
//! | | clusters | routes inside the listener, TCP and UDP proxies |
//! | | secrets | transport sockets of filter chains; filters that hold credentials |
//! | route configuration | clusters | routes, weighted clusters, request mirrors, matchers |
//! | | virtual hosts | `vhds`: those below its name, on demand |
//! | virtual host | clusters | the same fields as in a route configuration |
//! | scoped routes | route configurations | by name, or the inline configuration |
//! | filters | extension configurations | `config_discovery` |
//!
//! An `Any` of a known type is followed, and any other is ignored. References that only a client
//! can resolve are also ignored (`cluster_header`, and cluster specifier plugins except matchers),
//! and so are those outside of routing: the services that filters, access logs and tracers call,
//! whose clusters are often in the bootstrap.
//!
//! A reference whose `ConfigSource` is a file is ignored, because it needs no management server. A
//! secret without a source is in the bootstrap, and is ignored too. All other references are
//! reported with their [source](ConfigSource).
//!
//! # Limits
//!
//! Encoded messages are read in place, in time linear in their length and to a depth of at most 100
//! messages. No input causes a panic. If a singular field occurs twice in a message, which no
//! serializer writes, the references of both are found.
// B56

mod consistency;
mod envoy;
mod extractor;
mod finding;
mod reference;
mod schema;
mod sources;
mod walk;

pub use self::{
    consistency::Consistency,
    envoy::{EnvoyReferences, references},
    extractor::ReferenceExtractor,
    finding::{Finding, ResourceId, Severity},
    reference::{ConfigSource, Reference, ReferenceTarget},
};
