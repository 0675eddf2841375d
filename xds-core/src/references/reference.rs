//! Reference from one resource to others, with its target and source.

use core::fmt;

use crate::types;

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
