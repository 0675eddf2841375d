//! Requests that wait until the server has caught up with its source.

use alloc::{collections::BTreeMap, sync::Arc};

use crate::{id::StreamId, time::Time};

/// Whether the requests of a stream may be handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceCheck {
    /// No request was checked yet.
    Pending,
    /// A request waits.
    Waiting,
    /// The request that waited is handled without another check.
    Released,
    Done,
}

/// State of the source as a server knows it, and the streams that wait for it.
#[derive(Debug, Default)]
pub(crate) struct SourceProgress {
    /// Revision up to which all changes were applied, once there was one.
    pub(crate) reached: Option<u64>,
    /// Time since which the source cannot be read or watched.
    pub(crate) unreachable_since: Option<Time>,
    /// Reason why the newest state of the source is not served.
    pub(crate) refused: Option<Arc<str>>,
    /// Time since which all confirmations have failed.
    pub(crate) unconfirmed_since: Option<Time>,
    /// Whether the application was asked to confirm the revision, and has not answered.
    pub(crate) is_confirming: bool,
    pub(crate) waiting: BTreeMap<StreamId, SourceWait>,
}

/// Wait of one stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceWait {
    /// Greatest revision that the client states to have; zero if it states none.
    pub(crate) stated: u64,
    pub(crate) confirmation: WaitConfirmation,
}

/// Confirmation that a stream waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitConfirmation {
    NotNeeded,
    /// The next one, because that in progress began before the request arrived.
    Next,
    /// The one in progress.
    InProgress,
    /// The source was at this revision after the request had arrived.
    At(u64),
    /// The source cannot tell its revision.
    Impossible,
}

impl SourceWait {
    /// Revision that the server must have reached; `None` if it is not confirmed yet.
    ///
    /// A confirmed revision replaces the stated one: a client that states a greater one has it from
    /// another history, such as that of a source before it was restored from a backup.
    pub(crate) fn required(&self) -> Option<u64> {
        match self.confirmation {
            WaitConfirmation::NotNeeded | WaitConfirmation::Impossible => Some(self.stated),
            WaitConfirmation::Next | WaitConfirmation::InProgress => None,
            WaitConfirmation::At(revision) => Some(revision),
        }
    }
}

impl SourceProgress {
    /// Whether the server has all changes up to a revision.
    pub(crate) fn has(&self, revision: u64) -> bool {
        self.reached.is_some_and(|reached| revision <= reached)
    }

    /// Begins a confirmation if a stream waits for one and none is in progress. Returns whether it
    /// did.
    pub(crate) fn begin_confirmation(&mut self) -> bool {
        if self.is_confirming {
            return false;
        }
        for wait in self.waiting.values_mut() {
            if wait.confirmation == WaitConfirmation::Next {
                wait.confirmation = WaitConfirmation::InProgress;
                self.is_confirming = true;
            }
        }
        self.is_confirming
    }

    /// Ends the confirmation in progress. The revision is `None` if the source cannot tell it.
    pub(crate) fn end_confirmation(&mut self, revision: Option<u64>) {
        self.is_confirming = false;
        self.unconfirmed_since = None;
        // A source that cannot tell its revision may be unreachable nevertheless.
        if revision.is_some_and(|it| self.has(it)) {
            self.unreachable_since = None;
        }
        for wait in self.waiting.values_mut() {
            if wait.confirmation == WaitConfirmation::InProgress {
                wait.confirmation =
                    revision.map_or(WaitConfirmation::Impossible, WaitConfirmation::At);
            }
        }
    }
}
