//! What a client may say that it holds of a server's whole state, when a subscription begins (IC7, B06).

use std::collections::BTreeMap;

use proptest::{prelude::*, test_runner::TestCaseError};

/// The versions that were accepted last, by server and type.
#[derive(Debug, Default)]
pub struct Versions {
    accepted: BTreeMap<(usize, usize), Accepted>,
}

/// A version, and what it is worth.
#[derive(Debug, Default)]
struct Accepted {
    version: String,
    /// Whether the stream it came on began with a wildcard, and somebody has wanted everything since.
    is_of_everything: bool,
    /// Whether something was rejected since: what is held may be none of the server's versions.
    is_mixed: bool,
    loss: Loss,
}

/// Whether what was accepted under a version is held no longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    #[default]
    None,
    /// It cannot be seen from outside.
    Possible,
    Certain,
}

impl Versions {
    /// The version that was accepted last.
    pub fn of(&self, server: usize, kind: usize) -> String {
        self.accepted.get(&(server, kind)).map(|it| it.version.clone()).unwrap_or_default()
    }

    pub fn accept(&mut self, place: (usize, usize), version: String, is_of_everything: bool) {
        let accepted = self.accepted.entry(place).or_default();
        (accepted.version, accepted.is_of_everything) = (version, is_of_everything);
        accepted.is_mixed = false;
    }

    pub fn reject(&mut self, place: (usize, usize)) {
        self.accepted.entry(place).or_default().is_mixed = true;
    }

    /// Something of the type has gone, of these servers.
    pub fn lose(&mut self, kind: usize, loss: Loss, from: impl Fn(usize) -> bool) {
        let of_type = self.accepted.iter_mut().filter(|((_, it), _)| *it == kind);
        for (_, accepted) in of_type.filter(|((server, _), _)| from(*server)) {
            accepted.loss = accepted.loss.max(loss);
        }
    }

    /// Nobody wants everything of the type, and no server believes that anybody does.
    pub fn forget_everything(&mut self, kind: usize) {
        for (_, accepted) in self.accepted.iter_mut().filter(|((_, it), _)| *it == kind) {
            accepted.is_of_everything = false;
        }
    }

    /// A subscription begins, with this version: the last accepted one, unless it would say too much. Where
    /// nothing of it is held, that is so of any version (UN-04).
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
