//! Clusters that a client was sent and may not have warmed.
//!
//! A client such as Envoy warms a new version of a cluster with the endpoints that it names, and uses
//! the version before until then.
// M151, IS17, IS18

use alloc::{collections::BTreeMap, vec::Vec};

use super::warming::WarmingFacts;
use crate::{
    server::{
        event::BlockedBy,
        store::{
            arena::{Arena, endpoint_names::EndpointNames},
            revision::Revision,
        },
    },
    text::ResourceName,
};

/// Version of a cluster that a client was sent.
#[derive(Clone, Debug)]
pub(crate) struct SentCluster {
    /// Revision at which it was set.
    pub(crate) revision: Revision,
    pub(crate) endpoints: EndpointNames,
    /// Nonce of the newest response with this version.
    pub(crate) nonce: u64,
    /// Nonce after which the endpoints have to be sent to warm the cluster. 0 if the client warms it
    /// with those that it has.
    pub(crate) warms: u64,
}

/// Clusters that a client was sent and may not have warmed, by name. Warm clusters are removed when
/// they are found, so the total cost is proportional to what was sent.
#[derive(Debug, Default)]
pub(crate) struct ColdClusters {
    newest: BTreeMap<ResourceName, SentCluster>,
    /// Versions that may be in use until the newest one is warm.
    earlier: BTreeMap<ResourceName, EarlierVersions>,
    /// Greatest nonce after which endpoints have to be sent.
    pub(crate) warms: u64,
    /// Nonce of the rejected response that was removed last.
    rejected: u64,
}

/// Versions of a cluster before the newest one that the client was sent.
#[derive(Debug, Default)]
struct EarlierVersions {
    /// Endpoints of the version in use, which may be any of these.
    in_use: Vec<EndpointNames>,
    /// Version that was replaced before it was found to be warm.
    replaced: Option<SentCluster>,
}

impl EarlierVersions {
    fn note_in_use(&mut self, endpoints: &EndpointNames) {
        if *endpoints != EndpointNames::None && !self.in_use.contains(endpoints) {
            self.in_use.push(endpoints.clone());
        }
    }
}

impl ColdClusters {
    /// Adds a version of a cluster that the client was sent. If no earlier version is known, the one in
    /// use names one of the lists in `before`. `may_have` returns whether the client may have endpoints
    /// of a list.
    pub(crate) fn add(
        &mut self,
        name: &ResourceName,
        sent: SentCluster,
        before: impl Iterator<Item = EndpointNames>,
        may_have: impl Fn(&EndpointNames) -> bool,
    ) {
        self.warms = self.warms.max(sent.warms);
        let (revision, endpoints) = (sent.revision, sent.endpoints.clone());
        let old = self.newest.insert(name.clone(), sent);
        let mut earlier = self.earlier.remove(name).unwrap_or_default();
        match old {
            Some(old) if old.revision == revision => {}
            Some(old) => {
                earlier.note_in_use(&old.endpoints);
                earlier.replaced = Some(old);
            }
            None if earlier.in_use.is_empty() => earlier.in_use.extend(before),
            None => {}
        }
        earlier.in_use.retain(|it| *it != endpoints && may_have(it));
        if !earlier.in_use.is_empty() || earlier.replaced.is_some() {
            self.earlier.insert(name.clone(), earlier);
        }
    }

    pub(crate) fn get(&self, name: &ResourceName) -> Option<&SentCluster> {
        self.newest.get(name)
    }

    /// Whether no cluster is left, and none of those removed waits for endpoints after the response with
    /// the nonce `endpoints`, which is the last one with endpoints that the client accepted.
    pub(crate) fn are_warm(&self, endpoints: u64) -> bool {
        self.newest.is_empty() && self.earlier.is_empty() && self.warms <= endpoints
    }

    fn remove(&mut self, name: &ResourceName) {
        self.newest.remove(name);
        self.earlier.remove(name);
    }

    /// Removes the versions of a rejected response.
    pub(crate) fn reject(&mut self, nonce: u64) {
        if core::mem::replace(&mut self.rejected, nonce) == nonce {
            return;
        }
        let earlier = &mut self.earlier;
        self.newest.retain(|name, newest| {
            if newest.nonce != nonce {
                return true;
            }
            // The client may use a valid version of the response, and then needs its endpoints.
            let versions = earlier.entry(name.clone()).or_default();
            versions.note_in_use(&newest.endpoints);
            versions.replaced.take().map(|it| *newest = it).is_some()
        });
        self.earlier.retain(|_, it| !it.in_use.is_empty() || it.replaced.is_some());
        self.warms = self.newest.values().map(|it| it.warms).max().unwrap_or_default();
    }

