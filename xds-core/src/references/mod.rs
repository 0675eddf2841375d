//! Which resources a resource refers to, and whether a set of them is consistent.
//!
//! A listener names its route configuration, a route its clusters, a cluster its endpoints. The cores
//! do not look at that: to them a resource is a name and bytes. This module is for those who do, above
//! all to find a dangling reference before it is served (B56).
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
//! # What is followed
//!
//! | from | to | by |
//! |---|---|---|
//! | cluster | endpoints | type `EDS`: `service_name`, or else the cluster's own name |
//! | | clusters | aggregate clusters, request mirrors in `HttpProtocolOptions` |
//! | | secrets | transport sockets: TLS, QUIC and STARTTLS, also inside other sockets |
//! | listener | route configurations | `rds` and scoped routes of HTTP connection managers |
//! | | scoped routes | `scoped_rds`: all of them |
//! | | clusters | routes that stand in the listener itself, TCP and UDP proxies |
//! | | secrets | transport sockets of filter chains; filters that hold credentials |
//! | route configuration | clusters | routes, weighted clusters, request mirrors, matchers |
//! | | virtual hosts | `vhds`: those below its name, on demand |
//! | virtual host | clusters | as above |
//! | scoped routes | route configurations | by name, or what stands in them |
//! | filters | extension configurations | `config_discovery` |
//!
//! Wherever the API has an `Any`, one of a known type is followed and any other is passed over. So is
//! what only a client can know (`cluster_header`, cluster specifier plugins but for matchers), and what
//! is no part of routing: the services that filters, access logs and tracers call. Their clusters often
//! stand in the bootstrap.
//!
//! A reference whose `ConfigSource` is a file is none: no management server is asked. A secret without
//! a source stands in the bootstrap, too. Of the others the [source](Source) is told.
//!
//! # Limits
//!
//! The bytes are walked where they lie, in time linear in their length and at most 100 messages deep;
//! whatever they are, nothing panics. Should a singular field stand in a message twice, which no
//! serialiser writes, references of both are found.

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

/// A resource names another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Reference<'a> {
    /// The type that is referred to.
    pub type_url: &'a str,
    /// Which resources of the type.
    pub target: Target<'a>,
    /// Who is to be asked for them.
    pub source: Source,
}

/// Which resources of a type a reference is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Target<'a> {
    /// The one of this name.
    Name(&'a str),
    /// Those whose names begin with this and a slash, as far as there are any: the virtual hosts of a
    /// route configuration (S0.061), the members of an `xdstp:` collection.
    Below(&'a str),
    /// All of them: a wildcard subscription.
    All,
}

/// Who is to be asked for what a reference is to: the reference's `ConfigSource`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The reference has none, as that of a route to a cluster.
    #[default]
    Unstated,
    /// `ads`: the aggregated stream.
    Aggregated,
    /// `self`: whoever the resource came from.
    SameServer,
    /// `api_config_source`: a management server that the reference names, this one or another.
    Api,
}

/// Finds the references in resources. [`EnvoyReferences`] knows the v3 API; types of one's own come
/// with an extractor of one's own, which may ask that one for the rest.
///
/// ```
/// use xds_core::Malformed;
/// use xds_core::references::{EnvoyReferences, Reference, ReferenceExtractor, Target};
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
///             found(Reference::new(types::CLUSTER, Target::Name(cluster)));
///         }
///         EnvoyReferences.references(type_url, resource, found)
///     }
/// }
/// ```
pub trait ReferenceExtractor: Debug + Send + Sync + RefUnwindSafe {
    /// Calls `found` for each reference of a resource, in the order in which they stand in it; a
    /// reference that stands in it several times is found several times.
    ///
    /// # Errors
    ///
    /// The resource is not a message of its type, as far as that was looked at.
    fn references(
        &self,
        type_url: &str,
        resource: &[u8],
        found: &mut dyn FnMut(Reference<'_>),
    ) -> Result<(), Malformed>;
}

/// The references of the Envoy v3 API, as the [module](self) lists them. Resources of other types have
/// none.
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

/// The references of a resource of the Envoy v3 API, sorted and each once.
///
/// # Errors
///
/// The resource is not a message of its type, as far as that was looked at.
pub fn references<'a>(type_url: &str, resource: &'a [u8]) -> Result<Vec<Reference<'a>>, Malformed> {
    let mut references = Vec::new();
    Walk::new(&mut |reference| references.push(reference)).resource(type_url, resource)?;
    references.sort_unstable();
    references.dedup();
    Ok(references)
}

impl<'a> Reference<'a> {
    /// A reference that does not state its source.
    #[must_use]
    pub const fn new(type_url: &'a str, target: Target<'a>) -> Self {
        Self { type_url, target, source: Source::Unstated }
    }

    /// The same reference with a source.
    #[must_use]
    pub const fn with_source(self, source: Source) -> Self {
        Self { source, ..self }
    }
}

/// Type and target in a few words, as in `eds backend`.
impl fmt::Display for Reference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", types::short_name(self.type_url).unwrap_or(self.type_url))?;
        match self.target {
            Target::Name(name) => f.write_str(name),
            Target::Below(name) => write!(f, "{name}/*"),
            Target::All => f.write_str("*"),
        }
    }
}
