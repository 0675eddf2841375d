//! A server without a network: short scripts of what clients send and what they must get.
//!
//! One line is one step. `#` starts a comment.
//!
//! | line | meaning |
//! |---|---|
//! | `set cds a=1 b=2 -c; eds x=1` | one transaction: sets `a` and `b`, removes `c`, sets `x` |
//! | `set eds !a=7` | tells who names `a` the status code 7 instead |
//! | `set eds a~10s=1` | sets `a`, with a TTL of ten seconds |
//! | `set eds a+x+y=1` | sets `a`, with the aliases `x` and `y` |
//! | `set eds a^7=1` | sets `a`, with a version of its own |
//! | `set cds v:5 a=1` | says that the version of the type is `5` |
//! | `> cds a b` | the client lists `a` and `b`, with the nonce and version it last received |
//! | `> cds nack a b` | the same as a NACK: with an error and the last version it accepted |
//! | `> cds a loc:b` | it lists `b` by locator |
//! | `> cds nonce:7 version:x a` | the same with a nonce or version of the script's choice; `nonce:` is none |
//! | `< cds first a=1 b=2 !c=7` | the next response: its type, its cause, its resources and errors in any order |
//! | `< cds first v:5 a=1` | the same, and what version it states |
//! | `<` | nothing is due |
//! | `set @v cds a=1` | a transaction on the view `v` |
//! | `layers v over base` | makes the view `v` of these layers, the topmost first |
//! | `assign 2 v` | the application lets stream 2 see the view `v` |
//! | `close`, `shutdown` | the client goes away; the server ends everything |
//! | `ready` | the server is told that its resources are loaded |
//! | `drain 10s grace 1s` | the server ends its streams over 10 seconds, and waits so long for answers |
//! | `closed 14` | the server has ended the stream with this status code; the next step opens another |
//! | `open` | the server has not ended the stream |
//! | `lag cds 3 pending 1 2 rejected 4` | the streams that have not accepted the third transaction that changed something |
//! | `tell cds 3`, `told cds 3`, `untold` | asks to be told when all have; that has been told; nothing has |
//! | `sync cds a:synced b:notsent` | what client status discovery tells of the client's resources of a type |
//! | `wanted eds a`, `unwanted eds a` | the application was told so, of this name next |
//! | `asked` | it was told nothing of the kind |
//! | `wait 15s`, `wait 200ms` | time passes; the server is woken exactly when it asked to be |
//!
//! A number before `>`, `<`, `close`, `closed` or `open` chooses the stream, as in `2> cds`; it is opened when it first
//! says something. A name's value is its bytes, so that a response can be read back.
//!
//! A resource in a response is `a~10s=1` if it comes with a TTL, and `a~10s` if it is a heartbeat, without
//! content. A client whose first step has a `t` before `>` announces that it understands these, one with a
//! `u` that it does but for wrappers.
//!
//! A stream whose first step has a `d` before `>` is an incremental one (with both, `td>`):
//!
//! | line | meaning |
//! |---|---|
//! | `d> cds +a -b` | the client subscribes to `a` and unsubscribes `b`, with no nonce |
//! | `d> cds ack +a`, `d> cds nack` | the same, answering the response received last |
//! | `d> cds has:a=1 has:b@old` | it says that it has `a` in the version that the content `1` has, and `b` in version `old` |
//! | `d> cds nonce:7 loc:a` | the same with a nonce of the script's choice; subscribes to `a` by locator |
//! | `d< cds first a=1 -b` | the next response: its type, its cause, resources and removed names in any order |
//! | `d< cds first ?a` | the same, with a resource that has only a name |

pub(crate) mod model;
mod operation;

use core::time::Duration;
use std::collections::BTreeMap;

use bytes::Bytes;
use prost::{Message as _, Name as _};
use xds_core::{
    Frame, StreamId, Time, Timer, ViewName,
    proto::{
        Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
        Node, Resource, ResourceLocator, Status,
    },
    server::{
        Cause, DrainPlan, Observation, ResourceOptions, Server, ServerConfig, ServerOutput,
        ServerTransmit, StatusCode, StreamEvent, Transaction, Variant, Via,
    },
    types,
};

