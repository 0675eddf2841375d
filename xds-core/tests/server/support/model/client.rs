//! A client of the model: what it asked for, holds, and has seen.

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
    /// Whether it has forgotten nothing of what it accepted last.
    pub(crate) holds: Holds,
    /// What the client holds, by name.
    pub(crate) view: BTreeMap<String, String>,
    /// The responses on their way, with what there was when each was rendered.
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
    /// A name was listed before.
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

/// What there was when the last response was rendered, to tell whether the next has a reason.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pub(crate) responses: u64,
    pub(crate) changes: u64,
    /// Lists sent that said something new, and those at the last response.
    pub(crate) lists: u64,
    pub(crate) lists_then: u64,
    /// Whether the newest list was dropped, so that the next answer says something new.
    pub(crate) unheard: bool,
    /// Responses with clusters on the stream, and those at the last response.
    pub(crate) clusters: u64,
    pub(crate) clusters_then: u64,
    pub(crate) rejected: Option<Rejected>,
    /// With what the last response was rejected, if it was.
    pub(crate) error: Option<Status>,
    /// Resources in rejected responses, and responses that had one of them by itself.
    pub(crate) suspects: usize,
    pub(crate) recoveries: usize,
    /// Whether the last response had a resource that was deleted before, which is to be told yet.
    pub(crate) lingering: bool,
}

/// How many changes, lists and responses with clusters there were.
pub(crate) type Moment = (u64, u64, u64);

/// The response rejected last, and what there was when it was rendered.
#[derive(Clone, PartialEq)]
pub(crate) struct Rejected {
    pub(crate) resources: Vec<Bytes>,
    pub(crate) errors: Vec<ResourceError>,
    pub(crate) after: Moment,
}
