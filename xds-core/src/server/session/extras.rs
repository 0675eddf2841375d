//! What hardly any session has.

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

/// What hardly any session has, apart lest all others pay for it.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    /// Responses before the newest that are not answered yet, the oldest first.
    pub(crate) earlier: VecDeque<Sent>,
    pub(crate) suspects: Option<Suspects>,
    /// What of all that it rejected the client may lack.
    pub(crate) lacks: Lacks,
    /// What only a wildcard covered that an incremental client has left, to be told as removed (M93).
    pub(crate) farewell: BTreeSet<ResourceName>,
    /// The same of what an incremental client lost with an alias, until that may be told (M147).
    pub(crate) bereft: Bereft,
    /// What is gone takes several responses to be told.
    pub(crate) telling: Option<Telling>,
    /// The edges to what the client does not subscribe to.
    pub(crate) apart: BTreeSet<Slot>,
    /// Resources that the client names and is told to be too long for it, as they are.
    pub(crate) too_long: BTreeSet<Slot>,
    /// How many edges linger.
    pub(crate) lingering: u32,
    /// What of that is from another view.
    pub(crate) brought: Brought,
    /// What a client of full states has from the view before, until it has accepted something of this one.
    pub(crate) had: Option<Had>,
    /// Edges to names that did not exist when the client asked for them, and until when it is not told
    /// (M127).
    pub(crate) graces: VecDeque<(Time, Key)>,
    /// Until when the first answer is held, if there is nothing to answer.
    pub(crate) first_hold: Option<Time>,
    /// What the client had when it went over to everything, until it accepts that.
    pub(crate) entered: Option<Entered>,
    /// The newest change when an incremental client went over to everything, until it accepts anything made after
    /// that: what was gone by then it never had as a part of everything.
    pub(crate) began: Stamp,
    /// The full state that the client rejected last.
    pub(crate) rejected_state: Option<StatedVersion>,
    pub(crate) isolation: Option<Box<Isolation>>,
    pub(crate) owed_globs: OwedGlobs,
    /// Whether the client is known to send dynamic parameters.
    pub(crate) parameters: Parameters,
    /// What stated versions of the application read.
    pub(crate) texts: Vec<(StatedVersion, Version)>,
}

/// Several responses that tell what the wildcard has lost, until the last of them is accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Telling {
    /// What the client knew of before the first one.
    pub(crate) since: Stamp,
    /// How far they got, unless that is all.
    pub(crate) partly: Option<Stamp>,
    /// The number of the last one so far.
    pub(crate) last: u64,
}

/// Globs whose members are all due, since the client asked for them and has been sent nothing after that.
#[derive(Debug, Default)]
pub(crate) struct OwedGlobs {
    pub(crate) globs: BTreeSet<Slot>,
    /// The number of the newest response then.
    pub(crate) after: u64,
}

/// What a client has, and has no claim to any more.
#[derive(Debug, Default)]
pub(crate) struct Bereft {
    pub(crate) names: BTreeSet<ResourceName>,
    /// When it lost the last of them.
    pub(crate) at: Stamp,
}

/// The resources of rejected responses, to go along with the next change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspects {
    /// Edges sent under the nonces from the first to the last rejected one.
    pub(crate) first: NonZeroU64,
    pub(crate) last: NonZeroU64,
    /// Under the wildcard: what changed after this.
    pub(crate) from: Stamp,
    /// And up to this: the rest may have come in another response.
    pub(crate) to: Stamp,
    /// A change after this takes them along.
    pub(crate) until: Stamp,
    /// Under the wildcard: what went after this is to be told again.
    pub(crate) told: Stamp,
    pub(crate) beside: Beside,
}

/// What else there was in rejected responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Beside {
    Nothing,
    /// The news that something is gone, which the client may therefore still have.
    Deletions,
}

/// What a client had by name before it subscribed to everything.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) had: BTreeSet<ResourceName>,
    /// The number of the newest response then.
    pub(crate) after: u64,
}

/// What a client may lack of what it has rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lacks {
    /// Resources that there are, for all that is known.
    #[default]
    Resources,
    /// Nothing but the news that something is gone: it has all there is.
    News,
}

impl Suspects {
    /// Both.
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
