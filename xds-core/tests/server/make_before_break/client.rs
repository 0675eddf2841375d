//! A client like a proxy, and what it makes of a response.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    StreamId,
    proto::{DeltaDiscoveryResponse, DiscoveryResponse},
    server::Variant,
    types,
};

use super::target::api;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Habit {
    Accepts,
    /// Now and then rejects a response, but no two of a type in a row.
    Picky,
    /// Does not like some clusters, and takes what is beside them.
    Particular,
    /// Stops reading at some point.
    Stalls,
}

/// One response, read.
#[derive(Clone, Debug)]
pub(super) struct Response {
    pub(super) type_url: String,
    pub(super) nonce: String,
    pub(super) version: String,
    pub(super) set: BTreeMap<String, Bytes>,
    pub(super) removed: Vec<String>,
    /// Of an incremental response.
    pub(super) versions: BTreeMap<String, String>,
}

/// What a client has of a type.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) resources: BTreeMap<String, Bytes>,
    /// In which versions, if it is incremental.
    pub(super) versions: BTreeMap<String, String>,
    /// What it has asked for by name.
    pub(super) asked: BTreeSet<String>,
    pub(super) subscribed: bool,
    /// It is to be asked for once more.
    pub(super) repeats: bool,
    pub(super) nonce: String,
    pub(super) version: String,
    pub(super) rejected_last: bool,
}

pub(super) struct Client {
    pub(super) habit: Habit,
    pub(super) variant: Variant,
    pub(super) stream: StreamId,
    pub(super) writable: bool,
    pub(super) inbox: VecDeque<Response>,
    pub(super) held: BTreeMap<&'static str, Held>,
    pub(super) node_sent: bool,
    /// Clusters in use, with the service of which they need endpoints.
    pub(super) ready: BTreeMap<String, Option<String>>,
    pub(super) warming: BTreeMap<String, String>,
    /// Whose resources it sees.
    pub(super) view: usize,
    /// Nothing is promised to it, until it has all there is.
    pub(super) excused: bool,
    /// Routes that no listener led to for a time: a proxy forgets them, and uses them again when it has been
    /// sent them anew.
    pub(super) stale: BTreeSet<String>,
    /// It has taken something of a response that it rejected.
    pub(super) has_parts: bool,
    pub(super) asking: Asking,
}

/// What a client has done since it was sent the newest clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Asking {
    #[default]
    Nothing,
    /// It has asked for endpoints, perhaps those of older ones.
    Asked,
    /// It took nothing of them.
    TookNothing,
}

pub(super) fn known(type_url: &str) -> &'static str {
    let all = [types::CLUSTER, types::CLUSTER_LOAD_ASSIGNMENT, types::LISTENER];
    all.into_iter().find(|known| *known == type_url).unwrap_or(types::ROUTE_CONFIGURATION)
}

impl Response {
    pub(super) fn read(bytes: Bytes, variant: Variant) -> Self {
        let name = |value: &Bytes| api::Named::decode(value.clone()).unwrap().name;
        match variant {
            Variant::StateOfTheWorld => {
                let response = DiscoveryResponse::decode(bytes).unwrap();
                let values = response.resources.into_iter().map(|any| any.value);
                Self {
                    type_url: response.type_url,
                    nonce: response.nonce,
                    version: response.version_info,
                    set: values.map(|value| (name(&value), value)).collect(),
                    removed: Vec::new(),
                    versions: BTreeMap::new(),
                }
            }
            Variant::Incremental => {
                let response = DeltaDiscoveryResponse::decode(bytes).unwrap();
                let of = |it: &xds_core::proto::Resource| (it.name.clone(), it.version.clone());
                let versions = response.resources.iter().map(of).collect();
                let resources = response.resources.into_iter();
                let resources = resources.map(|it| (it.name, it.resource.unwrap().value));
                Self {
                    type_url: response.type_url,
                    nonce: response.nonce,
                    version: response.system_version_info,
                    set: resources.collect(),
                    removed: response.removed_resources,
                    versions,
                }
            }
        }
    }
}

/// Whether a particular client will never have this.
pub(super) fn dislikes(type_url: &str, bytes: &Bytes) -> bool {
    let sum = bytes.iter().fold(7_u64, |sum, &byte| sum.wrapping_mul(31) + u64::from(byte));
    type_url == types::CLUSTER && sum.is_multiple_of(6)
}