pub(crate) const SEED: u64 = 0x5eed;

/// The type URL of a short name, as `cds`, or of the same in version 2, as `cds2`; other names stand for types
/// of their own.
pub(crate) fn url(short: &str) -> String {
    let older = short.strip_suffix('2').and_then(types::by_short_name).and_then(types::older_name);
    let known = older.or_else(|| types::by_short_name(short));
    known.map_or_else(|| format!("type.test/{short}"), String::from)
}

/// What a resource is encoded as in these tests.
pub(crate) fn payload(name: &str, content: &str) -> Bytes {
    Bytes::from(format!("{name}={content}"))
}

/// A response as a client sees it.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) transmit: ServerTransmit,
    /// What may be shared with others.
    pub(crate) body: Bytes,
    pub(crate) response: Response,
}

#[derive(Clone, Debug)]
pub(crate) enum Response {
    StateOfTheWorld(DiscoveryResponse),
    Incremental(DeltaDiscoveryResponse),
}

impl Received {
    /// `name=content` of every resource and `-name` of every removed one, in wire order.
    pub(crate) fn resources(&self) -> Vec<String> {
        let error = |error: &xds_core::proto::ResourceError| {
            let (name, detail) = (error.resource_name.as_ref(), error.error_detail.as_ref());
            format!("!{}={}", name.expect("a name").name, detail.expect("a status").code)
        };
        match &self.response {
            Response::StateOfTheWorld(response) => {
                let errors = response.resource_errors.iter().map(error);
                let resources = response.resources.iter().map(|any| match unpack(any) {
                    Some(resource) => text_of(&resource),
                    None => text(any),
                });
                resources.chain(errors).collect()
            }
            Response::Incremental(response) => {
                let removed = response.removed_resources.iter().map(String::as_str);
                let names = response.removed_resource_names.iter().map(|name| &*name.name);
                let packed = response.resources.iter().map(text_of);
                let removed = removed.chain(names).map(|name| format!("-{name}"));
                let errors = response.resource_errors.iter().map(error);
                packed.chain(removed).chain(errors).collect()
            }
        }
    }

    /// The response, if the stream is one of the state of the world.
    pub(crate) fn full(&self) -> &DiscoveryResponse {
        match &self.response {
            Response::StateOfTheWorld(response) => response,
            Response::Incremental(_) => panic!("an incremental response"),
        }
    }
}

/// The name in `name=content`, `name+alias^version~ttl=content`, `-name`, `?name` or `!name=code`.
fn name_of(text: &str) -> &str {
    let text = text.strip_prefix(['-', '!', '?']).unwrap_or(text);
    text.split(['=', '~', '+', '^']).next().unwrap_or_default()
}

fn text(any: &Any) -> String {
    String::from_utf8_lossy(&any.value).into_owned()
}

/// What is in a wrapper, if it is one.
fn unpack(any: &Any) -> Option<Resource> {
    (any.type_url == Resource::type_url())
        .then(|| Resource::decode(any.value.clone()).expect("a resource"))
}

/// Whether a resource says that there is none (X05).
fn is_absence(resource: &Resource) -> bool {
    resource.resource.is_none() && resource.ttl.is_none()
}

/// A resource as scripts write it.
fn text_of(resource: &Resource) -> String {
    if is_absence(resource) {
        return format!("?{}", resource.name);
    }
    let ttl = resource.ttl.as_ref().map_or_else(String::new, |ttl| match ttl.nanos {
        0 => format!("~{}s", ttl.seconds),
        nanos => format!("~{}ms", ttl.seconds * 1_000 + i64::from(nanos) / 1_000_000),
    });
    let content = resource.resource.as_ref().map_or_else(String::new, |any| {
        let text = text(any);
        assert_eq!(name_of(&text), resource.name);
        text[resource.name.len()..].to_owned()
    });
    let aliases: String = resource.aliases.iter().map(|alias| format!("+{alias}")).collect();
    let is_digest = resource.version.len() == 16;
    let version = if is_digest { String::new() } else { format!("^{}", resource.version) };
    format!("{}{aliases}{version}{ttl}{content}", resource.name)
}

