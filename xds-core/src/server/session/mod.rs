//! One session: what one stream subscribes to of one type, and how far it has got.
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
//! Nothing is queued: what is due is state, so that a slow client is sent the newest once (M64,
//! M67) and costs nothing meanwhile (M230). No more responses are on their way than the window allows
//! (IS16).

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

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) stream: StreamId,
    pub(crate) arena: Slot,
    pub(crate) role: Role,
    staging: Staging,
    variant: Variant,
    visit: Visit,
    ttls: Ttls,
    /// How the client of an incremental session writes names (M142).
    spelling: Spelling,
    /// Names that were ever listed end the legacy wildcard for good (M24).
    legacy: Legacy,
    wildcard: Option<Wildcard>,
    /// Edges to named and remembered resources; what was sent last is last.
    edges: List,
    /// Those of them that the client is to be sent.
    due: DueList,
    named: u32,
    remembered: u32,
    /// Counts requests that were not dropped.
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

/// Whether anything depends on what this type of a stream is sent (M151).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A client that got these may wait for endpoints.
    Clusters,
    /// What it waits for.
    Endpoints,
    /// A client that got these may wait for secrets.
    Listeners,
    Secrets,
    Other,
}

/// Whether the stream's types wait for each other (M146, M147).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staging {
    /// No.
    Free,
    /// No, but what is deleted is told after everything else.
    Reversed,
    /// What is set may have to wait.
    Staged,
    /// What is deleted, too: the client has it until that may be told. Says what becomes of it should it reject.
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
    /// The client has not been answered, nor did it say that it needs no answer.
    Unanswered,
    /// Nor that, and it is to be answered even if there is nothing to say.
    Owed,
    Answered,
}

/// What a response is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Content,
    Heartbeat,
}

/// Where a session of endpoints stands after clusters were sent on its stream.
///
/// The stream keeps order: a response that follows the clusters on it reaches the client after
/// them. So what has to happen is that *one* response with all resources is rendered after the
/// clusters, and its ACK then needs no answer. That also settles the race with a response
/// still un-ACKed when the clusters went out: its ACK, though it may predate them, is answered, and
/// whatever else the client sent before it saw that answer is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WarmingState {
    Off,
    /// The next request, or the next response for another reason, is answered with everything.
    Armed,
}

/// What responses consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sends {
    /// All that is subscribed, each time (M74).
    FullState,
    /// What is new to the client (M75).
    Changes,
    /// That, and the names of what is gone: the incremental variant.
    ChangesAndRemovals,
}

/// Whether the client dropped something before it can have read the response that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Withdrawn {
    Nothing,
    Unread,
}

/// Whether the client may have something that it has not accepted as a response of the session on this view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Past {
    None,
    /// It said so when it came, or saw another view, before the response of this nonce.
    Before(NonZeroU64),
}

impl Past {
    /// Up to the response of this nonce; of zero, before any.
    fn up_to(nonce: u64) -> Self {
        Self::Before(NonZeroU64::MIN.saturating_add(nonce))
    }
}

/// Whether the client waits for more than changes, which may be held back (M225).
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

    /// What responses to this session consist of.
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

    /// Whether deletions were forgotten before the client was told of them (M231).
    pub(crate) fn lags_behind(&self, arena: &Arena) -> bool {
        self.told(arena).is_some_and(|told| told < arena.horizon())
    }

    /// Up to where the client knows of deletions, if it depends on being told: it has been sent something.
    pub(crate) fn told(&self, arena: &Arena) -> Option<Stamp> {
        let is_told = self.variant == Variant::Incremental && arena.tells_removals();
        let wildcard = self.wildcard.filter(|_| is_told)?;
        (wildcard.reached != Stamp::START).then_some(wildcard.told)
    }

    /// When the newest response was rendered or, once it was, answered.
    pub(crate) fn updated(&self) -> Option<Time> {
        self.newest.map(|sent| sent.time)
    }

    /// What part of the wildcard the newest response had.
    pub(crate) fn just_sent(&self) -> (Stamp, Stamp) {
        match (self.newest, self.wildcard) {
            (Some(sent), Some(_)) => (sent.from, sent.to),
            _ => (Stamp::MAX, Stamp::MAX),
        }
    }

    /// Whether its client asks for what it waits for, or has to be sent it unasked.
    pub(crate) fn variant(&self) -> Variant {
        self.variant
    }

    /// Clusters were sent on the stream.
    pub(crate) fn arm_warming(&mut self) {
        self.warming = WarmingState::Armed;
    }

    /// A request has these; whether it is the first one that has any.
    pub(crate) fn note_parameters(&mut self, parameters: Parameters) -> bool {
        let before = self.rare.as_deref().map_or(Parameters::None, |rare| rare.parameters);
        if before < parameters {
            self.rare_mut().parameters = parameters;
        }
        before < parameters
    }

    /// How many names are subscribed.
    pub(crate) fn names(&self) -> usize {
        self.named as usize
    }

    /// Where edges of this standing are counted. What a glob makes is not.
    fn count_of(&mut self, standing: Standing) -> Option<&mut u32> {
        match standing {
            Standing::Named => Some(&mut self.named),
            Standing::Lingering => Some(&mut self.rare_mut().lingering),
            Standing::Covered => None,
            Standing::Remembered | Standing::Parting => Some(&mut self.remembered),
        }
    }

    /// How many names are held: those subscribed, and those remembered until the wildcard has caught
    /// up. What lingers is the server's own doing.
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
            // After a reconnect, on the client's own word.
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

    /// Whether the client has the resource as it is now, as far as this edge tells. What it rejected
    /// it does not have.
    fn holds(&self, edge: &Edge) -> bool {
        let rejected = self.suspects().is_some_and(|suspects| suspects.have(edge));
        let is_another = rejected || self.is_told_too_long(edge.resource);
        edge.sent != 0 && edge.due.is_none() && !is_another
    }

    /// Whether the client has been sent the resource as it is now, by name. `own` is the session's slot.
    fn has(&self, own: Slot, resource: Slot, edges: &Edges) -> bool {
        edges
            .find(own, resource)
            .and_then(|slot| edges.at(slot))
            .is_some_and(|edge| self.holds(edge))
    }

    /// Why something is sent that the client newly asks for.
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

    /// An idle client is to cost no more than 1 KiB for its stream, in which each subscription has a seat, and 256
    /// bytes per subscription.
    #[test]
    fn clients_are_small() {
        assert!(size_of::<Session>() <= 256, "{}", size_of::<Session>());
        assert!(size_of::<Stream>() <= 256, "{}", size_of::<Stream>());
        assert!(size_of::<Seat>() <= 12, "{}", size_of::<Seat>());
        assert!(size_of::<Edge>() <= 72, "{}", size_of::<Edge>());
    }
}
