//! Endpoints (EDS) as gRPC uses them: [gRFC A27], with gRFCs A61, A76 and A81.
//!
//! [gRFC A27]: https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md

mod validate;

use alloc::{string::String, vec::Vec};

use xds_core::{ResourceName, proto::Locality as LocalityName};

pub(crate) use self::validate::validate_endpoints;
use crate::{
    pattern::Fraction, proto::envoy::config::core::v3::HealthStatus, scalars::SocketAddress,
};

/// Validated endpoints of a cluster.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClusterLoadAssignment {
    /// Name of the resource.
    pub name: ResourceName,
    /// Localities by priority, the highest priority first. Each priority has at least one locality.
    pub priorities: Vec<Vec<Locality>>,
    /// Drop categories, applied in order (gRFC A32).
    pub drops: Vec<DropCategory>,
}

impl ClusterLoadAssignment {
    /// Returns all endpoints, by priority and locality.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.priorities.iter().flatten().flat_map(|locality| &locality.endpoints)
    }
}

/// Endpoints of one locality.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Locality {
    /// Name of the locality.
    pub name: LocalityName,
    /// Weight within its priority. Positive.
    pub weight: u32,
    /// Endpoints that are not unhealthy. Calls are balanced over those whose
    /// [health](Health::takes_calls) allows it.
    pub endpoints: Vec<Endpoint>,
}

/// Endpoint that calls can be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Endpoint {
    /// Addresses, in the order in which they are tried (gRFC A61).
    pub addresses: Vec<SocketAddress>,
    /// Weight within its locality. Positive.
    pub weight: u32,
    /// Hostname, for authority rewriting (gRFC A81). May be empty.
    pub hostname: String,
    /// Health status.
    pub health: Health,
    /// Text that is hashed for the endpoint's position on a hash ring, in place of the address
    /// (gRFC A76). May be empty.
    pub hash_key: String,
}

/// Health status of an endpoint. Endpoints with any other status are left out of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Health {
    /// `HEALTHY`.
    Healthy,
    /// `UNKNOWN`: no status is known. Treated as healthy.
    Unknown,
    /// `DRAINING`: takes no new calls, except those of a session that it holds (gRFC A55).
    // B39a
    Draining,
}

impl Health {
    /// Converts a health status. Returns `None` for one with which an endpoint is not used.
    pub(crate) fn from_schema(status: i32) -> Option<Self> {
        match HealthStatus::try_from(status) {
            Ok(HealthStatus::Healthy) => Some(Self::Healthy),
            Ok(HealthStatus::Unknown) => Some(Self::Unknown),
            Ok(HealthStatus::Draining) => Some(Self::Draining),
            _ => None,
        }
    }

    /// Whether calls are balanced over the endpoint (gRFC A27).
    #[must_use]
    pub const fn takes_calls(self) -> bool {
        match self {
            Self::Healthy | Self::Unknown => true,
            Self::Draining => false,
        }
    }
}

/// Drop category: a fraction of calls that fail without being sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DropCategory {
    /// Name of the category, for load reports.
    pub category: String,
    /// Fraction of the calls.
    pub share: Fraction,
}
