//! Rarely needed state of a session.

use alloc::{
    boxed::Box,
    collections::{BTreeSet, VecDeque},
    vec::Vec,
};
use core::num::NonZeroU64;

use super::{
    deferred_removal::{carried_over::Brought, last_accepted::Had},
    nack::isolation::Isolation,
    subscription::Edge,
    window::Sent,
};
use crate::{
    server::store::{revision::Stamp, version::content::StatedVersion},
    slab::{Key, Slot},
    text::{ResourceName, Version},
    time::Time,
    wire::request::Parameters,
};

/// Rarely needed state of a session, stored separately to keep sessions small.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    /// Unanswered responses before the newest one, oldest first.
    pub(crate) earlier: VecDeque<Sent>,
    pub(crate) suspects: Option<Suspects>,
    /// Kind of rejected resources that the client may lack.
    pub(crate) lacks: Lacks,
    /// Names formerly covered by a wildcard or a glob only, to be sent to an incremental client
    /// in `removed_resources`.
    // M93
    pub(crate) farewell: BTreeSet<ResourceName>,
    /// Resources that an incremental client lost together with an alias, until their removals may
    /// be sent.
    // M147
    pub(crate) bereft: Bereft,
    /// Removals that need several responses.
    pub(crate) telling: Option<Telling>,
    /// Subscriptions to resources to which the client does not subscribe itself.
    pub(crate) apart: BTreeSet<Slot>,
    /// Named resources that the client was told are too long for it in their current version.
    pub(crate) too_long: BTreeSet<Slot>,
    /// Number of deferred removals.
    pub(crate) lingering: u32,
    /// Deferred removals carried over from another view.
    pub(crate) brought: Brought,
    /// Resources that a full-state client has from the previous view, until it ACKs a response in
    /// this one.
    pub(crate) had: Option<Had>,
    /// Subscriptions to names that did not exist when the client requested them, with the time at
    /// which the client is told so.
    // M127
    pub(crate) graces: VecDeque<(Time, Key)>,
    /// Time until which an empty first response is held.
    pub(crate) first_hold: Option<Time>,
    /// Resources that the client had when it subscribed to the wildcard, until it ACKs a later
    /// response.
    pub(crate) entered: Option<Entered>,
    /// Newest revision when an incremental client subscribed to the wildcard, until it ACKs a
    /// response rendered later. The client never received earlier removed resources through the
    /// wildcard.
    pub(crate) began: Stamp,
    /// Full state that the client rejected last.
    pub(crate) rejected_state: Option<StatedVersion>,
    pub(crate) isolation: Option<Box<Isolation>>,
    pub(crate) owed_globs: OwedGlobs,
    /// Whether the client is known to send dynamic parameters.
    pub(crate) parameters: Parameters,
    /// Texts of the application's versions that were stated.
    pub(crate) texts: Vec<(StatedVersion, Version)>,
}

/// Removals of the wildcard spread over several responses, until the last of them is ACKed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Telling {
    /// Revision up to which the client knew of removals before the first of these responses.
    pub(crate) since: Stamp,
    /// Revision up to which removals were sent, unless they are complete.
    pub(crate) partly: Option<Stamp>,
    /// Nonce of the last of these responses so far.
    pub(crate) last: u64,
}

/// Globs whose members are all due, because the client subscribed to them and has not been sent a
/// response since.
#[derive(Debug, Default)]
pub(crate) struct OwedGlobs {
    pub(crate) globs: BTreeSet<Slot>,
    /// Nonce of the newest response at that time.
    pub(crate) after: u64,
}

/// Resources sent that no subscription covers now; pending in `removed_resources`.
#[derive(Debug, Default)]
pub(crate) struct Bereft {
    pub(crate) names: BTreeSet<ResourceName>,
    /// Revision at which the last of them was lost.
    pub(crate) at: Stamp,
}

/// Resources of rejected responses, to be re-sent with the next change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspects {
    /// Lowest nonce of a rejected response. Subscriptions sent under `first..=last` are included.
    pub(crate) first: NonZeroU64,
    pub(crate) last: NonZeroU64,
    /// Under the wildcard: resources changed after this revision are included.
    pub(crate) from: Stamp,
    /// Under the wildcard: last included revision. Later ones may have been in another response.
    pub(crate) to: Stamp,
    /// Revision after which a change causes the batch to be re-sent.
    pub(crate) until: Stamp,
    /// Under the wildcard: removals after this revision are sent again.
    pub(crate) told: Stamp,
    pub(crate) beside: Beside,
}

/// Contents of rejected responses other than resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Beside {
    Nothing,
    /// Removals. The client may still have the removed resources.
    Deletions,
}

/// Resources that a client had by name before it subscribed to the wildcard.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) had: BTreeSet<ResourceName>,
    /// Nonce of the newest response at that time.
    pub(crate) after: u64,
}

/// Kind of rejected data that a client may lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lacks {
    /// Resources that exist.
    #[default]
    Resources,
    /// Removals only; the client has all existing resources.
    News,
}

impl Suspects {
    /// Combines two batches.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            from: self.from.min(other.from),
            to: self.to.max(other.to),
            until: self.until.max(other.until),
            told: self.told.min(other.told),
            beside: self.beside.max(other.beside),
        }
    }

    pub(crate) fn have(&self, edge: &Edge) -> bool {
        (self.first.get()..=self.last.get()).contains(&edge.sent)
    }
}
