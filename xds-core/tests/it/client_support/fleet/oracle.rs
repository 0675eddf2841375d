//! Expected cache after one valid response, computed from the cache before it.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use proptest::{prelude::*, test_runner::TestCaseError};
use xds_core::{
    Client,
    client::{DataErrorPolicy, ResourceState, WatchErrorKind},
    service::Variant,
};

use super::super::TYPES;

/// Cached state of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    pub state: ResourceState,
    pub bytes: Option<Bytes>,
    pub version: String,
    pub error: Option<WatchErrorKind>,
    /// Server that caused the error.
    pub error_from: Option<String>,
}

impl Known {
    /// The parts of the state that watchers are notified of. A watcher that was told of an error is
    /// not told of it again if only the state changes, as from not received in time to reported by
    /// the server.
    // IC16
    pub fn news(&self) -> (Option<ResourceState>, Option<Bytes>, Option<WatchErrorKind>) {
        let state = self.error.is_none().then_some(self.state);
        (state, self.bytes.clone(), self.error.clone())
    }
}

/// Every watched resource by type and name.
pub type Statuses = BTreeMap<(usize, String), Known>;

pub fn statuses(client: &Client) -> Statuses {
    let known = client.status().map(|it| {
        let kind = TYPES.iter().position(|known| *it.type_url == **known).unwrap_or_default();
        let known = Known {
            state: it.state,
            bytes: it.bytes.cloned(),
            version: it.version.to_string(),
            error: it.error.map(|error| error.kind().clone()),
            error_from: it.error.map(|error| error.server().to_owned()),
        };
        ((kind, it.name.to_string()), known)
    });
    known.collect()
}

/// Content of a response for one name.
#[derive(Clone, Debug)]
pub enum EntryContent {
    Resource {
        bytes: Bytes,
        /// The version that watchers get with the resource.
        version: String,
        is_acceptable: bool,
        /// Version and TTL in the wrapper.
        lease: Option<(u64, Duration)>,
    },
    /// A heartbeat without content. `is_in_use`: whether it is for the cached version.
    Heartbeat { is_in_use: bool, ttl: Duration },
    /// An error with this code.
    Report(i32),
    /// Incremental: a removed resource.
    Removed,
}

/// Content of a response.
#[derive(Clone, Debug)]
pub struct ResponseContent {
    pub kind: usize,
    pub variant: Variant,
    pub words: BTreeMap<String, EntryContent>,
}

impl ResponseContent {
    /// Whether the response must be rejected. A heartbeat is valid only for the cached version.
    // D22
    pub fn is_faulty(&self) -> bool {
        self.words.values().any(|word| match word {
            EntryContent::Resource { is_acceptable, .. } => !is_acceptable,
            EntryContent::Heartbeat { is_in_use, .. } => !is_in_use,
            EntryContent::Report(_) | EntryContent::Removed => false,
        })
    }

    /// Whether the response should be the complete state of its type but consists of heartbeats: it
    /// does not define what its version covers, and absence from it is not significant.
    // B09 DX-38 IC21
    pub fn is_renewal(&self) -> bool {
        let has = |is: fn(&EntryContent) -> bool| self.words.values().any(is);
        self.should_be_complete()
            && has(|it| matches!(it, EntryContent::Heartbeat { .. }))
            && !has(|it| matches!(it, EntryContent::Resource { .. }))
    }

    fn should_be_complete(&self) -> bool {
        self.variant == Variant::StateOfTheWorld && self.kind == 0
    }

    /// Expected cache entry of a name that the response of a server covers.
    pub fn expected(
        &self,
        server: &str,
        name: &str,
        before: Option<&Known>,
        policy: DataErrorPolicy,
    ) -> Expected {
        let had = before.and_then(|known| known.bytes.clone());
        let kept = |is_dropped: bool| had.clone().filter(|_| !is_dropped);
        let drops = policy == DataErrorPolicy::DropCached;
        match self.words.get(name) {
            // Valid resources are used even if others in the response are invalid (IC18).
            Some(EntryContent::Resource { bytes, version, is_acceptable: true, .. }) => {
                Expected::Is {
                    state: ResourceState::Acked,
                    bytes: Some(bytes.clone()),
                    version: Some(version.clone()),
                }
            }
            Some(EntryContent::Heartbeat { is_in_use: true, .. }) => Expected::Unchanged,
            // An invalid resource leaves the last valid one in use, if there is one (IC20).
            Some(EntryContent::Resource { .. } | EntryContent::Heartbeat { .. }) => {
                Expected::Is { state: ResourceState::Nacked, bytes: kept(drops), version: None }
            }
            // Only these reported errors are about the resource (IC31).
            Some(EntryContent::Report(code)) => Expected::Is {
                state: ResourceState::ReceivedError,
                bytes: kept(drops && matches!(code, 5 | 7)),
                version: None,
            },
            // A removal takes effect even in a rejected response (IC19, IC23).
            Some(EntryContent::Removed) => Expected::Is {
                state: ResourceState::DoesNotExist,
                bytes: kept(drops),
                version: None,
            },
            None if self.deletes_by_absence(server, before) => Expected::Is {
                state: ResourceState::DoesNotExist,
                bytes: kept(drops),
                version: None,
            },
            None => Expected::Unchanged,
        }
    }

    /// Whether the name's absence deletes it: only in a complete response, and only if it was
    /// received. An error that the same server has reported stays until the resource or another error
    /// follows.
    // IC21 IC22 IC31
    fn deletes_by_absence(&self, server: &str, before: Option<&Known>) -> bool {
        self.should_be_complete()
            && !self.is_renewal()
            && before.is_some_and(|known| {
                let was_received = known.bytes.is_some() || known.state == ResourceState::Nacked;
                let is_reported = known.state == ResourceState::ReceivedError
                    && known.error_from.as_deref() == Some(server);
                was_received && !is_reported
            })
    }
}

/// Expected cache entry of a name after a response.
#[derive(Debug)]
pub enum Expected {
    Unchanged,
    Is { state: ResourceState, bytes: Option<Bytes>, version: Option<String> },
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
                prop_assert_eq!(after.error.is_none(), *state == ResourceState::Acked, "{}", name);
            }
            // A resource covered only by a wildcard is forgotten when it has no value.
            None => prop_assert!(bytes.is_none(), "{} is lost, which was {:?}", name, before),
        }
        Ok(())
    }
}
