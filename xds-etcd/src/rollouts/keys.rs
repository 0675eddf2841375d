//! Names of the keys of rollouts, and their values.

use xds_core::rollout::{RolloutId, RolloutState};
use xds_source::SourceError;

use crate::{layout::Layout, proto::mvccpb::KeyValue, range::KeyRange};

/// Names of the keys of rollouts.
#[derive(Clone, Debug)]
pub(super) struct RolloutKeys {
    /// Prefix with a slash at its end.
    prefix: String,
}

impl RolloutKeys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: Layout::new(prefix).rollout() }
    }

    pub(super) fn state(&self) -> String {
        format!("{}state", self.prefix)
    }

    pub(super) fn writer(&self) -> String {
        format!("{}writer", self.prefix)
    }

    pub(super) fn all_contents(&self) -> String {
        format!("{}contents/", self.prefix)
    }

    pub(super) fn contents(&self, id: RolloutId) -> String {
        format!("{}{:020}", self.all_contents(), id.0)
    }

    pub(super) fn all_parts(&self) -> String {
        format!("{}parts/", self.prefix)
    }

    /// Returns the prefix of the parts of a rollout.
    pub(super) fn parts(&self, id: RolloutId) -> String {
        format!("{}{:020}/", self.all_parts(), id.0)
    }

    /// Returns the prefix of the parts of a rollout that a server has written.
    pub(super) fn parts_of(&self, id: RolloutId, writer: &str) -> String {
        format!("{}{writer}/", self.parts(id))
    }

    pub(super) fn part(&self, id: RolloutId, writer: &str, number: usize) -> String {
        format!("{}{number:06}", self.parts_of(id, writer))
    }

    /// Returns the id of the rollout in the key of a manifest or a part.
    pub(super) fn id_of(&self, key: &str) -> Option<RolloutId> {
        let rest = key.strip_prefix(&self.prefix)?;
        let number = rest.strip_prefix("contents/").or_else(|| rest.strip_prefix("parts/"))?;
        Some(RolloutId(number.split('/').next()?.parse().ok()?))
    }

    pub(super) fn all_history(&self) -> String {
        format!("{}history/", self.prefix)
    }

    pub(super) fn history(&self, id: RolloutId) -> String {
        format!("{}{:020}", self.all_history(), id.0)
    }

    pub(super) fn all_progress(&self) -> String {
        format!("{}progress/", self.prefix)
    }

    pub(super) fn progress(&self, name: &str) -> String {
        format!("{}{name}", self.all_progress())
    }

    fn all_replicas(&self) -> String {
        format!("{}replicas/", self.prefix)
    }

    pub(super) fn replica(&self, name: &str) -> String {
        format!("{}{name}", self.all_replicas())
    }

    /// Returns the name of the server whose key this is.
    pub(super) fn replica_of<'k>(&self, key: &'k [u8]) -> Option<&'k str> {
        core::str::from_utf8(key).ok()?.strip_prefix(&self.all_replicas())
    }

    /// Range of the replicas and the state.
    pub(super) fn news(&self) -> KeyRange {
        let state = KeyRange::of_prefix(&self.state());
        KeyRange { first: self.all_replicas().into(), end: state.end }
    }

    pub(super) fn parse_state(&self, kv: &KeyValue) -> Result<RolloutState, SourceError> {
        let text = String::from_utf8_lossy(&kv.value);
        text.parse().map_err(|why| SourceError::Failed(format!("{}: {why}", self.state())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_the_keys_of_contents_and_parts() {
        let keys = RolloutKeys::new("/xds/");
        let id = RolloutId(17);
        assert_eq!(keys.contents(id), "/xds/@rollout/contents/00000000000000000017");
        for key in [keys.contents(id), keys.part(id, "a", 3)] {
            assert_eq!(keys.id_of(&key), Some(id), "{key}");
        }
        assert_eq!(keys.id_of(&keys.state()), None);
    }

    #[test]
    fn news_are_the_replicas_and_the_state() {
        let keys = RolloutKeys::new("/xds");
        let range = keys.news();
        let has = |key: String| range.first <= key.as_bytes() && range.end > key.as_bytes();
        assert!(has(keys.state()) && has(keys.replica("a")));
        let id = RolloutId(1);
        for key in [keys.writer(), keys.contents(id), keys.part(id, "a", 0), keys.history(id)] {
            assert!(!has(key.clone()), "{key}");
        }
        assert!(!has(keys.progress("a")));
        assert_eq!(keys.replica_of(keys.replica("a-1").as_bytes()), Some("a-1"));
    }
}