/// One server and its clients.
pub(crate) struct Rig {
    pub(crate) server: Server,
    pub(crate) now: Time,
    /// Everything that came out so far and was not taken.
    pub(crate) outputs: Vec<ServerOutput>,
    streams: BTreeMap<u32, Peer>,
    /// The version in which each content of a resource was received, as type and `name=content`.
    versions: BTreeMap<(String, String), String>,
}

/// One stream as its client knows it.
#[derive(Clone, Debug)]
struct Peer {
    id: StreamId,
    variant: Variant,
    node_sent: bool,
    features: Vec<String>,
    types: BTreeMap<String, Held>,
}

#[derive(Clone, Debug, Default)]
struct Held {
    nonce: String,
    version: String,
    accepted: String,
    /// The versions in which resources were received last.
    resources: BTreeMap<String, String>,
}

impl Peer {
    /// What the first request says of the client.
    fn node(&mut self, number: u32) -> Option<Node> {
        let is_first = !core::mem::replace(&mut self.node_sent, true);
        is_first.then(|| Node {
            id: format!("node-{number}"),
            client_features: core::mem::take(&mut self.features),
            ..Node::default()
        })
    }
}

impl Default for Rig {
    fn default() -> Self {
        Self::new(ServerConfig::default())
    }
}

impl Rig {
    pub(crate) fn new(config: ServerConfig) -> Self {
        Self::seeded(config, SEED)
    }

    pub(crate) fn seeded(config: ServerConfig, seed: u64) -> Self {
        Self {
            server: Server::new(config, seed, Time::ZERO),
            now: Time::ZERO,
            outputs: Vec::new(),
            streams: BTreeMap::new(),
            versions: BTreeMap::new(),
        }
    }

    /// Runs a script in a fresh default rig.
    pub(crate) fn script(lines: &str) -> Self {
        let mut rig = Self::default();
        rig.run(lines);
        rig
    }

    pub(crate) fn run(&mut self, lines: &str) {
        for line in lines.lines() {
            let step = line.split('#').next().unwrap_or_default().trim();
            if !step.is_empty() {
                self.step(step);
            }
        }
    }

