//! Changes that are refused although each file is valid.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use xds_core::guards::{ChangeId, Guards, RefusedChange, Violation};
use xds_source::Revision;

use crate::args::SourceAddress;

/// Change of the source that guards refuse.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) change: RefusedChange,
    /// Objects that the change concerns, sorted.
    pub(crate) objects: Vec<PathBuf>,
    /// Revision of the source, if it has any that other servers share.
    pub(crate) revision: Option<Revision>,
    /// Changes that the source states as forced.
    pub(crate) stated: StatedIds,
}

/// Words with which a source states that changes are forced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatedIds {
    pub(crate) ids: BTreeSet<ChangeId>,
    /// Words that are not the id of a change.
    pub(crate) invalid: BTreeSet<String>,
}

impl<'w> FromIterator<&'w str> for StatedIds {
    fn from_iter<I: IntoIterator<Item = &'w str>>(words: I) -> Self {
        let mut stated = Self::default();
        for word in words {
            match word.parse() {
                Ok(id) => stated.ids.insert(id),
                Err(_) => stated.invalid.insert(word.to_owned()),
            };
        }
        stated
    }
}

impl Refused {
    /// Whether this is the same change, and nobody has tried to force another one. The revision may
    /// have advanced without a change of the resources.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.change == other.change && self.stated == other.stated
    }

    /// Describes how the change can be served nevertheless.
    pub(crate) fn remedy(&self, source: &SourceAddress) -> String {
        let force = source.force(self.change.id);
        match self.stated.ids.contains(&self.change.id) {
            // An id that stays in the source does not force the change a second time.
            true => format!(
                "to serve it nevertheless: remove its id, which was used before, and add it again \
                 after a second: {force}"
            ),
            false => format!("to serve it nevertheless: {force}"),
        }
    }

    /// Number of references that would be dangling.
    pub(crate) fn dangling(&self) -> usize {
        let violations = self.change.violations.iter();
        let dangling = violations.map(|it| match &it.violation {
            Violation::Dangling(found) => found.len(),
            _ => 0,
        });
        dangling.sum()
    }
}

/// Guards, and what they have decided.
#[derive(Debug, Default)]
pub(super) struct GuardState {
    pub(super) guards: Arc<Guards>,
    /// Refused change that has been reported.
    pub(super) reported: Option<Refused>,
    /// Refused change that is served next, because it is forced.
    pub(super) forcing: Option<RefusedChange>,
    /// Forced changes that have been served. They are not served a second time unless they are stated
    /// anew.
    pub(super) used: BTreeSet<ChangeId>,
}

impl GuardState {
    pub(super) fn new(guards: Guards) -> Self {
        Self { guards: guards.into(), ..Self::default() }
    }

    /// Notes that the change was served. Returns it if it was forced.
    pub(super) fn served(&mut self) -> Option<RefusedChange> {
        let forced = self.forcing.take()?;
        self.used.insert(forced.id);
        Some(forced)
    }
}
