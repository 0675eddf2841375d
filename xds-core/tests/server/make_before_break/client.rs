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
}

/// What a client has of a type.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) resources: BTreeMap<String, Bytes>,
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
                }
            }
            Variant::Incremental => {
                let response = DeltaDiscoveryResponse::decode(bytes).unwrap();
                let resources = response.resources.into_iter();
                let resources = resources.map(|it| (it.name, it.resource.unwrap().value));
                Self {
                    type_url: response.type_url,
                    nonce: response.nonce,
                    version: response.system_version_info,
                    set: resources.collect(),
                    removed: response.removed_resources,
                }
            }
        }
    }
}

impl Client {
    pub(super) fn accept(&mut self, type_url: &'static str, response: Response) {
        let Response { set, mut removed, .. } = response;
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
            if type_url == types::CLUSTER {
                self.ready.remove(name);
                self.warming.remove(name);
            }
        }
        for (name, bytes) in set {
            if !has(held, &name) {
                continue;
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
        listeners.into_iter().flatten().map(|it| api::Named::decode(it.clone()).unwrap().content)
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