    fn step(&mut self, step: &str) {
        let digits = step.chars().take_while(char::is_ascii_digit).count();
        let (number, rest) = step.split_at(digits);
        let stream = number.parse().unwrap_or(1);
        let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let word = match word.trim_start_matches(['t', 'u', 'd']) {
            direction @ (">" | "<") => {
                let variant = match word.contains('d') {
                    true => Variant::Incremental,
                    false => Variant::StateOfTheWorld,
                };
                if word != direction {
                    self.stream_in(stream, variant);
                }
                if word.contains(['t', 'u']) && !self.streams[&stream].node_sent {
                    self.announce(stream, "xds.config.supports-resource-ttl");
                }
                if word.contains('t') && !self.streams[&stream].node_sent {
                    self.announce(stream, "xds.config.resource-in-sotw");
                }
                direction
            }
            _ => word,
        };
        match word {
            "set" => {
                self.set(rest);
            }
            ">" => self.request(stream, rest),
            "<" if rest.is_empty() => {
                let received = self.receive(stream);
                assert!(received.is_none(), "expected silence, got {received:?}");
            }
            "<" => self.expect(stream, rest),
            "layers" => {
                let mut views = rest.split_whitespace().map(ViewName::from);
                let view = views.next().expect("a view");
                let layers: Vec<_> = views.collect();
                self.server.set_layers(&view, &layers, self.now).expect("good layers");
            }
            "assign" => {
                let (number, view) = rest.split_once(' ').expect("a stream and a view");
                let id = self.stream(number.parse().expect("a number"));
                self.server.assign(id, &view.into(), self.now);
            }
            "close" => {
                let id = self.stream(stream);
                self.streams.remove(&stream);
                self.event(StreamEvent::Closed(id));
            }
            "shutdown" => self.server.shut_down(self.now),
            "ready" => self.server.set_ready(self.now),
            "drain" => {
                let (over, grace) = rest.split_once(" grace ").expect("a grace time");
                let plan = DrainPlan { over: duration(over), grace: duration(grace) };
                self.server.drain(plan, self.now);
            }
            "closed" => {
                let code = self.take_close(stream).map(|reason| reason.code().as_i32());
                assert_eq!(code, Some(rest.parse().expect("a status code")), "how {stream} ended");
                self.streams.remove(&stream);
            }
            "open" => assert_eq!(self.take_close(stream), None, "{stream} is open"),
            "lag" => self.expect_lag(rest),
            "tell" | "told" => {
                let (short, sequence) = rest.split_once(' ').expect("a type and a number");
                let (type_url, sequence) = (url(short), sequence.parse().expect("a number"));
                let view = ViewName::default();
                if word == "tell" {
                    let told =
                        self.server.tell_when_converged(&view, &type_url, sequence, self.now);
                    told.expect("room to wait");
                } else {
                    let type_url = type_url.into();
                    let told = ServerOutput::Converged { view, type_url, sequence };
                    let position = self.outputs.iter().position(|output| *output == told);
                    drop(self.outputs.remove(position.expect("told")));
                }
            }
            "untold" => {
                let is_told = |output: &_| matches!(output, ServerOutput::Converged { .. });
                assert!(!self.outputs.iter().any(is_told), "nothing was told");
            }
            "sync" => self.expect_sync(stream, rest),
            "wanted" | "unwanted" => {
                let asked = self.asked().map(|(word, ty, name)| format!("{word} {ty} {name}"));
                let (short, name) = rest.split_once(' ').expect("a type and a name");
                assert_eq!(asked, Some(format!("{word} {} {name}", url(short))));
            }
            "asked" => assert_eq!(self.asked(), None),
            "wait" => self.wait(duration(rest)),
            _ => panic!("no such step: {step}"),
        }
        self.drain();
    }

    /// The client will say that it has a feature, in its first request.
    pub(crate) fn announce(&mut self, stream: u32, feature: &str) {
        self.stream(stream);
        let peer = self.streams.get_mut(&stream).expect("an open stream");
        peer.features.push(feature.into());
    }

    /// Lets time pass as a driver does that sleeps exactly to the next deadline.
    pub(crate) fn wait(&mut self, duration: Duration) {
        let until = self.now.after(duration);
        self.drain();
        while let Some(next) = self.server.poll_timeout().filter(|next| next.at <= until) {
            self.now = self.now.max(next.at);
            self.server.handle_timeout(self.now);
            self.drain();
        }
        self.now = until;
    }

    /// Applies a transaction written as in a script.
    pub(crate) fn set(&mut self, changes: &str) -> xds_core::server::Applied {
        let applied = self.server.apply(transaction(changes), self.now);
        self.drain();
        applied.expect("a good transaction")
    }

    /// Opens the stream unless it is.
    pub(crate) fn stream(&mut self, number: u32) -> StreamId {
        self.stream_in(number, Variant::StateOfTheWorld)
    }

    fn stream_in(&mut self, number: u32, variant: Variant) -> StreamId {
        if let Some(peer) = self.streams.get(&number) {
            return peer.id;
        }
        let id = self.server.accept(Via::Aggregated(variant), self.now).expect("a stream");
        let (features, types) = (Vec::new(), BTreeMap::new());
        let peer = Peer { id, variant, node_sent: false, features, types };
        self.streams.insert(number, peer);
        id
    }

    pub(crate) fn event(&mut self, event: StreamEvent) {
        self.server.handle_event(event, self.now);
        self.drain();
    }

    pub(crate) fn message(&mut self, id: StreamId, request: &DiscoveryRequest) {
        self.event(StreamEvent::Message(id, request.encode_to_vec().into()));
    }

