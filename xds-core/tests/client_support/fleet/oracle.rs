//! What one response of a server that keeps to the protocol makes of what is held: the rules of
//! acceptance, word for word, against the cache before and after.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use proptest::{prelude::*, test_runner::TestCaseError};
use xds_core::{
    Client,
    client::{DataErrorPolicy, EntryState, WatchErrorKind},
    service::Variant,
};

use super::super::TYPES;

/// What the cache has of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    pub state: EntryState,
    pub bytes: Option<Bytes>,
    pub version: String,
    pub error: Option<WatchErrorKind>,
}

impl Known {
    /// What watchers hear of.
    pub fn news(&self) -> (EntryState, Option<Bytes>, Option<WatchErrorKind>) {
        (self.state, self.bytes.clone(), self.error.clone())
    }
}

/// Everything that is watched, by type and name.
pub type Statuses = BTreeMap<(usize, String), Known>;

pub fn statuses(client: &Client) -> Statuses {
    let known = client.status().map(|it| {
        let kind = TYPES.iter().position(|known| *it.type_url == **known).unwrap_or_default();
        let known = Known {
            state: it.state,
            bytes: it.bytes.cloned(),
            version: it.version.to_string(),
            error: it.error.map(|error| error.kind().clone()),
        };
        ((kind, it.name.to_string()), known)
    });
    known.collect()
}

/// What a response says of one name.
#[derive(Clone, Debug)]
pub enum Word {
    Resource {
        bytes: Bytes,
        /// That which watchers get with it.
        version: String,
        is_acceptable: bool,
        /// The version that the wrapper states, and the TTL.
        lease: Option<(u64, Duration)>,
    },
    /// No content; whether it is for the version in use.
    Heartbeat { is_in_use: bool, ttl: Duration },
    /// The server reports an error with this code.
    Report(i32),
    /// Incremental: it does not exist.
    Removed,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Said {
    pub kind: usize,
    pub variant: Variant,
    pub words: BTreeMap<String, Word>,
}

impl Said {
    /// Whether the response is to be rejected. A heartbeat is only good for what is in use (D22).
    pub fn is_faulty(&self) -> bool {
        self.words.values().any(|word| match word {
            Word::Resource { is_acceptable, .. } => !is_acceptable,
            Word::Heartbeat { is_in_use, .. } => !is_in_use,
            Word::Report(_) | Word::Removed => false,
        })
    }

    /// What must be held of a name that the response is asked to speak of.
    pub fn expected(
        &self,
        name: &str,
        before: Option<&Known>,
        policy: DataErrorPolicy,
    ) -> Expected {
        let had = before.and_then(|known| known.bytes.clone());
        let kept = |is_dropped: bool| had.clone().filter(|_| !is_dropped);
        let drops = policy == DataErrorPolicy::DropCached;
        match self.words.get(name) {
            // The good are used, whatever comes beside them (IC18).
            Some(Word::Resource { bytes, version, is_acceptable: true, .. }) => Expected::Is {
                state: EntryState::Acked,
                bytes: Some(bytes.clone()),
                version: Some(version.clone()),
            },
            Some(Word::Heartbeat { is_in_use: true, .. }) => Expected::Unchanged,
            // The bad leave the last good one in use, or none (IC20).
            Some(Word::Resource { .. } | Word::Heartbeat { .. }) => {
                Expected::Is { state: EntryState::Nacked, bytes: kept(drops), version: None }
            }
            // Of what a server may report, only these are about the resource (IC31).
            Some(Word::Report(code)) => Expected::Is {
                state: EntryState::ReceivedError,
                bytes: kept(drops && matches!(code, 5 | 7)),
                version: None,
            },
            // The removal counts in a rejected response as well (IC19, IC23).
            Some(Word::Removed) => {
                Expected::Is { state: EntryState::DoesNotExist, bytes: kept(drops), version: None }
            }
            None if self.deletes_by_absence(before) => {
                Expected::Is { state: EntryState::DoesNotExist, bytes: kept(drops), version: None }
            }
            None => Expected::Unchanged,
        }
    }

    /// Only a complete response deletes what it leaves out (IC22), and only what was received (IC21). A
    /// reported error stands until something else is said (IC31).
    fn deletes_by_absence(&self, before: Option<&Known>) -> bool {
        let is_complete = self.variant == Variant::StateOfTheWorld && self.kind == 0;
        is_complete
            && before.is_some_and(|known| {
                let was_received = known.bytes.is_some() || known.state == EntryState::Nacked;
                was_received && known.state != EntryState::ReceivedError
            })
    }
}

/// What must be held of a name after a response.
#[derive(Debug)]
pub enum Expected {
    Unchanged,
    Is { state: EntryState, bytes: Option<Bytes>, version: Option<String> },
}

impl Expected {
    pub fn compare(
        &self,
        name: &str,
        before: Option<&Known>,
        after: Option<&Known>,
    ) -> Result<(), TestCaseError> {
        let (state, bytes) = match self {
            Self::Unchanged => {
                prop_assert_eq!(before, after, "{} is not spoken of (IC13, IC21, IC22)", name);
                return Ok(());
            }
            Self::Is { state, bytes, version } => {
                if let Some((version, after)) = version.as_ref().zip(after) {
                    prop_assert_eq!(version, &after.version, "the version of {}", name);
                }
                (state, bytes)
            }
        };
        match after {
            Some(after) => {
                let is = (after.state, after.bytes.as_ref());
                let ids = "IC18 to IC21, IC23, IC31";
                prop_assert_eq!(
                    is,
                    (*state, bytes.as_ref()),
                    "{} after {:?} ({})",
                    name,
                    before,
                    ids
                );
                prop_assert_eq!(after.error.is_none(), *state == EntryState::Acked, "{}", name);
            }
            // What only a wildcard covers is forgotten once there is nothing of it.
            None => prop_assert!(bytes.is_none(), "{} is lost, which was {:?}", name, before),
        }
        Ok(())
    }
}
