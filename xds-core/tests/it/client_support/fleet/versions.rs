//! Versions that a client may state in state-of-the-world requests when a subscription begins.
// IC7 B06

use std::collections::BTreeMap;

use proptest::{prelude::*, test_runner::TestCaseError};

/// Last accepted versions by server and type.
#[derive(Debug, Default)]
pub struct Versions {
    accepted: BTreeMap<(usize, usize), Accepted>,
}

/// An accepted version and its validity.
#[derive(Debug, Default)]
struct Accepted {
    version: String,
    /// Whether its stream began with a wildcard and a wildcard watch has existed since.
    is_of_everything: bool,
    /// Whether a response was rejected since, so that the cache matches no version of the server.
    is_mixed: bool,
    loss: Loss,
}

/// Whether resources of an accepted version are no longer cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    #[default]
    None,
    /// A loss that is not visible from outside.
    Possible,
    Certain,
}

impl Versions {
    /// Returns the last accepted version.
    pub fn of(&self, server: usize, kind: usize) -> String {
        self.accepted.get(&(server, kind)).map(|it| it.version.clone()).unwrap_or_default()
    }

    pub fn accept(&mut self, place: (usize, usize), version: String, is_of_everything: bool) {
        let accepted = self.accepted.entry(place).or_default();
        (accepted.version, accepted.is_of_everything) = (version, is_of_everything);
        accepted.is_mixed = false;
    }

    /// Accepts a response with heartbeats only. It is unknown what its version covers, so no new
    /// subscription states it.
    // B09 DX-38
    pub fn renew(&mut self, place: (usize, usize), version: String) {
        let accepted = self.accepted.entry(place).or_default();
        *accepted = Accepted { version, loss: Loss::Certain, ..Accepted::default() };
    }

    pub fn reject(&mut self, place: (usize, usize)) {
        self.accepted.entry(place).or_default().is_mixed = true;
    }

    /// Records a loss of cached resources of a type from the selected servers.
    pub fn lose(&mut self, kind: usize, loss: Loss, from: impl Fn(usize) -> bool) {
        let of_type = self.accepted.iter_mut().filter(|((_, it), _)| *it == kind);
        for (_, accepted) in of_type.filter(|((server, _), _)| from(*server)) {
            accepted.loss = accepted.loss.max(loss);
        }
    }

    /// Records that no wildcard watch or wildcard subscription of the type exists.
    pub fn forget_everything(&mut self, kind: usize) {
        for (_, accepted) in self.accepted.iter_mut().filter(|((_, it), _)| *it == kind) {
            accepted.is_of_everything = false;
        }
    }

    /// Checks the version stated with a new subscription: the last accepted one, or none if it
    /// would claim resources that are not cached.
    // UN-04
    pub fn begin(
        &mut self,
        place: (usize, usize),
        version: &str,
        has_wildcard: bool,
        holds_something: bool,
    ) -> Result<(), TestCaseError> {
        let accepted = self.accepted.entry(place).or_default();
        let says_too_much =
            !holds_something || has_wildcard && (accepted.is_mixed || !accepted.is_of_everything);
        let is_expected = match accepted.loss {
            _ if says_too_much => version.is_empty(),
            Loss::None => version == accepted.version,
            Loss::Possible => version.is_empty() || version == accepted.version,
            Loss::Certain => version.is_empty(),
        };
        prop_assert!(is_expected, "{:?} is stated of {:?} (IC7, B06)", version, accepted);
        if version.is_empty() {
            *accepted = Accepted::default();
        }
        accepted.loss = Loss::None;
        Ok(())
    }
}