    /// Sends an incremental request written as in a script.
    fn change(&mut self, stream: u32, words: &str) {
        let mut words = words.split_whitespace();
        let type_url = url(words.next().expect("a type"));
        let versions = &self.versions;
        let peer = self.streams.get_mut(&stream).expect("an open stream");
        let node = peer.node(stream);
        let held = peer.types.entry(type_url.clone()).or_default();
        let mut request =
            DeltaDiscoveryRequest { node, type_url, ..DeltaDiscoveryRequest::default() };
        for word in words {
            if word == "ack" || word == "nack" {
                request.response_nonce = held.nonce.clone();
            }
            if word == "nack" {
                request.error_detail =
                    Some(Status { code: 3, message: String::from("bad"), ..Status::default() });
            } else if let Some(nonce) = word.strip_prefix("nonce:") {
                request.response_nonce = nonce.into();
            } else if let Some(name) = word.strip_prefix("loc:") {
                let locator = ResourceLocator { name: name.into(), ..Default::default() };
                request.resource_locators_subscribe.push(locator);
            } else if let Some((name, version)) =
                word.strip_prefix("has:").and_then(|held| held.split_once('@'))
            {
                request.initial_resource_versions.insert(name.into(), version.into());
            } else if let Some(text) = word.strip_prefix("has:") {
                let version = versions.get(&(request.type_url.clone(), text.into()));
                let version = version.unwrap_or_else(|| panic!("{text} was never received"));
                request.initial_resource_versions.insert(name_of(text).into(), version.clone());
                held.resources.insert(name_of(text).into(), version.clone());
            } else if let Some(name) = word.strip_prefix('+') {
                request.resource_names_subscribe.push(name.into());
            } else if let Some(name) = word.strip_prefix('-') {
                request.resource_names_unsubscribe.push(name.into());
            } else {
                assert!(word == "ack", "no such word: {word}");
            }
        }
        let id = peer.id;
        self.event(StreamEvent::Message(id, request.encode_to_vec().into()));
    }

    /// Sends a request written as in a script.
    pub(crate) fn request(&mut self, stream: u32, words: &str) {
        let id = self.stream(stream);
        if self.streams[&stream].variant == Variant::Incremental {
            return self.change(stream, words);
        }
        let mut words = words.split_whitespace();
        let type_url = url(words.next().expect("a type"));
        let peer = self.streams.get_mut(&stream).expect("an open stream");
        let node = peer.node(stream);
        let held = peer.types.entry(type_url.clone()).or_default();
        let mut request = DiscoveryRequest {
            version_info: held.version.clone(),
            node,
            type_url,
            response_nonce: held.nonce.clone(),
            ..DiscoveryRequest::default()
        };
        for word in words {
            if word == "nack" {
                request.version_info = held.accepted.clone();
                request.error_detail =
                    Some(Status { code: 3, message: String::from("bad"), ..Status::default() });
            } else if let Some(nonce) = word.strip_prefix("nonce:") {
                request.response_nonce = nonce.into();
            } else if let Some(version) = word.strip_prefix("version:") {
                request.version_info = version.into();
            } else if let Some(name) = word.strip_prefix("loc:") {
                let locator = ResourceLocator { name: name.into(), ..Default::default() };
                request.resource_locators.push(locator);
            } else {
                request.resource_names.push(word.into());
            }
        }
        if request.error_detail.is_none() && request.response_nonce == held.nonce {
            held.accepted = held.version.clone();
        }
        self.message(id, &request);
    }

