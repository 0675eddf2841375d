//! Authorities that use a server, by resource type.

use alloc::vec::Vec;

use super::authority::AuthorityState;

/// Authorities that currently use a server, for each type.
#[derive(Debug)]
pub(crate) struct Scopes(Vec<Vec<bool>>);

impl Scopes {
    pub(crate) fn new(authorities: &[AuthorityState], upstream: usize, types: usize) -> Self {
        let of_type = |type_index| {
            authorities.iter().map(|authority| authority.uses(upstream, type_index)).collect()
        };
        Self((0..types).map(of_type).collect())
    }

    /// Returns, for each authority, whether it uses the server for the type.
    pub(crate) fn of(&self, type_index: usize) -> &[bool] {
        self.0.get(type_index).map(Vec::as_slice).unwrap_or_default()
    }

    /// Sets whether an authority uses the server for a type. Returns whether this is a change.
    pub(crate) fn set(&mut self, type_index: usize, authority: usize, uses: bool) -> bool {
        let known = self.0.get_mut(type_index).and_then(|scope| scope.get_mut(authority));
        known.is_some_and(|known| core::mem::replace(known, uses) != uses)
    }
}
