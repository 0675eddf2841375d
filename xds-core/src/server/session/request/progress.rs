//! Progress of a request, whose names are applied in parts.
//!
//! ```text
//!   begin: ACK or NACK ──▶ names, in as many parts as needed ──▶ finish: what is due
//! ```
//!
//! Between two parts the store may change, and the names that were applied follow the change like
//! any others. Nothing is rendered for the stream, so the client cannot tell the parts apart.

use alloc::{boxed::Box, collections::VecDeque};

use super::ack::RequestKind;
use crate::{
    server::event::{ResponseCause, status::SubscribedNames},
    slab::Key,
    wire::name_lists::NameCursor,
};

/// Request whose answer was applied, and whose names are being applied.
#[derive(Debug)]
pub(crate) struct RequestProgress {
    pub(crate) stage: Stage,
    /// Whether it is the first request of its session.
    pub(crate) is_first: bool,
    pub(crate) is_rejection: bool,
    pub(crate) kind: RequestKind,
    /// Subscribed names before the request.
    pub(crate) before: SubscribedNames,
    /// Cause for sending resources to which it newly subscribes.
    pub(crate) cause: ResponseCause,
    /// Version that a returning client states to have, in the state of the world.
    pub(crate) stated_version: Box<str>,
    /// Whether the wildcard was listed.
    pub(crate) has_wildcard: bool,
    /// Number of listed names, repetitions excluded (state of the world).
    pub(crate) listed: u32,
    /// Number of names that were added, in the incremental variant also of those that were removed.
    pub(crate) changes: usize,
    /// Number of retained names before the first stated version (incremental variant).
    pub(crate) retained_before_versions: Option<u32>,
}

/// Next step of a request.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The rest of the lists.
    Names(NameCursor),
    /// Subscriptions of a state-of-the-world client that its list lacks.
    Unlisted(UnlistedNames),
    Done,
}

/// Walk through the subscriptions that a list lacks.
#[derive(Debug)]
pub(crate) struct UnlistedNames {
    /// Whether names are retained for the wildcard.
    pub(crate) are_retained: bool,
    /// Next subscription; `None` at the start.
    pub(crate) next: Option<Key>,
    /// Globs to be dropped after all other names.
    pub(crate) globs: VecDeque<Key>,
}

impl RequestProgress {
    /// Whether the request has had names so far.
    pub(crate) fn has_names(&self) -> bool {
        self.listed > 0 || self.changes > 0 || self.retained_before_versions.is_some()
    }
}