    /// Takes the next response of a stream, if one is due.
    pub(crate) fn receive(&mut self, stream: u32) -> Option<Received> {
        let id = self.stream(stream);
        let mut frame = Frame::default();
        let transmit = self.server.poll_transmit(id, self.now, &mut frame)?;
        self.drain();
        let bytes = frame.to_bytes();
        let (response, type_url, nonce, version) = match self.streams[&stream].variant {
            Variant::StateOfTheWorld => {
                let response = DiscoveryResponse::decode(bytes).expect("a valid response");
                assert_eq!(response.resources.len(), transmit.resources);
                for any in &response.resources {
                    match unpack(any) {
                        None => assert_eq!(any.type_url, response.type_url, "M82"),
                        Some(it) => self.read_resource(stream, &response.type_url, &it, &transmit),
                    }
                }
                if transmit.cause == Cause::Heartbeat {
                    let held = &self.streams[&stream].types[&response.type_url];
                    assert_eq!(response.version_info, held.accepted, "M161");
                }
                let envelope = (
                    response.type_url.clone(),
                    response.nonce.clone(),
                    response.version_info.clone(),
                );
                (Response::StateOfTheWorld(response), envelope.0, envelope.1, envelope.2)
            }
            Variant::Incremental => self.read_incremental(stream, bytes, &transmit),
        };
        assert_eq!(version, transmit.version.as_str());
        assert_eq!(nonce, transmit.nonce.as_str());
        assert_eq!(type_url, transmit.type_url.as_str());
        assert!(!nonce.is_empty() && !version.is_empty(), "M62, M63");
        let held = self.streams.get_mut(&stream)?.types.entry(type_url);
        let held = held.or_default();
        held.nonce = nonce;
        held.version = version;
        let received = Received { transmit, body: frame.body, response };
        let mut names: Vec<_> = received.resources();
        let count = names.len();
        names.sort_by(|one, other| name_of(one).cmp(name_of(other)));
        names.dedup_by(|one, other| name_of(one) == name_of(other));
        assert_eq!(names.len(), count, "a name occurs twice (M81, M135, S0.116)");
        Some(received)
    }

    /// Reads a response, and remembers the versions in it.
    fn read_incremental(
        &mut self,
        stream: u32,
        bytes: Bytes,
        transmit: &ServerTransmit,
    ) -> (Response, String, String, String) {
        let response = DeltaDiscoveryResponse::decode(bytes).expect("a valid response");
        let mut removed = response.removed_resources.len() + response.removed_resource_names.len();
        let absent = response.resources.iter().filter(|resource| is_absence(resource)).count();
        removed += absent;
        let resources = response.resources.len() - absent;
        assert_eq!((resources, removed), (transmit.resources, transmit.removed));
        for resource in response.resources.iter().filter(|resource| !is_absence(resource)) {
            self.read_resource(stream, &response.type_url, resource, transmit);
        }
        let (ty, nonce) = (response.type_url.clone(), response.nonce.clone());
        let version = response.system_version_info.clone();
        (Response::Incremental(response), ty, nonce, version)
    }

    /// Remembers the version of a resource.
    fn read_resource(
        &mut self,
        stream: u32,
        type_url: &str,
        resource: &Resource,
        transmit: &ServerTransmit,
    ) {
        assert!(!resource.version.is_empty(), "S0.115");
        let held = &mut self.streams.get_mut(&stream).expect("a stream").types;
        let held = &mut held.entry(type_url.into()).or_default().resources;
        let Some(any) = &resource.resource else {
            assert_eq!(transmit.cause, Cause::Heartbeat);
            assert_eq!(held.get(&resource.name), Some(&resource.version), "M162");
            return;
        };
        assert_eq!(any.type_url, type_url, "M82");
        held.insert(resource.name.clone(), resource.version.clone());
        let key = (type_url.into(), text_of(resource));
        let before = self.versions.insert(key, resource.version.clone());
        assert!(before.is_none_or(|before| before == resource.version), "IS15");
    }

    fn expect(&mut self, stream: u32, words: &str) {
        let mut words = words.split_whitespace();
        let (ty, cause) = (words.next().expect("a type"), words.next().expect("a cause"));
        let (versions, mut wanted): (Vec<_>, Vec<_>) =
            words.map(String::from).partition(|word| word.starts_with("v:"));
        let Some(received) = self.receive(stream) else {
            panic!("expected {ty} {cause} {wanted:?}, got nothing");
        };
        let mut got = received.resources();
        got.sort();
        wanted.sort();
        assert_eq!(
            (received.transmit.type_url.as_str(), received.transmit.cause.to_string(), got),
            (url(ty).as_str(), String::from(cause), wanted)
        );
        for version in versions {
            assert_eq!(format!("v:{}", received.transmit.version), version);
        }
    }

