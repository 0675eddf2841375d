//! A server without a network, driven by short scripts of requests and expected responses.
//!
//! Each line is one step, or several separated by `|`. `#` starts a comment.
//!
//! | line | meaning |
//! |---|---|
//! | `set cds a=1 b=2 -c; eds x=1` | one transaction: sets `a` and `b`, removes `c`, sets `x` |
//! | `set eds !a=7` | sets an error: subscribers to `a` get status code 7 |
//! | `set eds a~10s=1` | sets `a` with a TTL of ten seconds |
//! | `set eds a+x+y=1` | sets `a` with the aliases `x` and `y` |
//! | `set eds a^7=1` | sets `a` with an explicit version |
//! | `set cds v:5 a=1` | sets the version of the type to `5` |
//! | `> cds a b` | the client lists `a` and `b`, with the last received nonce and version |
//! | `> cds nack a b` | a NACK: with an error and the last accepted version |
//! | `> cds a loc:b loc:c;env=x` | lists `b` and `c` by locator, `c` with a dynamic parameter |
//! | `> cds nonce:7 version:x a` | with an explicit nonce or version; `nonce:` sends none |
//! | `< cds first a=1 b=2 !c=7` | expects the next response: type, cause, then resources and errors in any order |
//! | `< cds first v:5 a=1` | expects a response with this version |
//! | `<` | expects no response |
//! | `set @v cds a=1` | a transaction on the view `v` |
//! | `layers v over base` | composes the view `v` of these layers, topmost first |
//! | `assign 2 v` | the application assigns the view `v` to stream 2 |
//! | `close`, `shutdown` | the client closes its stream; the server shuts down |
//! | `ready` | the application reports that the resources are loaded |
//! | `drain 10s grace 1s` | the server ends its streams over 10 seconds, waiting 1 second for answers |
//! | `closed 14` | expects that the server ended the stream with this status code; the next step opens a new stream |
//! | `open` | expects that the server has not ended the stream |
//! | `lag cds 3 pending 1 2 rejected 4` | expects the streams that have not accepted the third effective change |
//! | `tell cds 3`, `told cds 3`, `untold` | requests a convergence event; expects it; expects none |
//! | `sync cds a:synced b:notsent` | expects this server-side client status of a type |
//! | `wanted eds a`, `unwanted eds a` | expects this name next in an on-demand event |
//! | `asked` | expects no on-demand event |
//! | `wait 15s`, `wait 200ms` | time passes; the server is woken exactly at its deadlines |
//!
//! A number before `>`, `<`, `close`, `closed` or `open` selects the stream, as in `2> cds`. A
//! stream opens with its first request. A resource's payload is `name=value`, so that responses can
//! be read.
//!
//! A resource in a response is `a~10s=1` if it has a TTL, and `a~10s` if it is a heartbeat. A
//! client whose first step has a `t` before `>` announces TTL support, with a `u` TTL support
//! without wrappers.
//!
//! A stream whose first step has a `d` before `>` is incremental (`td>` combines both):
//!
//! | line | meaning |
//! |---|---|
//! | `d> cds +a -b` | subscribes to `a` and unsubscribes from `b`, without a nonce |
//! | `d> cds ack +a`, `d> cds nack` | answers the last received response |
//! | `d> cds has:a=1 has:b@old` | states `a` in the version of content `1`, and `b` in version `old` |
//! | `d> cds nonce:7 loc:a` | with an explicit nonce; subscribes to `a` by locator |
//! | `d> cds loc:a;env=x -loc:b;env=x` | subscribes and unsubscribes by locators with a dynamic parameter |
//! | `d< cds first a=1 -b` | expects a response: type, cause, then resources and removed names in any order |
//! | `d< cds first ?a` | expects a resource with only a name |

mod messages;
pub(crate) mod model;
mod operation;
mod received;
mod transaction;

pub(crate) use received::{Received, Response};
use transaction::duration;
pub(crate) use transaction::{transaction, transaction_in};

use core::time::Duration;
use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    StreamId, Time, Timer, ViewName,
    proto::{DiscoveryRequest, Node},
    server::{
        Connection, DrainPlan, Observation, Server, ServerConfig, ServerOutput, StreamEvent,
        StreamKind, Variant,
    },
    types,
};

pub(crate) const SEED: u64 = 0x5eed;

