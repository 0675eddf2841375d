//! Sessions: the state of one resource type on one stream, and the rules that act on it.
//!
//! ```text
//!              request                         change in the store
//!                 |                                     |
//!      answer: ACK, NACK, stale?                        |
//!                 |                                     |
//!      sotw, delta: which names, wildcard?              |
//!                 |                                     |
//!                 +----> what is due, and why <---------+
//!                                 |
//!                 window open, transport has room
//!                                 |
//!                      render: one response
//! ```
//!
//! Responses are not queued. A session records which resources are due and renders them when the
//! window is open, so a slow client receives only the newest version and costs nothing while it
//! is slow. The number of unanswered responses is limited by the window.
// M64, M67, M230, IS16

pub(crate) mod acceptance;
pub(crate) mod client_features;
pub(crate) mod client_state;
pub(crate) mod context;
pub(crate) mod counters;
pub(crate) mod deferred_removal;
pub(crate) mod extras;
pub(crate) mod nack;
pub(crate) mod peer;
pub(crate) mod pending;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod seat;
pub(crate) mod subscription;
pub(crate) mod subscriptions;
pub(crate) mod view_change;
mod wildcard;
mod window;

use alloc::boxed::Box;
use core::num::NonZeroU64;

pub(crate) use self::response::Rendered;
use self::{
    acceptance::Behind,
    counters::Counts,
    extras::Rare,
    peer::Peer,
    response::heartbeat::Renewals,
    subscription::{DueList, Edge, Edges, Standing},
    wildcard::{CatchUp, Claim, Leftovers, Owed, Wildcard},
    window::{Answer, Sent},
};
use super::{
    config::{LegacyWildcard, OnStuck, SotwResponse},
    event::{
        Cause, Visit,
        status::{Interest, SyncState},
    },
    store::{
        arena::Arena, encode::body::Ttls, revision::Stamp, subscriber_list::List,
        version::content::StatedVersion,
    },
};
use crate::{
    id::StreamId,
    service::Variant,
    slab::Slot,
    time::Time,
    types,
    wire::request::{Parameters, Spelling},
};

/// Subscription state of one resource type on one stream.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) stream: StreamId,
    pub(crate) arena: Slot,
    pub(crate) role: Role,
    staging: Staging,
    variant: Variant,
    visit: Visit,
    ttls: Ttls,
    /// Form in which the client of an incremental session writes resource names.
    // M142
    spelling: Spelling,
    /// State of the legacy wildcard, which ends permanently once a request lists a name.
    // M24
    legacy: Legacy,
    wildcard: Option<Wildcard>,
    /// Subscriptions to named and retained resources, in the order in which they were last sent.
    edges: List,
    /// Subscriptions whose resource is due to be sent.
    due: DueList,
    named: u32,
    remembered: u32,
    /// Number of requests that were not dropped.
    round: u32,
    first: First,
    newest: Option<Sent>,
    accepted: Option<StatedVersion>,
    rare: Option<Box<Rare>>,
    warming: WarmingState,
    withdrawn: Withdrawn,
    past: Past,
    haste: Haste,
    behind: Option<Box<Behind>>,
    renewals: Option<Box<Renewals>>,
    pub(crate) counts: Counts,
}

/// Part that a resource type plays when a client warms clusters and listeners.
// M151
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Clusters, after which a client may wait for endpoints or secrets.
    Clusters,
    /// Endpoints, which a client needs to warm a cluster.
    Endpoints,
    /// Listeners, after which a client may wait for secrets.
    Listeners,
    Secrets,
    Other,
}

/// Order in which the types of a stream are sent.
// M146, M147
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staging {
    /// The types are independent of each other.
    Free,
    /// The types are independent, except that removals are sent after everything else.
    Reversed,
    /// Additions and changes may wait for the ACK of another type.
    Staged,
    /// Removals may wait, too. The client keeps a removed resource until its removal is sent. The
    /// value says what to do if the client rejects a response that removals wait for.
    Lingering(OnStuck),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Legacy {
    /// No request has listed a name so far.
    Possible,
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    /// No response was sent, and the client did not state that it is up to date.
    Unanswered,
    /// First response pending; it must be sent even if it is empty.
    Owed,
    Answered,
}

/// Purpose of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Content,
    Heartbeat,
}

