//! References of listeners, scoped routes and clusters, watched at the config source
//! that each names.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;
use xds_bootstrap::envoy::NestedSource;
use xds_core::{ResourceName, TypeUrl, types};
use xds_tokio::{
    ClientHandle,
    client::{SourceError, Sources},
};

use crate::args::Subscription;

/// References of all followed resources.
#[derive(Debug)]
pub(super) struct Following {
    sources: Sources,
    references: BTreeMap<Id, CountedReference>,
    /// References by type and name of their target, with any config source.
    by_name: BTreeMap<(TypeUrl, Option<String>), Vec<Id>>,
    owners: BTreeMap<Owner, Vec<Id>>,
    /// References that wait because the maximum number of sources is in use.
    waiting: BTreeSet<Id>,
    next: Id,
}

/// Identifier of a reference, in the order of creation. Several resources may share one reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id(u64);

#[derive(Debug)]
struct CountedReference {
    nested: NestedSource,
    /// Number of resources with this reference.
    count: usize,
}

/// Referring resource: the reference through which it is watched, its type and its name.
type Owner = (Option<Id>, TypeUrl, String);

/// References to watch and to unwatch.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) started: Vec<Started>,
    pub(super) ended: Vec<Id>,
    /// Error if the references of the resource cannot be read.
    pub(super) problem: Option<String>,
}

#[derive(Debug)]
pub(super) struct Started {
    pub(super) id: Id,
    pub(super) subscription: Subscription,
    /// Client to watch with, or the reason why there is none. A later change may contain a client.
    pub(super) client: Result<ClientHandle, String>,
}

impl Following {
    pub(super) fn new(sources: Sources) -> Self {
        Self {
            sources,
            references: BTreeMap::new(),
            by_name: BTreeMap::new(),
            owners: BTreeMap::new(),
            waiting: BTreeSet::new(),
            next: Id::default(),
        }
    }

    /// Whether resources of a type contain references to follow.
    pub(super) fn follows(type_url: &TypeUrl) -> bool {
        use types::{CLUSTER, LISTENER, SCOPED_ROUTE_CONFIGURATION};
        [CLUSTER, LISTENER, SCOPED_ROUTE_CONFIGURATION].contains(&type_url.as_str())
    }

    /// Processes a changed resource, or a removed one if `value` is `None`. If the references
    /// cannot be read, the old ones are kept.
    pub(super) fn update(
        &mut self,
        via: Option<Id>,
        type_url: &TypeUrl,
        name: &str,
        value: Option<&Json>,
    ) -> Change {
        let mut change = Change::default();
        let through = via.and_then(|id| self.references.get(&id)).map(|it| &it.nested);
        let read = |json| self.sources.references(through, type_url.as_str(), name, json);
        let new = match value.map(read).transpose() {
            Ok(references) => references.unwrap_or_default(),
            Err(why) => {
                change.problem = Some(why.to_string());
                return change;
            }
        };
        let new: Vec<Id> = new.into_iter().map(|nested| self.add(nested, &mut change)).collect();
        self.replace((via, type_url.clone(), name.to_owned()), new.clone(), &mut change);
        if !change.ended.is_empty() {
            self.start_waiting(&mut change);
        }
        for id in new.into_iter().filter(|id| self.waiting.contains(id)) {
            let client = Err(SourceError::TooMany.to_string());
            change.started.extend(self.started(id, client));
        }
        change
    }

    /// Counts a resource for a reference. A new reference is started.
    fn add(&mut self, nested: NestedSource, change: &mut Change) -> Id {
        let same_name = self.by_name.entry(key(&nested)).or_default();
        let references = &mut self.references;
        let known = same_name
            .iter()
            .find(|&id| references.get(id).is_some_and(|known| known.nested == nested));
        if let Some(&id) = known {
            references.entry(id).and_modify(|known| known.count += 1);
            return id;
        }
        let id = self.next;
        self.next = Id(id.0 + 1);
        same_name.push(id);
        references.insert(id, CountedReference { nested, count: 1 });
        self.start(id, change);
        id
    }

