//! What listeners and clusters refer to, watched where they say that it comes from.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;
use xds_bootstrap::envoy::{ConfigSource, NestedSource};
use xds_core::{ResourceName, TypeUrl};
use xds_tokio::{Watch, client::Sources};

use crate::args::Subscription;

/// The references of all resources that are followed.
#[derive(Debug)]
pub(super) struct Following {
    sources: Sources,
    /// By type and name of the resource that refers.
    owners: BTreeMap<(TypeUrl, String), Vec<NestedSource>>,
    /// By type and name of what is referred to: the sources it comes from, and how many resources refer to it there.
    counts: BTreeMap<(TypeUrl, String), Vec<(ConfigSource, usize)>>,
}

/// What to watch from now on, and what no more.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) started: Vec<(NestedSource, Result<Watch, String>)>,
    pub(super) ended: Vec<NestedSource>,
    /// The references of the resource cannot be read.
    pub(super) problem: Option<String>,
}

impl Following {
    pub(super) fn new(sources: Sources) -> Self {
        Self { sources, owners: BTreeMap::new(), counts: BTreeMap::new() }
    }

    /// Whether there are references in resources of a type.
    pub(super) fn follows(type_url: &TypeUrl) -> bool {
        use xds_core::types::{CLUSTER, LISTENER};
        [CLUSTER, LISTENER].contains(&type_url.as_str())
    }

    /// A resource has changed; without a value it is gone. References that cannot be read leave those that it had.
    pub(super) fn update(
        &mut self,
        type_url: &TypeUrl,
        name: &str,
        value: Option<&Json>,
    ) -> Change {
        let mut change = Change::default();
        let references = value.map(|json| NestedSource::in_resource(type_url.as_str(), json));
        let new = match references.transpose() {
            Ok(references) => references.unwrap_or_default(),
            Err(why) => {
                change.problem = Some(why.to_string());
                return change;
            }
        };
        let owner = (type_url.clone(), name.to_owned());
        let old = self.owners.remove(&owner).unwrap_or_default();
        for reference in &new {
            if self.count(reference) {
                let client = self.sources.client_of(reference).map_err(|why| why.to_string());
                let watch = client.map(|client| {
                    client.watch_untyped(reference.type_url.clone(), reference.name.as_str())
                });
                change.started.push((reference.clone(), watch));
            }
        }
        for reference in old {
            if self.uncount(&reference) {
                change.ended.push(reference);
            }
        }
        if !new.is_empty() {
            self.owners.insert(owner, new);
        }
        for reference in &change.ended {
            let shares = |(type_url, _): &(TypeUrl, String), sources: &[(ConfigSource, usize)]| {
                *type_url == reference.type_url
                    && sources.iter().any(|(source, _)| *source == reference.source)
            };
            if !self.counts.iter().any(|(key, sources)| shares(key, sources)) {
                self.sources.release(reference);
            }
        }
        change
    }

    /// Returns whether nothing referred to it before.
    fn count(&mut self, reference: &NestedSource) -> bool {
        let key = (reference.type_url.clone(), reference.name.clone());
        let sources = self.counts.entry(key).or_default();
        match sources.iter_mut().find(|(source, _)| *source == reference.source) {
            Some((_, count)) => {
                *count += 1;
                false
            }
            None => {
                sources.push((reference.source.clone(), 1));
                true
            }
        }
    }

    /// Returns whether nothing refers to it any more.
    fn uncount(&mut self, reference: &NestedSource) -> bool {
        let key = (reference.type_url.clone(), reference.name.clone());
        let Some(sources) = self.counts.get_mut(&key) else { return false };
        let Some(at) = sources.iter().position(|(source, _)| *source == reference.source) else {
            return false;
        };
        sources[at].1 -= 1;
        let is_over = sources[at].1 == 0;
        if is_over {
            sources.remove(at);
        }
        if sources.is_empty() {
            self.counts.remove(&key);
        }
        is_over
    }

    pub(super) fn shut_down(&self) {
        self.sources.shut_down();
    }
}

/// What is subscribed to for a reference.
pub(super) fn subscription(reference: &NestedSource) -> Subscription {
    let name = Some(ResourceName::from(reference.name.as_str()));
    Subscription { type_url: reference.type_url.clone(), name }
}

/// The types that resources of these refer to.
pub(super) fn types_behind(subscriptions: &BTreeSet<Subscription>) -> Vec<TypeUrl> {
    use xds_core::types::{CLUSTER_LOAD_ASSIGNMENT, ROUTE_CONFIGURATION, SECRET};
    let all = [CLUSTER_LOAD_ASSIGNMENT, ROUTE_CONFIGURATION, SECRET];
    match subscriptions.iter().any(|it| Following::follows(&it.type_url)) {
        true => all.map(TypeUrl::from).to_vec(),
        false => Vec::new(),
    }
}