/// Warming state of an EDS session after clusters were sent on its stream.
///
/// A stream keeps its order, so a response that follows the clusters reaches the client after
/// them. It is enough that *one* response with all resources is rendered after the clusters; its
/// ACK needs no answer. This also settles the race with a response that was un-ACKed when the
/// clusters were sent: its ACK is answered although it may predate them, and everything else that
/// the client sent before it received that answer is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WarmingState {
    Off,
    /// The next request, or the next response for another reason, is answered with everything.
    Armed,
}

/// Contents of the responses of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sends {
    /// All subscribed resources in each response.
    // M74
    FullState,
    /// Resources that are new to the client.
    // M75
    Changes,
    /// Resources that are new to the client and names of removed ones (incremental variant).
    ChangesAndRemovals,
}

/// Whether the client unsubscribed from a resource before it can have read a response with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Withdrawn {
    Nothing,
    Unread,
}

/// Whether the client may have resources that it did not receive from this session on this view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Past {
    None,
    /// The client stated so when it connected, or used another view before the response with this
    /// nonce.
    Before(NonZeroU64),
}

impl Past {
    /// Returns the state in which responses up to `nonce` belong to the past; 0 means none of
    /// them.
    fn up_to(nonce: u64) -> Self {
        Self::Before(NonZeroU64::MIN.saturating_add(nonce))
    }
}

/// Whether the client waits for an answer. Changes alone may be held back.
// M225
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Haste {
    CanWait,
    Urgent,
}

impl Session {
    pub(crate) fn new(peer: Peer, arena_slot: Slot, arena: &Arena) -> Self {
        let Peer { stream, variant, visit, features, staging, .. } = peer;
        let legacy = match arena.config.legacy_wildcard {
            LegacyWildcard::Honored => Legacy::Possible,
            LegacyWildcard::Ignored => Legacy::Left,
        };
        Self {
            stream,
            arena: arena_slot,
            role: Role::of(arena.type_url.as_str()),
            staging,
            variant,
            visit,
            ttls: features.ttls(variant),
            spelling: Spelling::Names,
            legacy,
            wildcard: None,
            edges: List::default(),
            due: DueList::default(),
            named: 0,
            remembered: 0,
            round: 0,
            first: First::Unanswered,
            newest: None,
            accepted: None,
            rare: None,
            warming: WarmingState::Off,
            withdrawn: Withdrawn::Nothing,
            past: Past::None,
            haste: Haste::CanWait,
            behind: None,
            renewals: None,
            counts: Counts::default(),
        }
    }

    /// Returns the contents of this session's responses.
    fn sends(&self, arena: &Arena) -> Sends {
        match (self.variant, arena.config.sotw_response) {
            (Variant::Incremental, _) => Sends::ChangesAndRemovals,
            _ if self.visit == Visit::Fetches => Sends::FullState,
            (Variant::StateOfTheWorld, SotwResponse::Changes) => Sends::Changes,
            (Variant::StateOfTheWorld, SotwResponse::FullState | SotwResponse::AlwaysFull) => {
                Sends::FullState
            }
        }
    }

    /// Whether tombstones were dropped before the client was sent the removals.
    // M231
    pub(crate) fn lags_behind(&self, arena: &Arena) -> bool {
        self.told(arena).is_some_and(|told| told < arena.horizon())
    }

    /// Returns the revision up to which the client was sent removals. `None` if no removals are
    /// sent to it or if it was sent nothing yet.
    pub(crate) fn told(&self, arena: &Arena) -> Option<Stamp> {
        let is_told = self.variant == Variant::Incremental && arena.tells_removals();
        let wildcard = self.wildcard.filter(|_| is_told)?;
        (wildcard.reached != Stamp::START).then_some(wildcard.told)
    }

    /// Returns the time at which the newest response was answered, or rendered if it is
    /// unanswered.
    pub(crate) fn updated(&self) -> Option<Time> {
        self.newest.map(|sent| sent.time)
    }

    /// Returns the wildcard cursor before and after the newest response.
    pub(crate) fn just_sent(&self) -> (Stamp, Stamp) {
        match (self.newest, self.wildcard) {
            (Some(sent), Some(_)) => (sent.from, sent.to),
            _ => (Stamp::MAX, Stamp::MAX),
        }
    }

    /// Returns the protocol variant of the session.
    pub(crate) fn variant(&self) -> Variant {
        self.variant
    }