impl Client {
    pub(super) fn new(habit: Habit, variant: Variant, stream: StreamId) -> Self {
        Self {
            habit,
            variant,
            stream,
            writable: false,
            inbox: VecDeque::new(),
            held: BTreeMap::new(),
            node_sent: false,
            ready: BTreeMap::new(),
            warming: BTreeMap::new(),
            view: 0,
            excused: false,
            stale: BTreeSet::new(),
            has_parts: false,
            asking: Asking::default(),
        }
    }

    /// It asks for endpoints, or takes nothing of clusters. Whoever does both is taken for one that has some of
    /// them, unless it says what it has.
    pub(super) fn note_asking(&mut self, now: Asking) {
        let is_both = self.asking != Asking::Nothing && self.asking != now;
        self.excused |= is_both && self.variant == Variant::StateOfTheWorld;
        if self.asking == Asking::Nothing {
            self.asking = now;
        }
    }

    /// It has another stream, and what it had.
    pub(super) fn reconnect(&mut self, stream: StreamId) {
        (self.stream, self.writable, self.node_sent) = (stream, false, false);
        self.inbox.clear();
        for held in self.held.values_mut() {
            held.nonce.clear();
            held.asked.clear();
            held.subscribed = false;
            // Of what it has no version tells.
            if self.has_parts {
                held.version.clear();
            }
        }
        if self.variant == Variant::Incremental {
            // It is not sent again what it says it has, and uses that.
            let held = self.held.get(types::CLUSTER_LOAD_ASSIGNMENT);
            let has = |service: &str| held.is_some_and(|it| it.resources.contains_key(service));
            let all = core::mem::take(&mut self.warming).into_iter();
            let (warm, warming): (BTreeMap<_, _>, _) = all.partition(|(_, service)| has(service));
            self.warming = warming;
            self.ready.extend(warm.into_iter().map(|(it, service)| (it, Some(service))));
        }
        // What it has no use for it does not say it has.
        for type_url in [types::CLUSTER_LOAD_ASSIGNMENT, types::ROUTE_CONFIGURATION] {
            let wanted = self.wanted(type_url);
            if let Some(held) = self.held.get_mut(type_url) {
                held.resources.retain(|name, _| wanted.contains(name));
                held.versions.retain(|name, _| wanted.contains(name));
            }
        }
    }

    /// What it asks for, it has as it is in `target`, and nothing more.
    pub(super) fn has_all(&self, target: &BTreeMap<(&'static str, &'static str), Bytes>) -> bool {
        let types = [
            types::CLUSTER,
            types::CLUSTER_LOAD_ASSIGNMENT,
            types::LISTENER,
            types::ROUTE_CONFIGURATION,
        ];
        let nothing = Held::default();
        let is_same = |type_url: &str| {
            let held = self.held.get(type_url).unwrap_or(&nothing);
            let asked = |name: &str| held.asked.contains("*") || held.asked.contains(name);
            let wanted = target.iter().filter(|((ty, name), _)| *ty == type_url && asked(name));
            held.asked == self.wanted(type_url)
                && wanted
                    .map(|((_, name), bytes)| (*name, bytes))
                    .eq(held.resources.iter().map(|(name, bytes)| (name.as_str(), bytes)))
        };
        self.inbox.is_empty() && self.warming.is_empty() && types.into_iter().all(is_same)
    }