    /// Keeps the clusters of a client that was moved to another view, of those that this view shows
    /// in the version that the client was sent. Endpoints sent after `warm` are not accepted.
    pub(crate) fn move_to<'a>(
        &mut self,
        shown: impl Iterator<Item = (&'a ResourceName, Revision, &'a EndpointNames)>,
        warm: u64,
    ) {
        let mut before = core::mem::take(self);
        for (name, revision, endpoints) in shown {
            let old = before.newest.remove(name);
            let nonce = old.as_ref().map_or(0, |it| it.nonce);
            let warms = old.map_or(0, |it| it.warms);
            let warms = if warms > warm { warms } else { 0 };
            self.warms = self.warms.max(warms);
            let sent = SentCluster { revision, endpoints: endpoints.clone(), nonce, warms };
            self.newest.insert(name.clone(), sent);
            if let Some(earlier) = before.earlier.remove(name) {
                self.earlier.insert(name.clone(), earlier);
            }
        }
    }

    /// Removes clusters that are gone once they are the majority, which makes the cost proportional
    /// to the additions.
    pub(crate) fn sweep(&mut self, arena: &Arena) {
        let limit = (arena.existing() + arena.tombstones()).saturating_mul(2);
        if self.newest.len() > limit {
            self.newest.retain(|name, _| arena.find(name.as_str()).is_some());
        }
        if self.earlier.len() > limit {
            self.earlier.retain(|name, _| arena.find(name.as_str()).is_some());
        }
    }

    /// Removes the clusters with endpoints that the client has not requested.
    pub(crate) fn remove_unrequested(&mut self, facts: &WarmingFacts<'_>) {
        let earlier = &mut self.earlier;
        self.newest.retain(|name, sent| {
            let is_requested = sent.endpoints.names(name).iter().all(|it| facts.is_requested(it));
            if !is_requested {
                earlier.remove(name);
            }
            is_requested
        });
    }

    /// Returns the reason for which the first cold cluster is cold.
    pub(crate) fn first_cold(&mut self, facts: &WarmingFacts<'_>) -> Option<BlockedBy> {
        let (mut found, mut warm) = (None, Vec::new());
        for (name, sent) in &self.newest {
            found = cold_because(name, sent, self.earlier.get(name), facts);
            if found.is_some() {
                break;
            }
            if !facts.is_unanswered(sent) && !facts.may_return(name) {
                warm.push(name.clone());
            }
        }
        warm.iter().for_each(|name| self.remove(name));
        found
    }

    /// Returns the reason for which the first cluster that may use removed endpoints until its newest
    /// version is warm does so.
    pub(crate) fn first_using_removed(&mut self, facts: &WarmingFacts<'_>) -> Option<BlockedBy> {
        let (newest, mut found) = (&mut self.newest, None);
        self.earlier.retain(|name, earlier| {
            let uses = |names: &EndpointNames| names.may_be_any(name, |it| facts.has_removed(it));
            if found.is_some() || !earlier.in_use.iter().any(uses) {
                return true;
            }
            let sent = newest.get(name);
            found = match sent {
                Some(sent) => cold_because(name, sent, Some(earlier), facts),
                // The client rejected it, and uses the version before while it has the cluster.
                None => facts.may_have_cluster(name).then_some(BlockedBy::Rejected),
            };
            let is_kept = found.is_some()
                || facts.may_return(name)
                || sent.is_some_and(|sent| facts.is_unanswered(sent));
            if !is_kept {
                newest.remove(name);
            }
            is_kept
        });
        found
    }
}

/// Reason for which a cluster is cold. The client may reject an unanswered version, and then still
/// has to warm the one before.
fn cold_because(
    name: &ResourceName,
    sent: &SentCluster,
    earlier: Option<&EarlierVersions>,
    facts: &WarmingFacts<'_>,
) -> Option<BlockedBy> {
    let replaced = earlier.and_then(|it| it.replaced.as_ref());
    let replaced = replaced.filter(|_| facts.is_unanswered(sent));
    facts.cold_because(name, sent).or_else(|| facts.cold_because(name, replaced?))
}
