//! Findings of a consistency check.

use core::fmt;

use super::reference::{ConfigSource, Reference, ReferenceTarget};
use crate::{ResourceName, TypeUrl, types, wire::Malformed};

/// Type and name of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId {
    /// Type of the resource.
    pub type_url: TypeUrl,
    /// Name, as the owner of the resource writes it.
    pub name: ResourceName,
}

/// Problem found in a set of resources.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Dangling reference: a resource refers to one that does not exist. Clients lack what it
    /// should provide, for example the endpoints of a cluster or the routes of a listener.
    // M206, M208
    Missing {
        /// Resource with the reference.
        referrer: ResourceId,
        /// Type of the missing resource.
        type_url: TypeUrl,
        /// Name of the missing resource; `None` if the reference is to all resources of a type, and
        /// there are none.
        name: Option<ResourceName>,
        /// Server that provides the resource, according to the reference.
        source: ConfigSource,
    },
    /// Unreferenced resource of a type that is used only by reference. It can be intended while
    /// traffic moves from one resource to another.
    // M207
    Unreferenced {
        /// Unreferenced resource.
        resource: ResourceId,
    },
    /// Resource that is not a valid message of its type.
    Malformed {
        /// Malformed resource.
        resource: ResourceId,
        /// Error found in it.
        why: Malformed,
    },
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Possibly intended.
    Warning,
    /// Certain fault: a client will lack a resource that it needs.
    Error,
}

impl Finding {
    /// Returns the severity. A missing resource whose reference specifies a server
    /// ([`ConfigSource::Api`]) is a warning, because that server may provide it; otherwise it is an
    /// error.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::Missing { source: ConfigSource::Api, .. } | Self::Unreferenced { .. } => {
                Severity::Warning
            }
            Self::Missing { .. } | Self::Malformed { .. } => Severity::Error,
        }
    }

    /// Returns the resource to correct: the one with the dangling reference, or the unreferenced or
    /// malformed one.
    #[must_use]
    pub const fn resource(&self) -> &ResourceId {
        match self {
            Self::Missing { referrer: resource, .. }
            | Self::Unreferenced { resource }
            | Self::Malformed { resource, .. } => resource,
        }
    }

    pub(super) fn missing(referrer: ResourceId, reference: Reference<'_>) -> Self {
        let name = match reference.target {
            ReferenceTarget::Name(name) => Some(name.into()),
            ReferenceTarget::Prefix(_) | ReferenceTarget::All => None,
        };
        Self::Missing {
            referrer,
            type_url: reference.type_url.into(),
            name,
            source: reference.source,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { referrer, type_url, name, source } => {
                write!(f, "{referrer} refers to {}", short(type_url))?;
                match name {
                    Some(name) => write!(f, " `{name}`, which is missing")?,
                    None => f.write_str(", but there are none")?,
                }
                match source {
                    ConfigSource::Api => f.write_str(", unless another server provides it"),
                    ConfigSource::Unspecified
                    | ConfigSource::Aggregated
                    | ConfigSource::SameServer => Ok(()),
                }
            }
            Self::Unreferenced { resource } => write!(f, "nothing refers to {resource}"),
            Self::Malformed { resource, why } => {
                write!(f, "{resource} is not a message of its type: {why}")
            }
        }
    }
}

/// Writes type and name, for example `` cds `backend` ``.
impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", short(&self.type_url), self.name)
    }
}

fn short(type_url: &TypeUrl) -> &str {
    types::short_name(type_url.as_str()).unwrap_or(type_url.as_str())
}
