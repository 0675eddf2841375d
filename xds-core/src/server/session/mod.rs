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

pub(crate) mod acked;
pub(crate) mod client_state;
pub(crate) mod context;
pub(crate) mod counters;
pub(crate) mod deferred_removal;
pub(crate) mod extras;
pub(crate) mod nack;
pub(crate) mod name_usage;
pub(crate) mod peer;
pub(crate) mod pending;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod session_handle;
pub(crate) mod session_view;
pub(crate) mod subscription;
pub(crate) mod subscriptions;
pub(crate) mod view_change;
pub(crate) mod view_difference;
mod wildcard;
pub(crate) mod window;

use alloc::boxed::Box;
use core::num::NonZeroU64;

pub(crate) use self::response::RenderedResponse;
use self::{
    counters::SessionCounters,
    extras::SessionExtras,
    nack::rejection::SentPosition,
    peer::Peer,
    response::heartbeat::Renewals,
    subscription::{DueList, Subscription, SubscriptionKind, SubscriptionTable},
    wildcard::{CatchUp, FullSend, MustReply, Wildcard},
    window::{Answer, Sent, UnacceptedChanges},
};
use super::{
    config::{LegacyWildcard, SotwResponse, StageTimeoutAction},
    event::{
        ResponseCause, StreamLifetime,
        status::{SubscribedNames, SyncState},
    },
    store::{
        arena::Arena, encode::body::Ttls, revision::Revision, subscription_list::SubscriptionList,
        version::content::StatedVersion,
    },
};
use crate::{
    id::StreamId,
    service::Variant,
    slab::Slot,
    time::Time,
    types,
    wire::request::{NameForm, Parameters},
};

/// Subscription state of one resource type on one stream.
#[derive(Debug)]
pub(crate) struct Session {
    /// Stream of the session; none once the stream is closed.
    pub(crate) stream: StreamId,
    pub(crate) arena: Slot,
    pub(crate) role: Role,
    pub(crate) send_order: SendOrder,
    variant: Variant,
    lifetime: StreamLifetime,
    ttls: Ttls,
    /// Form in which the client of an incremental session writes resource names.
    // M142
    name_form: NameForm,
    /// Whether a request without names subscribes to the wildcard. No request does once one has
    /// listed a name.
    // M24
    may_be_legacy_wildcard: bool,
    wildcard: Option<Wildcard>,
    /// Subscriptions to named and retained resources, in the order in which they were last sent.
    subscriptions: SubscriptionList,
    /// Subscriptions whose resource is due to be sent.
    due: DueList,
    named: u32,
    retained: u32,
    /// Number of requests that were not dropped.
    round: u32,
    first_response: FirstResponse,
    newest: Option<Sent>,
    accepted: Option<StatedVersion>,
    extras: Option<Box<SessionExtras>>,
    /// Whether the next request, or the next response for another reason, is answered with
    /// everything, because clusters were sent on the stream of this EDS session.
    ///
    /// A stream keeps its order, so a response that follows the clusters reaches the client after
    /// them. It is enough that *one* response with all resources is rendered after the clusters; its
    /// ACK needs no answer. If an earlier response was un-ACKed when the clusters were sent, its ACK
    /// may cross the clusters on the way. It is answered in any case, and other requests that the
    /// client sent before it received this answer have a stale nonce.
    warms_next: bool,
    unsubscribed_in_flight: UnsubscribedInFlight,
    prior_state: PriorState,
    /// Whether something is due that the client waits for. Changes alone may be held back.
    // M225
    has_urgent: bool,
    unaccepted: Option<Box<UnacceptedChanges>>,
    renewals: Option<Box<Renewals>>,
    pub(crate) counters: SessionCounters,
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
pub(crate) enum SendOrder {
    /// The types are independent of each other.
    Independent,
    /// The types are independent, except that removals are sent after everything else.
    RemovalsLast,
    /// Additions and changes may wait for the ACK of another type.
    MakeBeforeBreak,
    /// Removals may wait, too. The client keeps a removed resource until its removal is sent. The
    /// value says what to do if the client rejects a response that removals wait for.
    MakeBeforeBreakRemovals(StageTimeoutAction),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstResponse {
    /// No response was sent, and the client did not state that it is up to date.
    NotSent,
    /// First response pending; it must be sent even if it is empty.
    Pending,
    Done,
}

/// Purpose of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Content,
    Heartbeat,
}

/// Contents of the responses of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseMode {
    /// All subscribed resources in each response.
    // M74
    FullState,
    /// Resources that are new to the client.
    // M75
    Changes,
    /// Resources that are new to the client and names of removed ones (incremental variant).
    ChangesAndRemovals,
}

