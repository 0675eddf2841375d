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
mod finding;
mod schema;
mod sources;
mod walk;

use alloc::vec::Vec;
use core::{
    fmt::{self, Debug},
    panic::RefUnwindSafe,
};

use self::walk::Walk;
pub use self::{
    consistency::Consistency,
    finding::{Finding, ResourceId, Severity},
};
use crate::{types, wire::Malformed};

/// Reference from one resource to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Reference<'a> {
    /// Type of the resources referred to.
    pub type_url: &'a str,
    /// Resources of the type.
    pub target: ReferenceTarget<'a>,
    /// Server that provides them.
    pub source: ConfigSource,
}

/// Resources of a type that a reference selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ReferenceTarget<'a> {
    /// Resource of this name.
    Name(&'a str),
    /// Any resources whose names begin with this and a slash: the virtual hosts of a route
    /// configuration, or the members of an `xdstp:` collection.
    // S0.061
    Prefix(&'a str),
    /// All resources of the type, as with a wildcard subscription.
    All,
}

/// Server that provides the target of a reference: the reference's `ConfigSource`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ConfigSource {
    /// The reference has no `ConfigSource`, such as that of a route to a cluster.
    #[default]
    Unspecified,
    /// `ads`: the aggregated stream.
    Aggregated,
    /// `self`: the server that sent the resource.
    SameServer,
    /// `api_config_source`: a management server that the reference specifies, which may be the
    /// same.
    Api,
}

/// Finds the references in resources. [`EnvoyReferences`] implements it for the v3 API. For other
/// types, implement it yourself and delegate the rest to that one.
///
/// ```
/// use xds_core::Malformed;
/// use xds_core::references::{EnvoyReferences, Reference, ReferenceExtractor, ReferenceTarget};
/// use xds_core::types;
///
/// /// A type whose resources are the name of a cluster.
/// #[derive(Debug)]
/// struct WithTenants;
///
/// impl ReferenceExtractor for WithTenants {
///     fn references(
///         &self,
///         type_url: &str,
///         resource: &[u8],
///         found: &mut dyn FnMut(Reference<'_>),
///     ) -> Result<(), Malformed> {
///         if type_url == "t/example.Tenant" {
///             let cluster = core::str::from_utf8(resource).unwrap_or_default();
///             found(Reference::new(types::CLUSTER, ReferenceTarget::Name(cluster)));
///         }
///         EnvoyReferences.references(type_url, resource, found)
///     }
/// }
/// ```
pub trait ReferenceExtractor: Debug + Send + Sync + RefUnwindSafe {
    /// Calls `found` for each reference of a resource, in the order in which they occur; repeated
    /// references are reported repeatedly.
    ///
    /// # Errors
    ///
    /// Returns an error if the resource is not a valid message of its type. Only the parts that
    /// contain references are checked.
    fn references(
        &self,
        type_url: &str,
        resource: &[u8],
        found: &mut dyn FnMut(Reference<'_>),
    ) -> Result<(), Malformed>;
}

/// References of the Envoy v3 API, as listed in the [module documentation](self). Resources of
/// other types have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnvoyReferences;

impl ReferenceExtractor for EnvoyReferences {
    fn references(
        &self,
        type_url: &str,
        resource: &[u8],
        found: &mut dyn FnMut(Reference<'_>),
    ) -> Result<(), Malformed> {
        Walk::new(&mut |reference| found(reference)).resource(type_url, resource)
    }
}

/// Returns the references of a resource of the Envoy v3 API, sorted and without duplicates.
///
/// # Errors
///
/// Returns an error if the resource is not a valid message of its type. Only the parts that contain
/// references are checked.
pub fn references<'a>(type_url: &str, resource: &'a [u8]) -> Result<Vec<Reference<'a>>, Malformed> {
    let mut references = Vec::new();
    Walk::new(&mut |reference| references.push(reference)).resource(type_url, resource)?;
    references.sort_unstable();
    references.dedup();
    Ok(references)
}

impl<'a> Reference<'a> {
    /// Creates a reference without a source.
    #[must_use]
    pub const fn new(type_url: &'a str, target: ReferenceTarget<'a>) -> Self {
        Self { type_url, target, source: ConfigSource::Unspecified }
    }

    /// Returns the reference with this source.
    #[must_use]
    pub const fn with_source(self, source: ConfigSource) -> Self {
        Self { source, ..self }
    }
}

/// Writes type and target, for example `eds backend`.
impl fmt::Display for Reference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", types::short_name(self.type_url).unwrap_or(self.type_url))?;
        match self.target {
            ReferenceTarget::Name(name) => f.write_str(name),
            ReferenceTarget::Prefix(name) => write!(f, "{name}/*"),
            ReferenceTarget::All => f.write_str("*"),
        }
    }
}