    fn start(&mut self, id: Id, change: &mut Change) {
        let Some(CountedReference { nested, .. }) = self.references.get(&id) else { return };
        let client = match self.sources.client_of(nested) {
            Err(SourceError::TooMany) => {
                self.waiting.insert(id);
                return;
            }
            client => client.map_err(|why| why.to_string()),
        };
        self.waiting.remove(&id);
        change.started.extend(self.started(id, client));
    }

    fn started(&self, id: Id, client: Result<ClientHandle, String>) -> Option<Started> {
        let nested = &self.references.get(&id)?.nested;
        let name = nested.selection.name().map(ResourceName::from);
        let subscription = Subscription { type_url: nested.type_url.clone(), name };
        Some(Started { id, subscription, client })
    }

    /// Starts waiting references, the oldest first, as far as sources are available.
    fn start_waiting(&mut self, change: &mut Change) {
        while let Some(&id) = self.waiting.first() {
            self.start(id, change);
            if self.waiting.contains(&id) {
                return;
            }
        }
    }

    /// Replaces the references of a resource.
    fn replace(&mut self, owner: Owner, new: Vec<Id>, change: &mut Change) {
        let old = match new.is_empty() {
            true => self.owners.remove(&owner),
            false => self.owners.insert(owner, new),
        };
        for id in old.unwrap_or_default() {
            self.release(id, change);
        }
    }

    /// Removes one resource from a reference. Without a resource the reference ends, together with
    /// all references of resources watched through it.
    fn release(&mut self, id: Id, change: &mut Change) {
        let Some(counted) = self.references.get_mut(&id) else { return };
        counted.count -= 1;
        if counted.count > 0 {
            return;
        }
        let Some(CountedReference { nested, .. }) = self.references.remove(&id) else { return };
        if let Some(same_name) = self.by_name.get_mut(&key(&nested)) {
            same_name.retain(|it| *it != id);
            if same_name.is_empty() {
                self.by_name.remove(&key(&nested));
            }
        }
        self.waiting.remove(&id);
        change.ended.push(id);
        let shares = |it: &CountedReference| {
            it.nested.type_url == nested.type_url && it.nested.source == nested.source
        };
        if !self.references.values().any(shares) {
            self.sources.release(&nested);
        }
        if Self::follows(&nested.type_url) {
            while let Some(owner) = self.owner_through(id) {
                self.replace(owner, Vec::new(), change);
            }
        }
    }

    /// Returns a resource that is watched through a reference and has references itself.
    fn owner_through(&self, id: Id) -> Option<Owner> {
        let first = (Some(id), TypeUrl::from(""), String::new());
        let (owner, _) = self.owners.range(first..).next()?;
        (owner.0 == Some(id)).then(|| owner.clone())
    }

    pub(super) fn shut_down(&self) {
        self.sources.shut_down();
    }
}

fn key(nested: &NestedSource) -> (TypeUrl, Option<String>) {
    (nested.type_url.clone(), nested.selection.name().map(str::to_owned))
}

