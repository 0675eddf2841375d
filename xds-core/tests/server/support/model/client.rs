//! A client of the model: its subscriptions, its resources and its history.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use xds_core::{
    StreamId,
    proto::{DiscoveryResponse, ResourceError, Status},
};

use super::ops::{Habit, TYPES};

pub(crate) struct Client {
    pub(crate) habit: Habit,
    pub(crate) stream: StreamId,
    pub(crate) node_sent: bool,
    pub(crate) subscriptions: [Subscription; TYPES.len()],
}

#[derive(Clone, Default)]
pub(crate) struct Subscription {
    pub(crate) asked: Asked,
    pub(crate) interest: Interest,
    pub(crate) nonce: String,
    pub(crate) version: String,
    pub(crate) accepted: String,
    /// Whether the client still holds everything of the last accepted response.
    pub(crate) holds: Holds,
    /// Resources that the client holds, by name.
    pub(crate) view: BTreeMap<String, String>,
    /// Responses in flight, with the counters at the time each was rendered.
    pub(crate) inbox: VecDeque<(DiscoveryResponse, Moment)>,
    pub(crate) seen: Seen,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Holds {
    #[default]
    APart,
    All,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Asked {
    #[default]
    Never,
    Once,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) names: BTreeSet<String>,
    pub(crate) everything: bool,
    /// Whether any name was listed before.
    pub(crate) explicit: bool,
}

impl Interest {
    pub(crate) fn is_everything(&self) -> bool {
        self.everything && self.names.is_empty()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.everything || self.names.contains(name)
    }
}

/// Counters at the last response, to check that the next one has a reason.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pub(crate) responses: u64,
    pub(crate) changes: u64,
    /// Number of requests with a changed list, now and at the last response.
    pub(crate) lists: u64,
    pub(crate) lists_then: u64,
    /// Whether the server dropped the newest list as stale.
    pub(crate) unheard: bool,
    /// Number of CDS responses on the stream, now and at the last response.
    pub(crate) clusters: u64,
    pub(crate) clusters_then: u64,
    pub(crate) rejected: Option<Rejected>,
    /// The error of the last NACK, if the last response was rejected.
    pub(crate) error: Option<Status>,
    /// Number of resources in rejected responses, and of isolated retries.
    pub(crate) suspects: usize,
    pub(crate) recoveries: usize,
    /// Resources that were sent, in each version.
    pub(crate) sent: BTreeSet<Bytes>,
    /// Whether the last response had a deleted resource whose removal is pending.
    pub(crate) lingering: bool,
}

/// Number of changes, lists and CDS responses.
pub(crate) type Moment = (u64, u64, u64);

/// The last rejected response, with the counters when it was rendered.
#[derive(Clone, PartialEq)]
pub(crate) struct Rejected {
    pub(crate) resources: Vec<Bytes>,
    pub(crate) errors: Vec<ResourceError>,
    pub(crate) after: Moment,
}