    /// Arms warming after clusters were sent on the stream.
    pub(crate) fn arm_warming(&mut self) {
        self.warming = WarmingState::Armed;
    }

    /// Records whether a request has dynamic parameters. Returns whether it is the first one that
    /// has.
    pub(crate) fn note_parameters(&mut self, parameters: Parameters) -> bool {
        let before = self.rare.as_deref().map_or(Parameters::None, |rare| rare.parameters);
        if before < parameters {
            self.rare_mut().parameters = parameters;
        }
        before < parameters
    }

    /// Number of subscribed names.
    pub(crate) fn names(&self) -> usize {
        self.named as usize
    }

    /// Returns the counter for subscriptions of this kind. Those made by a glob are not counted.
    fn count_of(&mut self, standing: Standing) -> Option<&mut u32> {
        match standing {
            Standing::Named => Some(&mut self.named),
            Standing::Lingering => Some(&mut self.rare_mut().lingering),
            Standing::Covered => None,
            Standing::Remembered | Standing::Parting => Some(&mut self.remembered),
        }
    }

    /// Number of subscribed names and of names retained until the wildcard has caught up.
    /// Deferred removals do not count, because the server causes them.
    pub(crate) fn held(&self) -> usize {
        self.names() + self.remembered as usize
    }

    pub(crate) fn interest(&self) -> Interest {
        match (self.wildcard, self.names()) {
            (None, 0) => Interest::Nothing,
            (None, names) => Interest::Names(names),
            (Some(_), 0) => Interest::Wildcard,
            (Some(_), names) => Interest::WildcardAndNames(names),
        }
    }

    pub(crate) fn state(&self) -> SyncState {
        match (&self.newest, &self.accepted) {
            (Some(sent), _) => match sent.answer {
                Answer::Pending | Answer::Overdue => SyncState::Sent,
                Answer::Ack if sent.verdict != Answer::Nack => SyncState::Acked,
                Answer::Ack | Answer::Nack => SyncState::Nacked,
            },
            // After a reconnect, according to the client.
            (None, Some(_)) => SyncState::Acked,
            (None, None) => SyncState::Waiting,
        }
    }

    pub(crate) fn sent_version(&self) -> Option<StatedVersion> {
        self.newest.map(|sent| sent.version)
    }

    pub(crate) fn accepted_version(&self) -> Option<StatedVersion> {
        self.accepted
    }

    /// Whether the client has the current version of the resource, according to this
    /// subscription. A rejected resource counts as missing.
    fn holds(&self, edge: &Edge) -> bool {
        let rejected = self.suspects().is_some_and(|suspects| suspects.have(edge));
        let is_another = rejected || self.is_told_too_long(edge.resource);
        edge.sent != 0 && edge.due.is_none() && !is_another
    }

    /// Whether the client has the current version of the resource by name. `own` is the session's
    /// slot.
    fn has(&self, own: Slot, resource: Slot, edges: &Edges) -> bool {
        edges
            .find(own, resource)
            .and_then(|slot| edges.at(slot))
            .is_some_and(|edge| self.holds(edge))
    }

    /// Returns the cause for sending resources to which the client newly subscribes.
    fn asked(&self) -> Cause {
        match self.first {
            First::Unanswered | First::Owed => Cause::First,
            First::Answered => Cause::Resubscribed,
        }
    }
}

impl Role {
    fn of(type_url: &str) -> Self {
        match type_url {
            types::CLUSTER => Self::Clusters,
            types::CLUSTER_LOAD_ASSIGNMENT => Self::Endpoints,
            types::LISTENER => Self::Listeners,
            types::SECRET => Self::Secrets,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::mem::size_of;

    use super::seat::Seat;
    use super::{Session, subscription::Edge};
    use crate::server::stream::Stream;

    /// Limits the memory of an idle client to 1 KiB for its stream, which holds one seat per
    /// session, and 256 bytes per session.
    #[test]
    fn clients_are_small() {
        assert!(size_of::<Session>() <= 256, "{}", size_of::<Session>());
        assert!(size_of::<Stream>() <= 256, "{}", size_of::<Stream>());
        assert!(size_of::<Seat>() <= 12, "{}", size_of::<Seat>());
        assert!(size_of::<Edge>() <= 72, "{}", size_of::<Edge>());
    }
}