    /// The nonce the client last received for a type.
    pub(crate) fn nonce(&self, stream: u32, short: &str) -> String {
        self.streams
            .get(&stream)
            .and_then(|peer| peer.types.get(&url(short)))
            .map_or_else(String::new, |held| held.nonce.clone())
    }

    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.server.poll_output() {
            self.outputs.push(output);
        }
        let next = self.server.poll_timeout();
        assert!(next.is_none_or(|it| it.why != Timer::QueuedOutput), "nothing is queued (rule 4)");
    }

    /// Takes what was observed so far.
    pub(crate) fn observations(&mut self) -> Vec<Observation> {
        core::mem::take(&mut self.outputs)
            .into_iter()
            .filter_map(|output| match output {
                ServerOutput::Observed(observation) => Some(observation),
                _ => None,
            })
            .collect()
    }

    /// Takes what came out so far, but for observations.
    pub(crate) fn effects(&mut self) -> Vec<ServerOutput> {
        core::mem::take(&mut self.outputs)
            .into_iter()
            .filter(|output| !matches!(output, ServerOutput::Observed(_)))
            .collect()
    }
}

/// A first request for everything of a type, from this node.
pub(crate) fn request_of(node: &str, short: &str) -> DiscoveryRequest {
    DiscoveryRequest {
        node: Some(Node { id: node.into(), ..Node::default() }),
        type_url: url(short),
        ..DiscoveryRequest::default()
    }
}

/// A transaction written as in a script.
pub(crate) fn transaction(changes: &str) -> Transaction {
    match changes.strip_prefix('@').and_then(|changes| changes.split_once(' ')) {
        Some((view, changes)) => transaction_in(view, changes),
        None => transaction_in("", changes),
    }
}

/// The same on a view.
pub(crate) fn transaction_in(view: &str, changes: &str) -> Transaction {
    let mut transaction = Transaction::in_view(view);
    for part in changes.split(';') {
        let mut words = part.split_whitespace();
        let type_url = url(words.next().expect("a type"));
        for word in words {
            if let Some(version) = word.strip_prefix("v:") {
                transaction.set_version(&*type_url, version);
                continue;
            }
            match (word.strip_prefix('-'), word.strip_prefix('!')) {
                (Some(name), _) => transaction.remove(&*type_url, name),
                (_, Some(error)) => {
                    let (name, code) = error.split_once('=').expect("!name=code");
                    let code = code_of(code.parse().expect("a number"));
                    transaction.set_error(&*type_url, name, code, "no")
                }
                _ => {
                    let (head, content) = word.split_once('=').expect("name=content");
                    let mut options = ResourceOptions::default();
                    let (names, ttl) = head.split_once('~').unwrap_or((head, ""));
                    if !ttl.is_empty() {
                        options = options.with_ttl(duration(ttl));
                    }
                    let (names, version) = names.split_once('^').unwrap_or((names, ""));
                    if !version.is_empty() {
                        options = options.with_version(version);
                    }
                    for alias in names.split('+').skip(1) {
                        options = options.with_alias(alias);
                    }
                    let name = name_of(head);
                    transaction.set_with(&*type_url, name, payload(name, content), options)
                }
            };
        }
    }
    transaction
}

/// A duration written as in a script: `15s` or `200ms`.
fn duration(text: &str) -> Duration {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).expect("a unit"));
    let number = number.parse().expect("a number");
    match unit {
        "s" => Duration::from_secs(number),
        "ms" => Duration::from_millis(number),
        _ => panic!("no such unit: {unit}"),
    }
}

fn code_of(code: i32) -> StatusCode {
    use StatusCode::{Internal, NotFound, PermissionDenied, Unavailable};
    let codes = [NotFound, PermissionDenied, Internal, Unavailable];
    codes.into_iter().find(|known| known.as_i32() == code).expect("a code for a resource")
}

/// Runs every script and reports what the ones that passed cover.
pub(crate) fn run_all(cases: &[(&str, &str)]) {
    run_all_with(&ServerConfig::default(), cases);
}

pub(crate) fn run_all_with(config: &ServerConfig, cases: &[(&str, &str)]) {
    for (covers, script) in cases {
        println!("case {covers}");
        Rig::new(config.clone()).run(script);
        println!("covers: {covers}");
    }
}
