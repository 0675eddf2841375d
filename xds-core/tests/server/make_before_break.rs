//! The promise of make before break, held against random rollouts: at no moment does a route that a
//! client has accepted lead to a cluster that it does not have ready, as long as the server's resources
//! are consistent; and in the end everybody who answers has what the server has.
//!
//! The clients are like proxies. They subscribe to all clusters and listeners, to the endpoints that
//! clusters name and to the routes that listeners name. A new or changed cluster is warmed until its
//! endpoints come; meanwhile the one before stays in use. They read late, ask late, reject what they get,
//! or stop reading for good.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Write as _,
};

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    Frame, StreamId, Time,
    proto::{
        DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Node,
        Status,
    },
    server::{
        AckGated, OrderingPolicy, Server, ServerConfig, ServerOutput, Snapshot, StreamEvent,
        Variant, Via,
    },
    types,
};

const CLUSTERS: [&str; 4] = ["c0", "c1", "c2", "c3"];
const SERVICES: [&str; 3] = ["c0", "s1", "s2"];
const ROUTES: [&str; 3] = ["r0", "r1", "r2"];
const LISTENERS: [&str; 2] = ["l0", "l1"];

/// The messages of the v3 API, as far as it matters here.
mod api {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Cluster {
        #[prost(string, tag = "1")]
        pub(crate) name: String,
        #[prost(int32, tag = "2")]
        pub(crate) kind: i32,
        #[prost(message, optional, tag = "3")]
        pub(crate) eds: Option<EdsClusterConfig>,
        #[prost(string, tag = "28")]
        pub(crate) alt_stat_name: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct EdsClusterConfig {
        #[prost(message, optional, tag = "1")]
        pub(crate) config: Option<ConfigSource>,
        #[prost(string, tag = "2")]
        pub(crate) service_name: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ConfigSource {
        #[prost(message, optional, tag = "3")]
        pub(crate) ads: Option<Ads>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Ads {}

    /// Endpoints, a listener: a name, and what stands in it as text.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Named {
        #[prost(string, tag = "1")]
        pub(crate) name: String,
        #[prost(string, tag = "1000")]
        pub(crate) content: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct RouteConfiguration {
        #[prost(string, tag = "1")]
        pub(crate) name: String,
        #[prost(message, repeated, tag = "2")]
        pub(crate) virtual_hosts: Vec<VirtualHost>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct VirtualHost {
        #[prost(string, tag = "1")]
        pub(crate) name: String,
        #[prost(message, repeated, tag = "3")]
        pub(crate) routes: Vec<Route>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Route {
        #[prost(message, optional, tag = "2")]
        pub(crate) route: Option<RouteAction>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct RouteAction {
        #[prost(string, tag = "1")]
        pub(crate) cluster: String,
    }
}

/// Small, even, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len() as u64) as usize]
    }
}

/// What the server is to serve.
#[derive(Clone, Debug, Default)]
struct Target {
    /// With the service that an EDS cluster names, and some setting.
    clusters: BTreeMap<&'static str, (Option<&'static str>, u64)>,
    endpoints: BTreeMap<&'static str, u64>,
    routes: BTreeMap<&'static str, BTreeSet<&'static str>>,
    /// What stands in it: a route configuration by name, or a cluster.
    listeners: BTreeMap<&'static str, Leads>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leads {
    ToRoutes(&'static str),
    ToCluster(&'static str),
}

impl Target {
    /// Changes some of it, and then whatever that made inconsistent.
    fn change(&mut self, dice: &mut Dice) {
        for _ in 0..=dice.roll(4) {
            let cluster = dice.pick(&CLUSTERS);
            match dice.roll(8) {
                0 | 1 => drop(self.clusters.remove(cluster)),
                2 => drop(self.clusters.insert(cluster, (None, dice.roll(3)))),
                3 | 4 => {
                    let service = dice.pick(&SERVICES);
                    self.clusters.insert(cluster, (Some(service), dice.roll(3)));
                }
                5 => drop(self.routes.remove(dice.pick(&ROUTES))),
                _ => {
                    let clusters = (0..=dice.roll(2)).map(|_| dice.pick(&CLUSTERS)).collect();
                    self.routes.insert(dice.pick(&ROUTES), clusters);
                }
            }
            if dice.one_in(3) {
                let leads = match dice.one_in(3) {
                    true => Leads::ToCluster(dice.pick(&CLUSTERS)),
                    false => Leads::ToRoutes(dice.pick(&ROUTES)),
                };
                self.listeners.insert(dice.pick(&LISTENERS), leads);
            }
        }
        let clusters = &mut self.clusters;
        if clusters.is_empty() {
            clusters.insert(dice.pick(&CLUSTERS), (None, 0));
        }
        let exists = |name: &str, clusters: &BTreeMap<_, _>| clusters.contains_key(name);
        let any = clusters.keys().copied().collect::<Vec<_>>();
        for leads in self.routes.values_mut() {
            leads.retain(|name| exists(name, clusters));
            if leads.is_empty() {
                leads.insert(dice.pick(&any));
            }
        }
        let routes = &self.routes;
        self.listeners.retain(|_, leads| match leads {
            Leads::ToRoutes(name) => routes.contains_key(name),
            Leads::ToCluster(name) => exists(name, clusters),
        });
        let named: BTreeSet<_> = clusters.values().filter_map(|(service, _)| *service).collect();
        self.endpoints.retain(|name, _| named.contains(name));
        for name in named {
            if !self.endpoints.contains_key(name) || dice.one_in(4) {
                self.endpoints.insert(name, dice.roll(3));
            }
        }
    }

    /// Only endpoints change, all the time.
    fn change_endpoints(&mut self, dice: &mut Dice) {
        self.endpoints.values_mut().for_each(|version| *version = dice.roll(100));
    }

    fn resources(&self) -> BTreeMap<(&'static str, &'static str), Bytes> {
        let mut all = BTreeMap::new();
        for (&name, &(service, setting)) in &self.clusters {
            let eds = service.map(|service| api::EdsClusterConfig {
                config: Some(api::ConfigSource { ads: Some(api::Ads {}) }),
                service_name: if service == name { String::new() } else { service.into() },
            });
            let cluster = api::Cluster {
                name: name.into(),
                kind: if service.is_some() { 3 } else { 0 },
                eds,
                alt_stat_name: setting.to_string(),
            };
            all.insert((types::CLUSTER, name), cluster.encode_to_vec().into());
        }
        let named = |name: &str, content: String| {
            api::Named { name: name.into(), content }.encode_to_vec().into()
        };
        for (&name, version) in &self.endpoints {
            all.insert((types::CLUSTER_LOAD_ASSIGNMENT, name), named(name, version.to_string()));
        }
        for (&name, clusters) in &self.routes {
            let routes = clusters.iter().map(|&cluster| api::Route {
                route: Some(api::RouteAction { cluster: cluster.into() }),
            });
            let host = api::VirtualHost { name: "all".into(), routes: routes.collect() };
            let routes = api::RouteConfiguration { name: name.into(), virtual_hosts: vec![host] };
            all.insert((types::ROUTE_CONFIGURATION, name), routes.encode_to_vec().into());
        }
        for (&name, leads) in &self.listeners {
            let content = match leads {
                Leads::ToRoutes(routes) => format!("routes {routes}"),
                Leads::ToCluster(cluster) => format!("cluster {cluster}"),
            };
            all.insert((types::LISTENER, name), named(name, content));
        }
        all
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    Accepts,
    /// Now and then rejects a response, but no two of a type in a row.
    Picky,
    /// Stops reading at some point.
    Stalls,
}

/// One response, read.
#[derive(Clone, Debug)]
struct Response {
    type_url: String,
    nonce: String,
    version: String,
    set: BTreeMap<String, Bytes>,
    removed: Vec<String>,
}

/// What a client has of a type.
#[derive(Debug, Default)]
struct Held {
    resources: BTreeMap<String, Bytes>,
    /// What it has asked for by name.
    asked: BTreeSet<String>,
    subscribed: bool,
    /// It is to be asked for once more.
    repeats: bool,
    nonce: String,
    version: String,
    rejected_last: bool,
}

struct Client {
    habit: Habit,
    variant: Variant,
    stream: StreamId,
    writable: bool,
    inbox: VecDeque<Response>,
    held: BTreeMap<&'static str, Held>,
    node_sent: bool,
    /// Clusters in use, with the service of which they need endpoints.
    ready: BTreeMap<String, Option<String>>,
    warming: BTreeMap<String, String>,
}

struct World {
    server: Server,
    clients: Vec<Client>,
    target: Target,
    dice: Dice,
    log: String,
    /// What went wrong first.
    violation: Option<String>,
}

impl World {
    fn new(ordering: OrderingPolicy, seed: u64) -> Self {
        let mut config = ServerConfig::default();
        config.ordering = ordering;
        if seed.is_multiple_of(3) {
            config.limits.response_bytes = 60;
        }
        let mut server = Server::new(config, seed, Time::ZERO);
        let habits = [Habit::Accepts, Habit::Picky, Habit::Stalls];
        let variants = [Variant::StateOfTheWorld, Variant::Incremental];
        let clients = variants.into_iter().flat_map(|variant| habits.map(|habit| (variant, habit)));
        let clients = clients.map(|(variant, habit)| Client {
            habit,
            variant,
            stream: server.accept(Via::Aggregated(variant), Time::ZERO).unwrap(),
            writable: false,
            inbox: VecDeque::new(),
            held: BTreeMap::new(),
            node_sent: false,
            ready: BTreeMap::new(),
            warming: BTreeMap::new(),
        });
        let clients = clients.collect();
        Self {
            server,
            clients,
            target: Target::default(),
            dice: Dice(seed),
            log: format!("seed {seed}\n"),
            violation: None,
        }
    }

    fn run(&mut self, steps: usize) {
        self.set(Target::change);
        for client in 0..self.clients.len() {
            self.ask(client);
        }
        for step in 0..steps {
            let client = self.dice.roll(self.clients.len() as u64) as usize;
            match self.dice.roll(24) {
                0 => self.set(Target::change),
                1 => self.set(Target::change_endpoints),
                2..=9 => drop(self.take(client)),
                10..=17 => drop(self.read(client, step > steps / 3)),
                _ => drop(self.ask(client)),
            }
            if self.violation.is_some() {
                return;
            }
        }
        self.settle();
    }

    fn set(&mut self, change: fn(&mut Target, &mut Dice)) {
        change(&mut self.target, &mut self.dice);
        let mut snapshot = Snapshot::new();
        for ((type_url, name), bytes) in self.target.resources() {
            snapshot.insert(type_url, name, bytes);
        }
        writeln!(self.log, "set {:?}", self.target).unwrap();
        self.server.set_snapshot(&"".into(), snapshot, Time::ZERO).unwrap();
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.server.poll_output() {
            match output {
                ServerOutput::Writable(stream) => {
                    let client = self.clients.iter_mut().find(|it| it.stream == stream).unwrap();
                    client.writable = true;
                }
                ServerOutput::Close(..) => panic!("nobody misbehaves: {output:?}"),
                _ => {}
            }
        }
    }

    /// The transport has room for one response, if the driver was told that there is one.
    fn take(&mut self, index: usize) -> bool {
        let client = &mut self.clients[index];
        if !client.writable {
            return false;
        }
        let mut frame = Frame::default();
        let sent = self.server.poll_transmit(client.stream, Time::ZERO, &mut frame);
        client.writable = sent.is_some();
        if sent.is_some() {
            let response = Response::read(frame.to_bytes(), client.variant);
            writeln!(self.log, "{index} is sent {response:?}").unwrap();
            client.inbox.push_back(response);
        }
        self.drain();
        sent.is_some()
    }

    fn read(&mut self, index: usize, may_stall: bool) -> bool {
        let client = &mut self.clients[index];
        if client.habit == Habit::Stalls && may_stall {
            return false;
        }
        let Some(response) = client.inbox.pop_front() else { return false };
        let type_url = known(&response.type_url);
        let held = client.held.get_mut(type_url).expect("asked for");
        let rejects = client.habit == Habit::Picky && !held.rejected_last && self.dice.one_in(3);
        held.rejected_last = rejects;
        held.nonce = response.nonce.clone();
        writeln!(self.log, "{index} {} {type_url}", if rejects { "rejects" } else { "accepts" })
            .unwrap();
        if !rejects {
            held.version = response.version.clone();
            client.accept(type_url, response);
        }
        let error = rejects.then(|| Status { code: 3, message: "no".into(), ..Status::default() });
        self.request(index, type_url, Some(error), &[], &[]);
        if let Some(why) = self.clients[index].broken() {
            self.violation = Some(format!("client {index}: {why}"));
        }
        true
    }

    /// The client asks for what it needs and drops what it does not. It does so only when it has read
    /// what is on its way of the type, since requests that cross a response may be dropped.
    fn ask(&mut self, index: usize) -> bool {
        let mut asked = false;
        for type_url in [
            types::CLUSTER,
            types::CLUSTER_LOAD_ASSIGNMENT,
            types::LISTENER,
            types::ROUTE_CONFIGURATION,
        ] {
            let client = &mut self.clients[index];
            if client.inbox.iter().any(|response| response.type_url == type_url) {
                continue;
            }
            let wanted = client.wanted(type_url);
            let held = client.held.entry(type_url).or_default();
            let repeats = core::mem::take(&mut held.repeats);
            let is_known = held.asked == wanted && !repeats;
            if held.subscribed && is_known || !held.subscribed && wanted.is_empty() {
                continue;
            }
            let added: Vec<_> = wanted.difference(&held.asked).cloned().collect();
            let dropped: Vec<_> = held.asked.difference(&wanted).cloned().collect();
            if type_url != types::CLUSTER && type_url != types::LISTENER {
                held.resources.retain(|name, _| wanted.contains(name));
            }
            held.asked = wanted;
            held.subscribed = true;
            writeln!(self.log, "{index} asks for {added:?}, not {dropped:?} of {type_url}")
                .unwrap();
            self.request(index, type_url, None, &added, &dropped);
            asked = true;
        }
        asked
    }

    fn request(
        &mut self,
        index: usize,
        type_url: &str,
        answer: Option<Option<Status>>,
        added: &[String],
        dropped: &[String],
    ) {
        let client = &mut self.clients[index];
        let node = (!client.node_sent).then(|| Node { id: index.to_string(), ..Node::default() });
        client.node_sent = true;
        let held = &client.held[type_url];
        let is_answer = answer.is_some();
        let error_detail = answer.flatten();
        let bytes = match client.variant {
            Variant::StateOfTheWorld => DiscoveryRequest {
                version_info: held.version.clone(),
                node,
                resource_names: held.asked.iter().filter(|name| *name != "*").cloned().collect(),
                type_url: type_url.into(),
                response_nonce: held.nonce.clone(),
                error_detail,
                ..DiscoveryRequest::default()
            }
            .encode_to_vec(),
            Variant::Incremental => DeltaDiscoveryRequest {
                node,
                type_url: type_url.into(),
                resource_names_subscribe: added.to_vec(),
                resource_names_unsubscribe: dropped.to_vec(),
                response_nonce: if is_answer { held.nonce.clone() } else { String::new() },
                error_detail,
                ..DeltaDiscoveryRequest::default()
            }
            .encode_to_vec(),
        };
        let stream = client.stream;
        self.server.handle_event(StreamEvent::Message(stream, bytes.into()), Time::ZERO);
        self.drain();
    }

    /// Lets everybody finish who does.
    fn settle(&mut self) {
        for _ in 0..200 {
            let mut progress = false;
            for client in 0..self.clients.len() {
                progress |= self.take(client);
                progress |= self.read(client, true);
                progress |= self.ask(client);
                if self.violation.is_some() {
                    return;
                }
            }
            if !progress {
                return self.check();
            }
        }
        panic!("no end of responses (IL2)\n{}", self.log);
    }

    /// Whoever accepts has what the server has.
    fn check(&self) {
        for (index, client) in self.clients.iter().enumerate() {
            if client.habit != Habit::Accepts {
                continue;
            }
            let mut target: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
            for ((type_url, name), bytes) in self.target.resources() {
                target.entry(type_url).or_default().insert(name.to_owned(), bytes);
            }
            for (type_url, held) in &client.held {
                let mut has = held.resources.clone();
                let mut exists = target.remove(type_url).unwrap_or_default();
                if !held.asked.contains("*") {
                    exists.retain(|name, _| held.asked.contains(name));
                    if client.variant == Variant::StateOfTheWorld {
                        // Deletions are silent.
                        has.retain(|name, _| exists.contains_key(name));
                    }
                }
                assert_eq!(has, exists, "client {index} {type_url}\n{}", self.log);
            }
            assert_eq!(client.warming, BTreeMap::new(), "client {index}\n{}", self.log);
        }
    }
}

fn known(type_url: &str) -> &'static str {
    let all = [types::CLUSTER, types::CLUSTER_LOAD_ASSIGNMENT, types::LISTENER];
    all.into_iter().find(|known| *known == type_url).unwrap_or(types::ROUTE_CONFIGURATION)
}

impl Response {
    fn read(bytes: Bytes, variant: Variant) -> Self {
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
    fn accept(&mut self, type_url: &'static str, response: Response) {
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

    fn wanted(&self, type_url: &str) -> BTreeSet<String> {
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

    fn listeners(&self) -> impl Iterator<Item = String> + '_ {
        let listeners = self.held.get(types::LISTENER).map(|held| held.resources.values());
        listeners.into_iter().flatten().map(|it| api::Named::decode(it.clone()).unwrap().content)
    }

    /// A cluster that traffic is sent to and that is not ready.
    fn broken(&self) -> Option<String> {
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

fn ack_gated() -> OrderingPolicy {
    OrderingPolicy::AckGated(AckGated::default())
}

#[test]
fn no_accepted_route_ever_leads_nowhere() {
    let walks: u64 = std::env::var("XDS_WALKS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000);
    let first: u64 = std::env::var("XDS_FIRST").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    for seed in first..walks {
        let mut world = World::new(ack_gated(), seed);
        world.run(600);
        if let Some(why) = &world.violation {
            panic!("seed {seed}: {why}\n{}", world.log);
        }
    }
    println!("covers: M146 M147 M149 IS17 IS18 IS25 S0.159 S0.166 S0.170");
}

/// The same walks without ACKs being waited for break it: they could tell.
#[test]
fn order_alone_does_not_keep_the_promise() {
    let broken = (0..20).filter(|&seed| {
        let mut world = World::new(OrderingPolicy::OrderOnly, seed);
        world.run(600);
        world.violation.is_some()
    });
    assert!(broken.count() >= 10);
}