/// Resources from which the client unsubscribed before it can have read the newest response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum UnsubscribedInFlight {
    Nothing,
    /// Resources that the response contains if they existed then.
    Current,
    /// Resources that the response contains, or may repeat although they were removed.
    Withheld,
}

/// Whether the client may have resources that it did not receive from this session on this view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PriorState {
    None,
    /// The client stated so when it connected, or used another view before the response with this
    /// nonce.
    Before(NonZeroU64),
}

impl PriorState {
    /// Returns the state in which responses up to `nonce` belong to the past; 0 means none of
    /// them.
    fn up_to(nonce: u64) -> Self {
        Self::Before(NonZeroU64::MIN.saturating_add(nonce))
    }
}

impl Session {
    pub(crate) fn new(peer: Peer, arena_slot: Slot, arena: &Arena) -> Self {
        let Peer { stream, variant, lifetime, features, send_order, .. } = peer;
        Self {
            stream,
            arena: arena_slot,
            role: Role::of(arena.type_url.as_str()),
            send_order,
            variant,
            lifetime,
            ttls: features.ttls(variant),
            name_form: NameForm::Names,
            may_be_legacy_wildcard: arena.config.legacy_wildcard == LegacyWildcard::Honored,
            wildcard: None,
            subscriptions: SubscriptionList::default(),
            due: DueList::default(),
            named: 0,
            retained: 0,
            round: 0,
            first_response: FirstResponse::NotSent,
            newest: None,
            accepted: None,
            extras: None,
            warms_next: false,
            unsubscribed_in_flight: UnsubscribedInFlight::Nothing,
            prior_state: PriorState::None,
            has_urgent: false,
            unaccepted: None,
            renewals: None,
            counters: SessionCounters::default(),
        }
    }

    /// Returns the contents of this session's responses.
    fn response_mode(&self, arena: &Arena) -> ResponseMode {
        match (self.variant, arena.config.sotw_response) {
            (Variant::Incremental, _) => ResponseMode::ChangesAndRemovals,
            _ if self.lifetime == StreamLifetime::SingleResponse => ResponseMode::FullState,
            (Variant::StateOfTheWorld, SotwResponse::Changes) => ResponseMode::Changes,
            (Variant::StateOfTheWorld, SotwResponse::FullState | SotwResponse::AlwaysFull) => {
                ResponseMode::FullState
            }
        }
    }

    /// Returns the revision up to which the client was sent removals. `None` if no removals are
    /// sent to it or if it was sent nothing yet.
    pub(crate) fn removals_to(&self, arena: &Arena) -> Option<Revision> {
        let sends_removals = self.variant == Variant::Incremental && arena.sends_removals();
        let wildcard = self.wildcard.filter(|_| sends_removals)?;
        (wildcard.reached != Revision::START).then_some(wildcard.removals_to)
    }

    /// Returns the time at which the newest response was answered, or rendered if it is
    /// unanswered.
    pub(crate) fn updated(&self) -> Option<Time> {
        self.newest.map(|sent| sent.time)
    }

    /// Returns the wildcard cursor before and after the newest response, if there are both.
    pub(crate) fn newest_cursor_range(&self) -> Option<(Revision, Revision)> {
        self.newest.filter(|_| self.wildcard.is_some()).map(|sent| (sent.from, sent.to))
    }