    /// Takes a response, but for what it does not like. Returns whether it liked all of it.
    pub(super) fn accept(&mut self, type_url: &'static str, response: Response) -> bool {
        let Response { set, mut removed, mut versions, .. } = response;
        let is_particular = self.habit == Habit::Particular;
        let mut is_good = true;
        let mut warms = false;
        let held = self.held.get_mut(type_url).expect("asked for");
        let is_full = matches!(type_url, types::CLUSTER | types::LISTENER)
            && self.variant == Variant::StateOfTheWorld;
        if is_full {
            removed =
                held.resources.keys().filter(|name| !set.contains_key(*name)).cloned().collect();
        }
        let has = |held: &Held, name: &str| held.asked.contains("*") || held.asked.contains(name);
        for name in &removed {
            held.resources.remove(name);
            held.versions.remove(name);
            if type_url == types::CLUSTER {
                self.ready.remove(name);
                self.warming.remove(name);
            }
        }
        if type_url == types::CLUSTER_LOAD_ASSIGNMENT {
            removed.iter().for_each(|service| self.lose_endpoints(service));
        }
        for (name, bytes) in set {
            if is_particular && dislikes(type_url, &bytes) {
                is_good = false;
                continue;
            }
            let held = self.held.get_mut(type_url).expect("asked for");
            if !has(held, &name) {
                continue;
            }
            if let Some(version) = versions.remove(&name) {
                held.versions.insert(name.clone(), version);
            }
            if type_url == types::ROUTE_CONFIGURATION {
                self.stale.remove(&name);
            }
            let is_new = held.resources.insert(name.clone(), bytes.clone()) != Some(bytes.clone());
            if type_url == types::CLUSTER && is_new {
                let cluster = api::Cluster::decode(bytes).unwrap();
                match cluster.eds {
                    None => {
                        self.warming.remove(&name);
                        self.ready.insert(name.clone(), None);
                    }
                    Some(eds) if eds.service_name.is_empty() => {
                        warms = true;
                        self.warming.insert(name.clone(), name.clone());
                    }
                    Some(eds) => {
                        warms = true;
                        self.warming.insert(name.clone(), eds.service_name);
                    }
                }
            }
            if type_url == types::CLUSTER_LOAD_ASSIGNMENT {
                let all = core::mem::take(&mut self.warming).into_iter();
                let (warm, warming): (BTreeMap<_, _>, _) =
                    all.partition(|(_, service)| *service == name);
                self.warming = warming;
                self.ready.extend(warm.into_iter().map(|(it, service)| (it, Some(service))));
            }
        }
        // Who has new clusters to warm asks for all endpoints again.
        if warms && self.variant == Variant::StateOfTheWorld {
            self.held.entry(types::CLUSTER_LOAD_ASSIGNMENT).or_default().repeats = true;
        }
        self.has_parts |= !is_good;
        if type_url == types::LISTENER {
            let used = self.wanted(types::ROUTE_CONFIGURATION);
            let routes = self.held.get(types::ROUTE_CONFIGURATION).map(|it| &it.resources);
            let unused = routes.into_iter().flat_map(|it| it.keys());
            self.stale.extend(unused.filter(|name| !used.contains(*name)).cloned());
        }
        is_good
    }

    /// Clusters in use without endpoints are not; they wait for others, or for these again.
    fn lose_endpoints(&mut self, service: &str) {
        let all = core::mem::take(&mut self.ready).into_iter();
        let (lost, ready): (BTreeMap<_, _>, _) =
            all.partition(|(_, needs)| needs.as_deref() == Some(service));
        self.ready = ready;
        for cluster in lost.into_keys() {
            self.warming.entry(cluster).or_insert_with(|| service.to_owned());
        }
    }

    pub(super) fn wanted(&self, type_url: &str) -> BTreeSet<String> {
        match type_url {
            types::CLUSTER | types::LISTENER => BTreeSet::from(["*".into()]),
            types::CLUSTER_LOAD_ASSIGNMENT => {
                let ready = self.ready.values().flatten();
                ready.chain(self.warming.values()).cloned().collect()
            }
            _ => self
                .listeners()
                .filter_map(|leads| leads.strip_prefix("routes ")?.to_owned().into())
                .collect(),
        }
    }

    pub(super) fn listeners(&self) -> impl Iterator<Item = String> + '_ {
        let listeners = self.held.get(types::LISTENER).map(|held| held.resources.values());
        let content = |it: &Bytes| api::Named::decode(it.clone()).unwrap().content;
        listeners.into_iter().flatten().map(move |it| {
            content(it).split_once('#').map_or_else(String::new, |(leads, _)| leads.to_owned())
        })
    }

    /// A cluster that traffic is sent to and that is not ready.
    pub(super) fn broken(&self) -> Option<String> {
        for leads in self.listeners() {
            if let Some(cluster) = leads.strip_prefix("cluster ")
                && !self.ready.contains_key(cluster)
            {
                return Some(format!("a listener leads to {cluster}"));
            }
            let routes = leads.strip_prefix("routes ");
            let held = self.held.get(types::ROUTE_CONFIGURATION);
            let routes = routes.filter(|name| !self.stale.contains(*name));
            let Some(bytes) = routes.and_then(|name| held?.resources.get(name)) else { continue };
            let routes = api::RouteConfiguration::decode(bytes.clone()).unwrap();
            let routes = routes.virtual_hosts.into_iter().flat_map(|host| host.routes);
            let mut clusters = routes.filter_map(|route| Some(route.route?.cluster));
            if let Some(cluster) = clusters.find(|cluster| !self.ready.contains_key(cluster)) {
                return Some(format!("{leads} lead to {cluster}"));
            }
        }
        None
    }
}