/// Returns the types that resources of the subscriptions refer to.
pub(super) fn types_behind(subscriptions: &BTreeSet<Subscription>) -> Vec<TypeUrl> {
    let all = [
        types::CLUSTER_LOAD_ASSIGNMENT,
        types::ROUTE_CONFIGURATION,
        types::SCOPED_ROUTE_CONFIGURATION,
        types::SECRET,
        types::EXTENSION_CONFIG,
    ];
    match subscriptions.iter().any(|it| Following::follows(&it.type_url)) {
        true => all.map(TypeUrl::from).to_vec(),
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use core::convert::Infallible;

    use serde_json::json;
    use xds_bootstrap::envoy::EnvoyBootstrap;
    use xds_core::client::OpaqueType;
    use xds_tokio::{
        ClientOptions, Credentials,
        client::{MAX_SOURCES, Service},
    };

    use super::*;

    fn following(lds: &Json) -> Following {
        let bootstrap = json!({ "dynamic_resources": { "lds_config": lds, "cds_config": lds } });
        let bootstrap = EnvoyBootstrap::from_json(&bootstrap.to_string()).unwrap();
        let types = |config: xds_core::client::ClientConfig| {
            config.with_type(OpaqueType::new(types::CLUSTER))
        };
        let place = |_: xds_bootstrap::envoy::Target<'_>| {
            Ok::<_, Infallible>(Service::new("http://127.0.0.1:1", Credentials::insecure()))
        };
        let sources = Sources::connect(bootstrap, ClientOptions::default(), types, place).unwrap();
        Following::new(sources)
    }

    fn file(at: usize) -> Json {
        json!({ "path_config_source": { "path": format!("/nowhere/{at}") } })
    }

    /// Names of started watches, and whether each has a client.
    fn summary(change: &Change) -> Vec<(&str, bool)> {
        let summary = change.started.iter().map(|Started { subscription, client, .. }| {
            (subscription.name.as_ref().map_or("*", ResourceName::as_str), client.is_ok())
        });
        summary.collect()
    }

    #[tokio::test]
    async fn source_over_the_limit_is_used_once_another_has_ended() {
        let mut following = following(&file(0));
        let cluster = TypeUrl::from(types::CLUSTER);
        let eds = |name: &str, at| json!({ "name": name, "type": "EDS", "eds_cluster_config": { "eds_config": file(at) } });
        for at in 1..=MAX_SOURCES {
            let name = format!("c{at}");
            let change = following.update(None, &cluster, &name, Some(&eds(&name, at)));
            assert_eq!(summary(&change), [(&*name, true)]);
        }
        let late = following.update(None, &cluster, "late", Some(&eds("late", 1_000)));
        assert_eq!(summary(&late), [("late", false)]);
        let why = late.started[0].client.as_ref().err().unwrap();
        assert_eq!(*why, format!("more than {MAX_SOURCES} sources are in use"));
        let later = following.update(None, &cluster, "later", Some(&eds("later", 1_001)));
        assert_eq!(summary(&later), [("later", false)]);
        // A second reference with the same source does not end it.
        let again = following.update(None, &cluster, "again", Some(&eds("again", 1)));
        assert_eq!(summary(&again), [("again", true)]);
        assert_eq!(summary(&following.update(None, &cluster, "again", None)), []);

        let ended = following.update(None, &cluster, "c1", None);
        assert_eq!((summary(&ended), ended.ended.len()), (vec![("late", true)], 1));
        assert_eq!(ended.started[0].id, late.started[0].id, "it is the one that waited");
        // A resource that moves to another source frees its own.
        let moved = following.update(None, &cluster, "c2", Some(&eds("c2", 1_002)));
        assert_eq!(summary(&moved), [("later", true), ("c2", false)]);
        // A reference that no longer waits is not started.
        assert_eq!(summary(&following.update(None, &cluster, "c2", None)), []);
        assert_eq!(summary(&following.update(None, &cluster, "c3", None)), []);
        println!("covers: S0.052");
    }

    #[tokio::test]
    async fn sources_found_through_a_removed_reference_are_removed() {
        let mut following = following(&file(0));
        let (listener, scopes) =
            (TypeUrl::from(types::LISTENER), TypeUrl::from(types::SCOPED_ROUTE_CONFIGURATION));
        let manager = |routes: usize| {
            json!({ "filter_chains": [{ "filters": [{ "typed_config": { "scoped_routes": {
                "rds_config_source": file(routes),
                "scoped_rds": { "scoped_rds_config_source": { "self": {} } },
            } } }] }] })
        };
        let scope = json!({ "name": "s", "route_configuration_name": "r" });
        let asked = following.update(None, &listener, "one", Some(&manager(1)));
        assert_eq!(summary(&asked), [("*", true)]);
        let one = asked.started[0].id;
        assert_eq!(
            summary(&following.update(Some(one), &scopes, "s", Some(&scope))),
            [("r", true)]
        );
        // The other listener takes the routes of the same scopes from another source.
        let asked = following.update(None, &listener, "two", Some(&manager(2)));
        let two = asked.started[0].id;
        assert_ne!(one, two);
        assert_eq!(
            summary(&following.update(Some(two), &scopes, "s", Some(&scope))),
            [("r", true)]
        );
        let gone = following.update(None, &listener, "one", None);
        assert_eq!(gone.ended.len(), 2, "scopes and routes");
        // Resources of an ended watch are not followed.
        assert_eq!(summary(&following.update(Some(one), &scopes, "s", Some(&scope))), []);
        assert_eq!(following.update(None, &listener, "two", None).ended.len(), 2);
        assert!(following.references.is_empty() && following.owners.is_empty());
        println!("covers: S0.052");
    }
}