/// Returns the type URL of a short name such as `cds`, or its version 2 URL for `cds2`. Other names
/// are custom types.
pub(crate) fn url(short: &str) -> String {
    let older = short.strip_suffix('2').and_then(types::by_short_name).and_then(types::v2_type_url);
    let known = older.or_else(|| types::by_short_name(short));
    known.map_or_else(|| format!("type.test/{short}"), String::from)
}

/// Returns the encoding of a resource in these tests.
pub(crate) fn payload(name: &str, content: &str) -> Bytes {
    Bytes::from(format!("{name}={content}"))
}

/// One server and its clients.
pub(crate) struct Rig {
    pub(crate) server: Server,
    pub(crate) now: Time,
    /// Outputs that were not taken yet.
    pub(crate) outputs: Vec<ServerOutput>,
    pub(crate) parts: Parts,
    /// Revision of the source at which transactions are made; zero for none.
    revision: u64,
    streams: BTreeMap<u32, Peer>,
    /// Received version of each content, by type and `name=content`.
    versions: BTreeMap<(String, String), String>,
}

/// Time at which the parts of unfinished work are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    /// After each step. The environment variable `XDS_NAMES_PER_TURN` sets the size of a part, so
    /// that all scripts can be run with requests in parts.
    AtOnce,
    /// By [`Rig::part`].
    OnRequest,
}

/// One stream from its client's perspective.
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
    /// Last received version of each resource.
    resources: BTreeMap<String, String>,
}

impl Peer {
    /// Returns the node for the first request.
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

    pub(crate) fn seeded(mut config: ServerConfig, seed: u64) -> Self {
        if let Some(names) = std::env::var("XDS_NAMES_PER_TURN").ok().and_then(|it| it.parse().ok())
        {
            config.limits.names_per_call = names;
        }
        Self {
            server: Server::new(config, seed, Time::ZERO),
            now: Time::ZERO,
            outputs: Vec::new(),
            parts: Parts::AtOnce,
            revision: 0,
            streams: BTreeMap::new(),
            versions: BTreeMap::new(),
        }
    }

    /// Runs a script with a default server.
    pub(crate) fn script(lines: &str) -> Self {
        let mut rig = Self::default();
        rig.run(lines);
        rig
    }

