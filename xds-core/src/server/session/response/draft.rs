//! State of a response while it is rendered.

use alloc::vec::Vec;
use core::num::NonZeroU64;

use super::errors::EncodedErrors;
use crate::{
    server::session::deferred_removal::Portion, slab::Slot, text::ResourceName, time::Time,
};

/// Response that is being rendered.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) nonce: NonZeroU64,
    /// Maximum length of the body, in bytes.
    pub(crate) limit: usize,
    pub(crate) time: Time,
    /// Part of the due resources that the response may contain.
    pub(crate) portion: Portion,
    pub(crate) errors: EncodedErrors,
    /// Resources reported as too long, with their lengths in bytes.
    pub(crate) too_long: Vec<(ResourceName, usize)>,
    /// Whether a full state implies removals that its contents do not show.
    pub(crate) implies_removals: bool,
    /// Whether the response removes resources that no subscription covers any more.
    // M136
    pub(crate) removes_uncovered: bool,
    /// Number of names in the response that do not exist and that the client was never sent.
    pub(crate) absences: usize,
    /// Clusters of the wildcard in the response, if it leaves out those that the client has.
    pub(crate) clusters: Option<Vec<Slot>>,
}

impl Draft {
    pub(crate) fn new(nonce: NonZeroU64, limit: usize, time: Time, portion: Portion) -> Self {
        Self {
            nonce,
            limit,
            time,
            portion,
            errors: EncodedErrors::default(),
            too_long: Vec::new(),
            implies_removals: false,
            removes_uncovered: false,
            absences: 0,
            clusters: None,
        }
    }
}
