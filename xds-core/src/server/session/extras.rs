//! Rarely needed state of a session.

use alloc::{
    boxed::Box,
    collections::{BTreeSet, VecDeque},
    vec::Vec,
};

use super::{
    Session,
    acked::AckedExceptions,
    nack::{kept_contents::KeptContents, rejection::OpenRejections},
    name_usage::NameUnits,
    window::Sent,
};
use crate::{
    server::store::{revision::Revision, version::content::StatedVersion},
    slab::{Key, Slot},
    text::{ResourceName, Version},
    time::Time,
    wire::request::Parameters,
};

/// Rarely needed state of a session, stored separately to keep sessions small.
#[derive(Debug, Default)]
pub(crate) struct SessionExtras {
    /// Unanswered responses before the newest one, oldest first.
    pub(crate) earlier: VecDeque<Sent>,
    pub(crate) rejections: OpenRejections,
    /// Contents of responses, if rejected resources are isolated.
    pub(crate) contents: KeptContents,
    /// Names formerly covered by a wildcard or a glob only, to be sent to an incremental client
    /// in `removed_resources`.
    // M93
    pub(crate) unsubscribe_removals: BTreeSet<ResourceName>,
    /// Resources that an incremental client lost together with an alias, until their removals may
    /// be sent.
    // M147
    pub(crate) without_subscription: ResourcesWithoutSubscription,
    /// Removals that need several responses.
    pub(crate) partial_removals: Option<PartialRemovals>,
    /// Subscriptions to resources to which the client does not subscribe itself.
    pub(crate) implicit_subscriptions: BTreeSet<Slot>,
    /// Named resources that the client was told are too long for it in their current version.
    pub(crate) too_long: BTreeSet<Slot>,
    /// Resources of which the client has something else than the response that it ACKed last.
    pub(crate) acked: AckedExceptions,
    /// Subscriptions to names that did not exist when the client requested them, with the time at
    /// which the client is told so.
    // M127
    pub(crate) grace_periods: VecDeque<(Time, Key)>,
    /// Time until which an empty first response is held.
    pub(crate) first_response_hold: Option<Time>,
    /// Resources that the client had when it subscribed to the wildcard, until it ACKs a later
    /// response.
    pub(crate) before_wildcard: Option<BeforeWildcard>,
    /// Newest revision when an incremental client subscribed to the wildcard, until it ACKs a
    /// response rendered later. The client never received earlier removed resources through the
    /// wildcard.
    pub(crate) wildcard_since: Revision,
    pub(crate) due_globs: DueGlobs,
    /// Clusters in the newest response, if it left out those that the client has.
    pub(crate) sent_clusters: Option<SentClusters>,
    /// Whether the client is known to send dynamic parameters.
    pub(crate) parameters: Parameters,
    /// Units by which the units of names exceed their number, because some are long.
    pub(crate) surplus: NameUnits,
    /// Texts of the application's versions that were stated.
    pub(crate) texts: Vec<(StatedVersion, Version)>,
}

/// Removals of the wildcard spread over several responses, until the last of them is ACKed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartialRemovals {
    /// Revision up to which the client knew of removals before the first of these responses.
    pub(crate) since: Revision,
    /// Revision up to which removals were sent, unless they are complete.
    pub(crate) partial_to: Option<Revision>,
    /// Nonce of the last of these responses so far.
    pub(crate) last: u64,
}

/// Clusters of the wildcard in a response that left out those that the client has.
#[derive(Debug)]
pub(crate) struct SentClusters {
    /// The response contains changes after the first revision, up to the second.
    pub(crate) part: (Revision, Revision),
    pub(crate) clusters: Vec<Slot>,
}

/// Globs whose members are all due, because the client subscribed to them and has not been sent a
/// response since.
#[derive(Debug, Default)]
pub(crate) struct DueGlobs {
    pub(crate) globs: BTreeSet<Slot>,
    /// Nonce of the newest response at that time.
    pub(crate) after: u64,
}

/// Resources sent that no subscription covers now; pending in `removed_resources`.
#[derive(Debug, Default)]
pub(crate) struct ResourcesWithoutSubscription {
    pub(crate) names: BTreeSet<ResourceName>,
    /// Revision at which the last of them was lost.
    pub(crate) at: Revision,
}

/// Resources that a client had by name before it subscribed to the wildcard.
#[derive(Debug)]
pub(crate) struct BeforeWildcard {
    pub(crate) names: BTreeSet<ResourceName>,
    /// Nonce of the newest response at that time.
    pub(crate) after: u64,
}

impl SessionExtras {
    fn is_empty(&self) -> bool {
        self.earlier.is_empty()
            && self.rejections.is_empty()
            && self.contents.is_empty()
            && self.implicit_subscriptions.is_empty()
            && self.too_long.is_empty()
            && self.unsubscribe_removals.is_empty()
            && self.without_subscription.names.is_empty()
            && self.partial_removals.is_none()
            && self.acked.is_empty()
            && self.grace_periods.is_empty()
            && self.first_response_hold.is_none()
            && self.before_wildcard.is_none()
            && self.wildcard_since == Revision::START
            && self.due_globs.globs.is_empty()
            && self.sent_clusters.is_none()
            && self.parameters == Parameters::None
            && self.surplus == NameUnits::default()
            && self.texts.is_empty()
    }
}

impl Session {
    /// Returns the resources that the client had when it subscribed to the wildcard, unless it
    /// has accepted a response since. `accepted` is the nonce of the last accepted response.
    pub(crate) fn before_wildcard(&self, accepted: u64) -> Option<&BeforeWildcard> {
        let before_wildcard =
            self.extras.as_deref().and_then(|extras| extras.before_wildcard.as_ref());
        before_wildcard.filter(|before_wildcard| accepted <= before_wildcard.after)
    }

    /// Whether removals are due to an incremental client that left its wildcard or a glob.
    pub(crate) fn has_unsubscribe_removals(&self) -> bool {
        self.extras.as_deref().is_some_and(|extras| !extras.unsubscribe_removals.is_empty())
    }

    pub(crate) fn without_subscription(&self) -> Option<&ResourcesWithoutSubscription> {
        self.extras
            .as_deref()
            .map(|extras| &extras.without_subscription)
            .filter(|without_subscription| !without_subscription.names.is_empty())
    }

    pub(crate) fn extras_mut(&mut self) -> &mut SessionExtras {
        self.extras.get_or_insert_with(Box::default)
    }

    /// Applies a change to the rarely needed state, if there is any.
    pub(crate) fn update_extras(&mut self, change: impl FnOnce(&mut SessionExtras)) {
        if let Some(extras) = self.extras.as_deref_mut() {
            change(extras);
            self.drop_empty_extras();
        }
    }

    pub(crate) fn drop_empty_extras(&mut self) {
        if self.extras.as_deref().is_some_and(SessionExtras::is_empty) {
            self.extras = None;
        }
    }
}