    /// Returns the clusters in the newest response, if it covers this part of the wildcard and left
    /// out clusters that the client has.
    pub(crate) fn sent_clusters(&self, part: (Revision, Revision)) -> Option<&[Slot]> {
        let sent = self.extras.as_deref()?.sent_clusters.as_ref();
        sent.filter(|sent| sent.part == part).map(|sent| &*sent.clusters)
    }

    /// Returns the protocol variant of the session.
    pub(crate) fn variant(&self) -> Variant {
        self.variant
    }

    /// Records whether a request has dynamic parameters. Returns whether it is the first one that
    /// has.
    pub(crate) fn note_parameters(&mut self, parameters: Parameters) -> bool {
        let before = self.extras.as_deref().map_or(Parameters::None, |extras| extras.parameters);
        if before < parameters {
            self.extras_mut().parameters = parameters;
        }
        before < parameters
    }

    /// Number of subscribed names.
    pub(crate) fn names(&self) -> usize {
        self.named as usize
    }

    /// Returns the counter for subscriptions of this kind. Those that the server causes are not
    /// counted.
    fn count_of(&mut self, kind: SubscriptionKind) -> Option<&mut u32> {
        match kind {
            SubscriptionKind::Named => Some(&mut self.named),
            SubscriptionKind::Retained => Some(&mut self.retained),
            SubscriptionKind::ViaGlobOrAlias | SubscriptionKind::DeferredRemoval => None,
        }
    }

    /// Number of subscribed and retained names.
    /// Deferred removals do not count, because the server causes them.
    pub(crate) fn tracked_names(&self) -> usize {
        self.names() + self.retained as usize
    }

    pub(crate) fn subscribed_names(&self) -> SubscribedNames {
        match (self.wildcard, self.names()) {
            (None, 0) => SubscribedNames::Nothing,
            (None, names) => SubscribedNames::Names(names),
            (Some(_), 0) => SubscribedNames::Wildcard,
            (Some(_), names) => SubscribedNames::WildcardAndNames(names),
        }
    }

    pub(crate) fn sync_state(&self) -> SyncState {
        match (&self.newest, &self.accepted) {
            (Some(_), _) if self.awaits_answer() => SyncState::Sent,
            (Some(_), _) if self.has_accepted_newest() => SyncState::Acked,
            (Some(_), _) => SyncState::Nacked,
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
    fn holds(&self, subscription: &Subscription) -> bool {
        let position = SentPosition::Nonce(subscription.last_sent());
        let rejected = self.retry_batch().is_some_and(|it| it.range.has(position));
        let is_another = rejected || self.is_reported_too_long(subscription.resource);
        subscription.has_version() && subscription.due.is_none() && !is_another
    }

    /// Whether the client has the current version of the resource by name. `own` is the session's
    /// slot.
    fn has(&self, own: Slot, resource: Slot, subscriptions: &SubscriptionTable) -> bool {
        subscriptions.of(own, resource).is_some_and(|subscription| self.holds(subscription))
    }

    /// Returns the cause for sending resources to which the client newly subscribes.
    fn subscribe_cause(&self) -> ResponseCause {
        match self.first_response {
            FirstResponse::NotSent | FirstResponse::Pending => ResponseCause::First,
            FirstResponse::Done => ResponseCause::Resubscribed,
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

    use super::{
        Session, name_usage::Account, session_handle::SessionHandle, subscription::Subscription,
    };
    use crate::server::stream::{Stream, node_quota::NodeKey};

    /// Limits the memory of an idle client, which has one stream, account and node key, and for each
    /// type a session with its handle. A limit that is raised costs each of them.
    #[test]
    fn state_of_an_idle_client_fits_its_size_limits() {
        assert!(size_of::<Session>() <= 256, "{}", size_of::<Session>());
        assert!(size_of::<Stream>() <= 184, "{}", size_of::<Stream>());
        assert!(size_of::<SessionHandle>() <= 12, "{}", size_of::<SessionHandle>());
        assert!(size_of::<Account>() <= 40, "{}", size_of::<Account>());
        assert!(size_of::<NodeKey>() <= 16, "{}", size_of::<NodeKey>());
        assert!(size_of::<Subscription>() <= 72, "{}", size_of::<Subscription>());
    }
}
