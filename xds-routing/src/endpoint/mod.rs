//! The endpoints of clusters (EDS) as gRPC understands them: A27 with A61, A76 and A81.

mod validate;

use alloc::{string::String, vec::Vec};

use xds_core::{ResourceName, proto::Locality as LocalityName};

pub(crate) use self::validate::judge_endpoints;
use crate::{pattern::Fraction, scalars::SocketAddress};

/// The validated endpoints of a cluster.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClusterLoadAssignment {
    /// The resource's name.
    pub name: ResourceName,
    /// By priority, from what is always used to what is used last. Each has a locality at least.
    pub priorities: Vec<Vec<Locality>>,
    /// Calls that are not even tried, in turn (A32).
    pub drops: Vec<Drop>,
}

impl ClusterLoadAssignment {
    /// All endpoints, by priority and locality.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.priorities.iter().flatten().flat_map(|locality| &locality.endpoints)
    }
}

/// The endpoints in one place.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Locality {
    /// The place.
    pub name: LocalityName,
    /// Their share of the calls of their priority; above zero.
    pub weight: u32,
    /// They, those that are ill left out; of these, those are for calls whose
    /// [health](Health::takes_calls) says so.
    pub endpoints: Vec<Endpoint>,
}

/// Where calls can be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Endpoint {
    /// Its addresses, the one that is tried first before the others (A61).
    pub addresses: Vec<SocketAddress>,
    /// Its share of the calls of its locality; above zero.
    pub weight: u32,
    /// Its name, for calls that are to ask for it; may be empty (A81).
    pub hostname: String,
    /// How it is.
    pub health: Health,
    /// What its place on a ring of hashes is made from rather than its address; may be empty (A76).
    pub hash_key: String,
}

/// How an endpoint is. One that is ill in any other way is not part of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Well.
    Healthy,
    /// Nobody says, which is taken for well.
    Unknown,
    /// It takes no new calls, but may have those that belong to it (A55, B39a).
    Draining,
}

impl Health {
    /// Whether calls are balanced over the endpoint (A27).
    #[must_use]
    pub const fn takes_calls(self) -> bool {
        match self {
            Self::Healthy | Self::Unknown => true,
            Self::Draining => false,
        }
    }
}

/// Calls that are not even tried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drop {
    /// Why, for measurements.
    pub category: String,
    /// Which share.
    pub share: Fraction,
}