    pub(crate) fn run(&mut self, lines: &str) {
        for line in lines.lines() {
            let steps = line.split('#').next().unwrap_or_default();
            for step in steps.split('|').map(str::trim).filter(|step| !step.is_empty()) {
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
            "at" => self.revision = rest.parse().expect("a revision"),
            "reached" => {
                self.server.source_reached(rest.parse().expect("a revision"), self.now);
            }
            "confirmed" => {
                let revision = (rest != "unknown").then(|| rest.parse().expect("a revision"));
                self.server.source_confirmed(revision, self.now);
            }
            "unconfirmed" => self.server.source_confirmation_failed(self.now),
            "unreachable" => self.server.source_unreachable(self.now),
            "confirm" => assert!(self.take_confirmation(), "no confirmation was requested"),
            "unasked" => assert!(!self.take_confirmation(), "a confirmation was requested"),
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
                let plan = DrainPlan::new(duration(grace)).with_period(duration(over));
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
                        self.server.notify_when_converged(&view, &type_url, sequence, self.now);
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

    /// Adds a client feature to the first request.
    pub(crate) fn announce(&mut self, stream: u32, feature: &str) {
        self.stream(stream);
        let peer = self.streams.get_mut(&stream).expect("an open stream");
        peer.features.push(feature.into());
    }

    /// Lets time pass like a driver that sleeps exactly to the next deadline.
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

    /// Applies a transaction in script notation.
    pub(crate) fn set(&mut self, changes: &str) -> xds_core::server::Applied {
        let mut transaction = transaction(changes);
        transaction.source_revision(self.revision);
        let applied = self.server.apply(transaction, self.now);
        self.drain();
        applied.expect("a good transaction")
    }

    /// Opens the stream if it does not exist.
    pub(crate) fn stream(&mut self, number: u32) -> StreamId {
        self.stream_in(number, Variant::StateOfTheWorld)
    }

    fn stream_in(&mut self, number: u32, variant: Variant) -> StreamId {
        if let Some(peer) = self.streams.get(&number) {
            return peer.id;
        }
        let id = self.server.accept(StreamKind::Aggregated(variant), self.now).expect("a stream");
        self.add_stream(number, variant, id);
        id
    }

    /// Opens a stream of a connection.
    pub(crate) fn open_on(&mut self, number: u32, variant: Variant, connection: &Connection) {
        let kind = StreamKind::Aggregated(variant);
        let id = self.server.accept_on(connection, kind, self.now).expect("a stream");
        self.add_stream(number, variant, id);
    }

    fn add_stream(&mut self, number: u32, variant: Variant, id: StreamId) {
        let (features, types) = (Vec::new(), BTreeMap::new());
        let peer = Peer { id, variant, node_sent: false, features, types };
        self.streams.insert(number, peer);
    }

    pub(crate) fn event(&mut self, event: StreamEvent) {
        self.server.handle_event(event, self.now);
        self.drain();
    }

    pub(crate) fn message(&mut self, id: StreamId, request: &DiscoveryRequest) {
        self.event(StreamEvent::Message(id, request.encode_to_vec().into()));
    }

    /// Returns the last received nonce of a type.
    pub(crate) fn nonce(&self, stream: u32, short: &str) -> String {
        self.streams
            .get(&stream)
            .and_then(|peer| peer.types.get(&url(short)))
            .map_or_else(String::new, |held| held.nonce.clone())
    }

    pub(crate) fn drain(&mut self) {
        loop {
            while let Some(output) = self.server.poll_output() {
                self.outputs.push(output);
            }
            let why = self.server.poll_timeout().map(|next| next.why);
            assert_ne!(why, Some(Timer::QueuedOutput), "nothing is queued (rule 4)");
            if self.parts == Parts::OnRequest || why != Some(Timer::UnfinishedWork) {
                return;
            }
            self.server.handle_timeout(self.now);
        }
    }

    /// Handles one part of the unfinished work. Returns the number of names in it, or `None` if no
    /// work is left.
    pub(crate) fn part(&mut self) -> Option<u64> {
        let next = self.server.poll_timeout()?;
        if next.why != Timer::UnfinishedWork {
            return None;
        }
        assert_eq!(next.at, self.now, "unfinished work is due now");
        let before = self.server.handled_names();
        self.server.handle_timeout(self.now);
        self.drain();
        Some(self.server.handled_names() - before)
    }

    /// Takes the observations so far.
    pub(crate) fn observations(&mut self) -> Vec<Observation> {
        core::mem::take(&mut self.outputs)
            .into_iter()
            .filter_map(|output| match output {
                ServerOutput::Observed(observation) => Some(observation),
                _ => None,
            })
            .collect()
    }

    /// Takes the outputs so far except observations.
    pub(crate) fn effects(&mut self) -> Vec<ServerOutput> {
        core::mem::take(&mut self.outputs)
            .into_iter()
            .filter(|output| !matches!(output, ServerOutput::Observed(_)))
            .collect()
    }
}

/// Returns a first wildcard request of a type from this node.
pub(crate) fn request_of(node: &str, short: &str) -> DiscoveryRequest {
    DiscoveryRequest {
        node: Some(Node { id: node.into(), ..Node::default() }),
        type_url: url(short),
        ..DiscoveryRequest::default()
    }
}

/// Returns the default configuration with a change to the rules of all types.
pub(crate) fn every_type(change: impl FnMut(&mut xds_core::server::TypeConfig)) -> ServerConfig {
    ServerConfig::default().with_every_type(change)
}

/// Runs every script, each with a default server, and prints the ids it covers.
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

/// Runs the cases of a table, each with its own server, and prints the ids that they cover.
///
/// A case is a line `== name [IDS]` and a script, which may contain names of `starts`.
pub(crate) fn run_table(config: &ServerConfig, starts: &[(&str, &str)], table: &str) {
    for case in table.split("== ").skip(1) {
        let (title, script) = case.split_once('\n').expect("a title and a script");
        let (name, covers) = title.split_once(" [").expect("`name [IDS]`");
        let script = expanded(starts, script);
        let run = || Rig::new(config.clone()).run(&script);
        let passed = catch_unwind(AssertUnwindSafe(run)).is_ok();
        assert!(passed, "case failed: {name}");
        println!("covers: {}", covers.trim_end_matches(']'));
    }
}

/// Returns a script in which each line that is a name of `starts` is replaced by its script.
pub(crate) fn expanded(starts: &[(&str, &str)], script: &str) -> String {
    starts.iter().fold(script.to_owned(), |script, (name, start)| {
        let lines = script.lines().map(|line| if line.trim() == *name { *start } else { line });
        lines.collect::<Vec<_>>().join("\n")
    })
}
