//! Simulated source: atomic changes with revisions, and their whole history for the oracles.

use std::collections::BTreeMap;

use xds_core::{TypeUrl, types};

/// Resource: index of its type and number of its name.
pub(super) type SourceKey = (usize, u32);

/// Formats a resource and its state for traces.
pub(super) fn state_text(key: SourceKey, value: Option<&str>) -> String {
    let kind = types::short_name(TYPES[key.0]).unwrap_or_default();
    format!("{kind} {}: {}", name(key), value.unwrap_or("removed"))
}

/// Types of the resources.
pub(super) const TYPES: [&str; 2] = [types::CLUSTER, types::CLUSTER_LOAD_ASSIGNMENT];

/// Number of names of each type.
pub(super) const NAMES: u32 = 3;

pub(super) fn type_url(key: SourceKey) -> TypeUrl {
    TypeUrl::from(TYPES[key.0])
}

pub(super) fn name(key: SourceKey) -> String {
    format!("r{}", key.1)
}

pub(super) fn all_keys() -> impl Iterator<Item = SourceKey> {
    (0..TYPES.len()).flat_map(|kind| (0..NAMES).map(move |name| (kind, name)))
}

/// Content of a resource and the revision at which it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) text: String,
    pub(super) at: u64,
}

/// Changes of one revision. `None` is a removal.
#[derive(Clone, Debug, Default)]
pub(super) struct RevisionChanges {
    pub(super) objects: BTreeMap<SourceKey, Option<String>>,
}

/// Source with its history. Revision 0 is empty; revision `n` has the `n`th change.
#[derive(Debug, Default)]
pub(super) struct SimulatedSource {
    history: Vec<RevisionChanges>,
    /// Revision up to which changes cannot be watched any more.
    pub(super) compacted: u64,
}

impl SimulatedSource {
    pub(super) fn current(&self) -> u64 {
        self.history.len() as u64
    }

    /// Makes an atomic change. An empty one is a change of something that replicas do not read.
    pub(super) fn change(&mut self, objects: BTreeMap<SourceKey, Option<String>>) -> u64 {
        self.history.push(RevisionChanges { objects });
        self.current()
    }

    pub(super) fn at(&self, revision: u64) -> Option<&RevisionChanges> {
        self.history.get(usize::try_from(revision.checked_sub(1)?).ok()?)
    }

    /// Returns the state at a revision.
    pub(super) fn state_at(&self, revision: u64) -> BTreeMap<SourceKey, Written> {
        all_keys().filter_map(|key| Some((key, self.written(key, revision)?))).collect()
    }

    /// Returns a resource as it was at a revision.
    pub(super) fn written(&self, key: SourceKey, revision: u64) -> Option<Written> {
        let (at, content) = (1..=revision)
            .rev()
            .find_map(|at| Some((at, self.at(at)?.objects.get(&key)?.clone())))?;
        content.map(|text| Written { text, at })
    }

    /// Whether a resource was changed or removed after a revision.
    pub(super) fn is_changed_after(&self, key: SourceKey, revision: u64) -> bool {
        (revision + 1..=self.current())
            .any(|at| self.at(at).is_some_and(|it| it.objects.contains_key(&key)))
    }

    /// Returns the first revision, at or after `since`, at which a resource had this content, or
    /// did not exist.
    pub(super) fn first_with(
        &self,
        key: SourceKey,
        content: Option<&str>,
        since: u64,
    ) -> Option<u64> {
        let mut now = self.written(key, since).map(|it| it.text);
        if now.as_deref() == content {
            return Some(since);
        }
        (since + 1..=self.current()).find(|&at| {
            if let Some(changed) = self.at(at).and_then(|it| it.objects.get(&key)) {
                now.clone_from(changed);
            }
            now.as_deref() == content
        })
    }

    /// Returns the last revision, up to `newest`, at which a resource had this content, or did not
    /// exist.
    pub(super) fn last_with(
        &self,
        key: SourceKey,
        content: Option<&str>,
        newest: u64,
    ) -> Option<u64> {
        let has = |at: &u64| self.written(key, *at).map(|it| it.text).as_deref() == content;
        (0..=self.current().min(newest)).rev().find(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(contents: &[Option<&str>]) -> SimulatedSource {
        let mut source = SimulatedSource::default();
        for content in contents {
            source.change([((0, 0), content.map(String::from))].into());
        }
        source
    }

    #[test]
    fn history_is_searched_forward_for_a_content() {
        let source = source(&[Some("a"), None, Some("a"), Some("b")]);
        let find = |content, since| source.first_with((0, 0), content, since);
        assert_eq!(find(None, 0), Some(0));
        assert_eq!(find(Some("a"), 0), Some(1));
        assert_eq!(find(Some("a"), 2), Some(3));
        assert_eq!(find(None, 3), None);
        assert_eq!(find(Some("a"), 4), None);
        assert_eq!(source.last_with((0, 0), Some("a"), 9), Some(3));
        assert_eq!(source.last_with((0, 0), Some("a"), 2), Some(1));
        assert_eq!(source.written((0, 0), 2), None);
    }
}
