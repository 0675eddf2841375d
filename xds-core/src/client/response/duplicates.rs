//! Duplicated names in a response with [`Duplicates::LastWins`], where the last copy is used.
//!
//! With [`Duplicates::Reject`], `classify` handles them.
// D14

use alloc::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::any_response::AnyResponse;
use crate::{
    client::{config::profile::Duplicates, resource::name::Naming},
    wire::{delta_response::DeltaResponse, response::Response},
};

/// Positions of the copies that a later copy replaces. The positions of an incremental response's
/// removed names follow those of its resources.
#[derive(Debug, Default)]
pub(crate) struct IgnoredDuplicates(BTreeSet<usize>);

impl IgnoredDuplicates {
    #[inline]
    pub(crate) fn is_at(&self, position: usize) -> bool {
        !self.0.is_empty() && self.0.contains(&position)
    }

    pub(crate) fn in_any(naming: Naming<'_>, response: &AnyResponse<'_>) -> Self {
        match response {
            AnyResponse::Sotw(response) => Self::in_sotw(naming, response),
            AnyResponse::Delta(response) => Self::in_delta(naming, response),
        }
    }

    pub(crate) fn in_sotw(naming: Naming<'_>, response: &Response<'_>) -> Self {
        Self::of(
            naming,
            response
                .resources()
                .map(|raw| raw.ok().and_then(|raw| naming.known_name(naming.unwrap(&raw)))),
        )
    }

    pub(crate) fn in_delta(naming: Naming<'_>, response: &DeltaResponse<'_>) -> Self {
        let resources = response.resources().map(|wrapped| {
            wrapped.ok().and_then(|one| naming.known_name(naming.unwrap_delta(&one)))
        });
        Self::of(naming, resources.chain(response.removed().map(Some)))
    }

    fn of<'f>(naming: Naming<'_>, names: impl Iterator<Item = Option<&'f str>>) -> Self {
        let mut ignored = Self::default();
        if naming.profile.duplicates != Duplicates::LastWins {
            return ignored;
        }
        let mut last: BTreeMap<Cow<'f, str>, usize> = BTreeMap::new();
        for (position, name) in names.enumerate() {
            let earlier = name.and_then(|name| last.insert(naming.canonical(name), position));
            ignored.0.extend(earlier);
        }
        ignored
    }
}
