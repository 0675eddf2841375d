//! What a consistency check finds.

use core::fmt;

use super::{Reference, Source, Target};
use crate::{ResourceName, TypeUrl, types, wire::Malformed};

/// A resource by its type and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId {
    /// The type.
    pub type_url: TypeUrl,
    /// The name, as the resource's owner writes it.
    pub name: ResourceName,
}

/// Something to look at before a set of resources is served.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// A resource refers to one that is not there (M206, M208). Whoever follows the reference gets
    /// nothing: a cluster without endpoints, a listener without routes.
    Missing {
        /// Who refers to it.
        by: ResourceId,
        /// The type of what is missing.
        type_url: TypeUrl,
        /// Its name; none if there is not one resource of a type of which all are asked for.
        name: Option<ResourceName>,
        /// Whom the reference says to ask for it.
        source: Source,
    },
    /// Nothing refers to a resource of a type that is only reached by reference (M207). While traffic
    /// moves from one resource to another that is as it should be.
    Unreferenced {
        /// The resource.
        resource: ResourceId,
    },
    /// A resource is not a message of its type.
    Malformed {
        /// The resource.
        resource: ResourceId,
        /// What is wrong with it.
        why: Malformed,
    },
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It may be on purpose.
    Warning,
    /// A client will not get what it needs.
    Error,
}

impl Finding {
    /// How bad it is. What is missing may be another server's only if the reference names its server
    /// ([`Source::Api`]), and then it is a warning.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::Missing { source: Source::Api, .. } | Self::Unreferenced { .. } => {
                Severity::Warning
            }
            Self::Missing { .. } | Self::Malformed { .. } => Severity::Error,
        }
    }

    /// The resource to look at: the one that refers to what is missing, or that is of no use.
    #[must_use]
    pub const fn resource(&self) -> &ResourceId {
        match self {
            Self::Missing { by: resource, .. }
            | Self::Unreferenced { resource }
            | Self::Malformed { resource, .. } => resource,
        }
    }

    pub(super) fn missing(by: ResourceId, reference: Reference<'_>) -> Self {
        let name = match reference.target {
            Target::Name(name) => Some(name.into()),
            Target::Below(_) | Target::All => None,
        };
        Self::Missing { by, type_url: reference.type_url.into(), name, source: reference.source }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { by, type_url, name, source } => {
                write!(f, "{by} refers to {}", short(type_url))?;
                match name {
                    Some(name) => write!(f, " `{name}`, which is missing")?,
                    None => f.write_str(", of which there is none")?,
                }
                match source {
                    Source::Api => f.write_str(", unless another server has it"),
                    Source::Unstated | Source::Aggregated | Source::SameServer => Ok(()),
                }
            }
            Self::Unreferenced { resource } => write!(f, "nothing refers to {resource}"),
            Self::Malformed { resource, why } => {
                write!(f, "{resource} is not a message of its type: {why}")
            }
        }
    }
}

/// Type and name, as in `` cds `backend` ``.
impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", short(&self.type_url), self.name)
    }
}

fn short(type_url: &TypeUrl) -> &str {
    types::short_name(type_url.as_str()).unwrap_or(type_url.as_str())
}
