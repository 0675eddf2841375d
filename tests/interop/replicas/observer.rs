//! State that one client has seen, and the rules for it.
//!
//! Every resource contains the text `count-N`. Each change of the source is one transaction with a
//! greater `N`: it writes `N` into every resource that it changes, among them all with names in
//! [`TICKS`]. A name with a number in it, such as `blue-7`, is used by one change only.

use std::collections::{BTreeMap, BTreeSet};

/// Resources that every change writes.
const TICKS: [&str; 2] = ["routes", "tick"];
/// Beginning of the names of resources that no change removes.
const PERMANENT: &str = "counter-";
/// Text before the number of the change.
const MARK: &[u8] = b"count-";

/// Kind and name of a resource.
type Key = (&'static str, String);

/// State and history of one client.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    /// Number of resources that arrived or were removed.
    pub(crate) observations: u64,
    /// Number of restarts.
    pub(crate) restarts: u64,
    /// Number of resources that did not arrive within the time that clients wait for them.
    pub(crate) timeouts: u64,
    /// Descriptions of all violations.
    pub(crate) violations: Vec<String>,
    /// Resources that the client has.
    present: BTreeMap<Key, u64>,
    /// Newest count and revision ever seen of each resource.
    newest: BTreeMap<Key, Newest>,
    /// Resources that the client has seen, and later a state without them.
    gone: BTreeSet<Key>,
    /// Greatest count of any resource before the last restart.
    before_restart: u64,
}

#[derive(Clone, Copy, Debug)]
struct Newest {
    count: u64,
    revision: u64,
}

impl Observer {
    /// Notes that a resource has arrived.
    pub(crate) fn applied(&mut self, kind: &'static str, name: &str, version: &str, bytes: &[u8]) {
        self.observations += 1;
        let key = (kind, name.to_owned());
        let (Some(count), Some(revision)) = (count_in(bytes), revision_of(version)) else {
            return self.violate(format!(
                "{kind} {name} at version {version:?} has no count, or its version no revision"
            ));
        };
        if let Some(&Newest { count: newest, revision: known }) = self.newest.get(&key) {
            if count < newest {
                self.violate(format!("{kind} {name} has count {count}, after {newest}"));
            } else if count > newest && revision <= known {
                self.violate(format!(
                    "{kind} {name} has count {count} after {newest}, but revision {revision} after \
                     {known}"
                ));
            } else if self.gone.contains(&key) && count == newest {
                self.violate(format!("{kind} {name} with count {count} is back after its removal"));
            }
        }
        if TICKS.contains(&name) && count < self.before_restart {
            let before = self.before_restart;
            self.violate(format!(
                "{kind} {name} has count {count}, and before its restart the client saw {before}"
            ));
        }
        self.gone.remove(&key);
        self.present.insert(key.clone(), count);
        self.newest.insert(key, Newest { count, revision });
    }

    /// Notes that a resource was removed, or that a client without it has waited too long.
    pub(crate) fn removed(&mut self, kind: &'static str, name: &str, reason: &str) {
        self.observations += 1;
        let key = (kind, name.to_owned());
        if self.present.remove(&key).is_none() {
            self.timeouts += 1;
            return;
        }
        if name.starts_with(PERMANENT) || TICKS.contains(&name) {
            self.violate(format!("{kind} {name} was removed: {reason}"));
        }
        self.gone.insert(key);
    }

    /// Notes that all resources of a kind that exist have arrived.
    pub(crate) fn synced(&mut self, kind: &'static str) {
        let absent =
            self.newest.keys().filter(|key| key.0 == kind && !self.present.contains_key(*key));
        let absent: Vec<_> = absent.cloned().collect();
        for key in absent {
            if key.1.starts_with(PERMANENT) {
                self.violate(format!("{kind} {} is missing after a restart", key.1));
            }
            self.gone.insert(key);
        }
    }

    /// Notes that the client starts again, without resources.
    pub(crate) fn restart(&mut self) {
        self.restarts += 1;
        self.before_restart = self.newest.values().map(|it| it.count).max().unwrap_or_default();
        self.present.clear();
    }

    /// Returns the resources that the client has as text, such as `cluster tick=7`.
    pub(crate) fn state(&self) -> String {
        let resources = self.present.iter();
        let lines: Vec<_> =
            resources.map(|((kind, name), count)| format!("{kind} {name}={count}")).collect();
        lines.join(", ")
    }

    fn violate(&mut self, what: String) {
        self.violations.push(what);
    }
}

/// Returns the count in the content of a resource.
fn count_in(bytes: &[u8]) -> Option<u64> {
    let at = bytes.windows(MARK.len()).position(|window| window == MARK)?;
    let digits = bytes.get(at + MARK.len()..)?.iter().take_while(|byte| byte.is_ascii_digit());
    let digits: Vec<_> = digits.copied().collect();
    core::str::from_utf8(&digits).ok()?.parse().ok()
}

/// Returns the revision in a version of the form `REVISION-HASH`.
fn revision_of(version: &str) -> Option<u64> {
    version.split_once('-')?.0.parse().ok()
}
