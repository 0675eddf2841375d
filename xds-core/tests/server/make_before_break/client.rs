//! A proxy-like client and its processing of responses.

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
    /// Rejects one response in three.
    Picky,
    /// Rejects some clusters and uses the other resources of the response.
    Particular,
    /// Stops reading at some point.
    Stalls,
}

/// A decoded response.
#[derive(Clone, Debug)]
pub(super) struct Response {
    pub(super) type_url: String,
    pub(super) nonce: String,
    pub(super) version: String,
    pub(super) set: BTreeMap<String, Bytes>,
    pub(super) removed: Vec<String>,
    /// Versions of an incremental response.
    pub(super) versions: BTreeMap<String, String>,
}

/// A client's resources and subscriptions of a type.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) resources: BTreeMap<String, Bytes>,
    /// Versions by name (incremental).
    pub(super) versions: BTreeMap<String, String>,
    /// Subscribed names.
    pub(super) asked: BTreeSet<String>,
    pub(super) subscribed: bool,
    /// Whether to subscribe once more.
    pub(super) repeats: bool,
    pub(super) nonce: String,
    pub(super) version: String,
    /// Whether the client reconnected and has not ACKed a response of the type since.
    pub(super) is_from_before: bool,
}

pub(super) struct Client {
    pub(super) habit: Habit,
    pub(super) variant: Variant,
    pub(super) stream: StreamId,
    pub(super) writable: bool,
    pub(super) inbox: VecDeque<Response>,
    pub(super) held: BTreeMap<&'static str, Held>,
    pub(super) node_sent: bool,
    /// Clusters in use, with the EDS service they need.
    pub(super) ready: BTreeMap<String, Option<String>>,
    pub(super) warming: BTreeMap<String, String>,
    /// Index of its view.
    pub(super) view: usize,
    /// Whether the guarantee is suspended until the client has everything.
    pub(super) excused: bool,
    /// Whether the client has opened a second stream.
    pub(super) came_back: bool,
    /// Whether a request was overdue, so that its answer is sent out of order.
    pub(super) is_late: bool,
    /// Routes that no listener referenced for a time: a proxy forgets them until they are sent
    /// again.
    pub(super) stale: BTreeSet<String>,
    /// Whether the client uses some resources of a rejected response.
    pub(super) has_parts: bool,
    pub(super) asking: Asking,
}

/// A client's requests since the newest clusters were sent to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Asking {
    #[default]
    Nothing,
    /// Subscribed to endpoints, possibly those of older clusters.
    Asked,
    /// Rejected the clusters completely.
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

/// Whether a `Particular` client always rejects this resource.
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
            came_back: false,
            is_late: false,
            stale: BTreeSet::new(),
            has_parts: false,
            asking: Asking::default(),
        }
    }

    /// Records that the client subscribed to endpoints or rejected clusters. After both, the server
    /// assumes that it has some of the clusters unless it states its versions.
    pub(super) fn note_asking(&mut self, now: Asking) {
        let is_both = self.asking != Asking::Nothing && self.asking != now;
        self.excused |= is_both && self.variant == Variant::StateOfTheWorld;
        if self.asking == Asking::Nothing {
            self.asking = now;
        }
    }

    /// Continues on another stream with the same resources.
    pub(super) fn reconnect(&mut self, stream: StreamId) {
        (self.stream, self.writable, self.node_sent) = (stream, false, false);
        self.inbox.clear();
        (self.is_late, self.came_back) = (false, true);
        for held in self.held.values_mut() {
            held.nonce.clear();
            held.is_from_before = true;
            held.asked.clear();
            held.subscribed = false;
            // No version describes partially accepted resources.
            if self.has_parts {
                held.version.clear();
            }
        }
        if self.variant == Variant::Incremental {
            // Stated endpoints are not sent again, so their clusters are warm.
            let held = self.held.get(types::CLUSTER_LOAD_ASSIGNMENT);
            let has = |service: &str| held.is_some_and(|it| it.resources.contains_key(service));
            let all = core::mem::take(&mut self.warming).into_iter();
            let (warm, warming): (BTreeMap<_, _>, _) = all.partition(|(_, service)| has(service));
            self.warming = warming;
            self.ready.extend(warm.into_iter().map(|(it, service)| (it, Some(service))));
        }
        // Unused resources are not stated.
        for type_url in [types::CLUSTER_LOAD_ASSIGNMENT, types::ROUTE_CONFIGURATION] {
            let wanted = self.wanted(type_url);
            if let Some(held) = self.held.get_mut(type_url) {
                held.resources.retain(|name, _| wanted.contains(name));
                held.versions.retain(|name, _| wanted.contains(name));
            }
        }
    }

    /// Whether the client holds exactly the resources of `target` that it subscribes to.
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

    /// Whether the client has been sent a response of each type to which it subscribes.
    pub(super) fn is_answered(&self) -> bool {
        self.held.values().all(|held| !held.subscribed || !held.nonce.is_empty())
    }

    /// Whether the client reconnected and has not ACKed a response of each type to which it subscribes.
    pub(super) fn has_from_before(&self) -> bool {
        self.held.values().any(|held| held.subscribed && held.is_from_before)
    }

    /// Applies a response except rejected resources. Returns whether all were accepted.
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
        // A client with new clusters to warm subscribes to all endpoints again.
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

    /// Returns clusters without endpoints to the warming state.
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

    /// Describes a route or listener whose cluster is not ready, if there is one.
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
