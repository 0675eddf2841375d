//! What listeners, scopes and clusters refer to, watched where they say that it comes from.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;
use xds_bootstrap::envoy::NestedSource;
use xds_core::{ResourceName, TypeUrl, types};
use xds_tokio::{
    ClientHandle,
    client::{SourceError, Sources},
};

use crate::args::Subscription;

/// The references of all resources that are followed.
#[derive(Debug)]
pub(super) struct Following {
    sources: Sources,
    references: BTreeMap<Id, Counted>,
    /// By type and name of what is referred to, whatever source it comes from.
    by_name: BTreeMap<(TypeUrl, Option<String>), Vec<Id>>,
    owners: BTreeMap<Owner, Vec<Id>>,
    /// Those whose source was one too many, which are begun when another one has ended.
    waiting: BTreeSet<Id>,
    next: Id,
}

/// A reference, in the order in which they came up. Several resources may have the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id(u64);

#[derive(Debug)]
struct Counted {
    nested: NestedSource,
    /// How many resources have it.
    count: usize,
}

/// A resource that refers to others: the reference that it is watched for, its type and its name.
type Owner = (Option<Id>, TypeUrl, String);

/// What to watch from now on, and what no more.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) started: Vec<Started>,
    pub(super) ended: Vec<Id>,
    /// The references of the resource cannot be read.
    pub(super) problem: Option<String>,
}

#[derive(Debug)]
pub(super) struct Started {
    pub(super) id: Id,
    pub(super) subscription: Subscription,
    /// Who is asked. What could not be asked for may come again in a later change.
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

    /// Whether there are references in resources of a type.
    pub(super) fn follows(type_url: &TypeUrl) -> bool {
        use types::{CLUSTER, LISTENER, SCOPED_ROUTE_CONFIGURATION};
        [CLUSTER, LISTENER, SCOPED_ROUTE_CONFIGURATION].contains(&type_url.as_str())
    }

    /// A resource has changed; without a value it is gone. References that cannot be read leave those that it had.
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
        let new: Vec<Id> = new.into_iter().map(|nested| self.refer(nested, &mut change)).collect();
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

    /// One more resource has a reference. It is begun to be watched if nothing had it before.
    fn refer(&mut self, nested: NestedSource, change: &mut Change) -> Id {
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
        references.insert(id, Counted { nested, count: 1 });
        self.start(id, change);
        id
    }

    fn start(&mut self, id: Id, change: &mut Change) {
        let Some(Counted { nested, .. }) = self.references.get(&id) else { return };
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
        let name = nested.wanted.name().map(ResourceName::from);
        let subscription = Subscription { type_url: nested.type_url.clone(), name };
        Some(Started { id, subscription, client })
    }

    /// There may be room for those that came too late, the oldest first.
    fn start_waiting(&mut self, change: &mut Change) {
        while let Some(&id) = self.waiting.first() {
            self.start(id, change);
            if self.waiting.contains(&id) {
                return;
            }
        }
    }

    /// A resource has these references instead of those that it had.
    fn replace(&mut self, owner: Owner, new: Vec<Id>, change: &mut Change) {
        let old = match new.is_empty() {
            true => self.owners.remove(&owner),
            false => self.owners.insert(owner, new),
        };
        for id in old.unwrap_or_default() {
            self.let_go(id, change);
        }
    }

    /// One resource less has a reference. The last one takes with it what came through it.
    fn let_go(&mut self, id: Id, change: &mut Change) {
        let Some(counted) = self.references.get_mut(&id) else { return };
        counted.count -= 1;
        if counted.count > 0 {
            return;
        }
        let Some(Counted { nested, .. }) = self.references.remove(&id) else { return };
        if let Some(same_name) = self.by_name.get_mut(&key(&nested)) {
            same_name.retain(|it| *it != id);
            if same_name.is_empty() {
                self.by_name.remove(&key(&nested));
            }
        }
        self.waiting.remove(&id);
        change.ended.push(id);
        let shares = |it: &Counted| {
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

    /// A resource that came through a reference and has references itself.
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
    (nested.type_url.clone(), nested.wanted.name().map(str::to_owned))
}

/// The types that resources of these refer to.
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

    /// What is watched from now on, and what could not be, by name.
    fn told(change: &Change) -> Vec<(&str, bool)> {
        let told = change.started.iter().map(|Started { subscription, client, .. }| {
            (subscription.name.as_ref().map_or("*", ResourceName::as_str), client.is_ok())
        });
        told.collect()
    }

    #[tokio::test]
    async fn a_source_that_was_one_too_many_is_used_once_another_has_ended() {
        let mut following = following(&file(0));
        let cluster = TypeUrl::from(types::CLUSTER);
        let eds = |name: &str, at| json!({ "name": name, "type": "EDS", "eds_cluster_config": { "eds_config": file(at) } });
        for at in 1..=MAX_SOURCES {
            let name = format!("c{at}");
            let change = following.update(None, &cluster, &name, Some(&eds(&name, at)));
            assert_eq!(told(&change), [(&*name, true)]);
        }
        let late = following.update(None, &cluster, "late", Some(&eds("late", 1_000)));
        assert_eq!(told(&late), [("late", false)]);
        let why = late.started[0].client.as_ref().err().unwrap();
        assert_eq!(*why, format!("more than {MAX_SOURCES} sources are in use"));
        let later = following.update(None, &cluster, "later", Some(&eds("later", 1_001)));
        assert_eq!(told(&later), [("later", false)]);
        // A second use of a source ends no source.
        let again = following.update(None, &cluster, "again", Some(&eds("again", 1)));
        assert_eq!(told(&again), [("again", true)]);
        assert_eq!(told(&following.update(None, &cluster, "again", None)), []);

        let ended = following.update(None, &cluster, "c1", None);
        assert_eq!((told(&ended), ended.ended.len()), (vec![("late", true)], 1));
        assert_eq!(ended.started[0].id, late.started[0].id, "it is the one that waited");
        // One that leaves its source for another has room for it.
        let moved = following.update(None, &cluster, "c2", Some(&eds("c2", 1_002)));
        assert_eq!(told(&moved), [("later", true), ("c2", false)]);
        // Who waits no more is not begun.
        assert_eq!(told(&following.update(None, &cluster, "c2", None)), []);
        assert_eq!(told(&following.update(None, &cluster, "c3", None)), []);
        println!("covers: S0.052");
    }

    #[tokio::test]
    async fn what_came_through_a_reference_goes_with_it() {
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
        assert_eq!(told(&asked), [("*", true)]);
        let one = asked.started[0].id;
        assert_eq!(told(&following.update(Some(one), &scopes, "s", Some(&scope))), [("r", true)]);
        // The same scopes lead to routes from elsewhere for another listener.
        let asked = following.update(None, &listener, "two", Some(&manager(2)));
        let two = asked.started[0].id;
        assert_ne!(one, two);
        assert_eq!(told(&following.update(Some(two), &scopes, "s", Some(&scope))), [("r", true)]);
        let gone = following.update(None, &listener, "one", None);
        assert_eq!(gone.ended.len(), 2, "scopes and routes");
        // Of a watch that is over nothing is followed.
        assert_eq!(told(&following.update(Some(one), &scopes, "s", Some(&scope))), []);
        assert_eq!(following.update(None, &listener, "two", None).ended.len(), 2);
        assert!(following.references.is_empty() && following.owners.is_empty());
        println!("covers: S0.052");
    }
}
