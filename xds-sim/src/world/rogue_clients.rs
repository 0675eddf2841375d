//! Rogue clients: their requests must not affect the world's clients.
//!
//! A rogue client answers each response at once. It stays connected until all faults are repaired
//! or the server closes its stream.

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    Frame, StreamId, Time, Timer, proto,
    server::{CloseReason, Server, StreamEvent, StreamKind},
    service::Variant,
};

use super::{
    MOST_NAMES, Party, World,
    admission::{Reception, has_type_url},
    message::{Response, read_response},
    names::numbered,
    parts::{Plane, StreamKey},
};
use crate::{options::Lie, situations::Situation, world::events::Rule};

const NO_LOOP: Rule = Rule::new(
    "IS4",
    "a client that rejects everything, or changes its subscription endlessly, is not answered endlessly at one instant",
);

/// A type that neither clients nor servers know.
const UNKNOWN_TYPE: &str = "type.googleapis.com/made.up.Type";

/// Maximum number of responses to a rogue client at one instant.
const ANSWERS: u32 = 400;

/// Maximum number of rogue clients at a time.
const MAX_ROGUE_CLIENTS: usize = 6;

/// Number of subscription changes that [`Lie::Churner`] makes in a row.
const CHANGES: u32 = 120;

/// Number of names that [`Lie::ExcessiveNames`] requests, rarely and normally.
const NAMES: u32 = 3_000;
const FEWER: u32 = 100;

/// Number of names above the server's limit.
const TOO_MANY: u32 = MOST_NAMES as u32 + 1_000;

/// Length of the longest names and messages, 1 MiB, used rarely because copying them is slow.
const LONGEST: usize = 1 << 20;

/// Length of overlong names.
const LONG: usize = 5_000;

/// A client that violates the protocol.
#[derive(Debug)]
pub(super) struct RogueClient {
    pub(super) server: usize,
    pub(super) stream: StreamId,
    lie: Lie,
    /// Whether its NACKs have an error message of 1 MiB.
    is_verbose: bool,
    variant: Variant,
    /// Number of names that it has requested.
    asked: usize,
    /// Number of responses that it has received.
    responses: u32,
    /// Number of responses of a known type that it has received.
    pub(super) served: u32,
    /// Current instant, and the number of responses received at it.
    responses_now: (Time, u32),
}

/// Contents of a request.
#[derive(Default)]
struct RequestFields {
    node: Option<String>,
    nonce: String,
    version: String,
    error: Option<usize>,
    names: Vec<String>,
    unsubscribed: Vec<String>,
}

impl RequestFields {
    fn named(names: &[&str]) -> Self {
        Self {
            node: Some("stranger".into()),
            names: names.iter().map(|&name| name.into()).collect(),
            ..Self::default()
        }
    }

    fn in_variant(self, variant: Variant, type_url: &str) -> Bytes {
        let node = self.node.map(|id| proto::Node { id, ..Default::default() });
        let error_detail = self.error.map(|length| proto::Status {
            code: 3,
            message: "x".repeat(length),
            ..Default::default()
        });
        match variant {
            Variant::StateOfTheWorld => proto::DiscoveryRequest {
                node,
                type_url: type_url.into(),
                response_nonce: self.nonce,
                version_info: self.version,
                resource_names: self.names,
                error_detail,
                ..Default::default()
            }
            .encode_to_vec(),
            Variant::Incremental => proto::DeltaDiscoveryRequest {
                node,
                type_url: type_url.into(),
                response_nonce: self.nonce,
                resource_names_subscribe: self.names,
                resource_names_unsubscribe: self.unsubscribed,
                error_detail,
                ..Default::default()
            }
            .encode_to_vec(),
        }
        .into()
    }
}

impl World {
    /// Opens a stream of a rogue client to a server. Has no effect on a user-defined control plane.
    pub fn add_rogue_client(&mut self, server: usize, lie: Lie, kind: usize, nth: u32) {
        let is_ours = matches!(self.servers[server].core, Plane::Core(_));
        if !is_ours || self.rogue_clients.len() >= MAX_ROGUE_CLIENTS {
            return;
        }
        let lane = self.servers[server].lane;
        self.fault_occurs(&[lane], "a rogue client sends requests");
        let variant = self.options.variant;
        let via = match lie {
            Lie::WrongType => StreamKind::Single { type_url: self.types[kind].clone(), variant },
            _ => StreamKind::Aggregated(variant),
        };
        let Some(StreamKey::Core(stream)) = self.accept(server, &via) else { return };
        let responses_now = (self.now, 0);
        let is_verbose = nth.is_multiple_of(8);
        let asked = 0;
        let rogue_client = RogueClient {
            server,
            stream,
            lie,
            is_verbose,
            variant,
            asked,
            responses: 0,
            served: 0,
            responses_now,
        };
        self.rogue_clients.push(rogue_client);
        for message in self.first_requests(lie, kind, nth) {
            self.send_rogue_request(server, stream, message);
        }
        self.drain_server(server);
        // If a request is handled in parts, the answer may come later.
        let due = self.server(server).and_then(Server::poll_timeout);
        let is_answered = due.is_none_or(|due| due.why != Timer::UnfinishedWork);
        if is_answered && !self.is_suspended(Party::Server(server)) {
            self.check_reception((server, stream), lie, kind, nth);
        }
    }

    /// Checks a server's treatment of a rogue client's first requests.
    fn check_reception(
        &mut self,
        (server, stream): (usize, StreamId),
        lie: Lie,
        kind: usize,
        nth: u32,
    ) {
        let mut rogue_clients = self.rogue_clients.iter();
        let rogue_client = rogue_clients.find(|it| (it.server, it.stream) == (server, stream));
        let has_resources = !self.has(server, 0)[kind].is_empty();
        let reception = Reception::of(rogue_client, has_resources, &self.options);
        if let Some(rule) = reception.breaks(lie, nth, &self.options) {
            self.break_rule(&rule, format!("{}: {reception:?}", lie.as_str()));
        }
    }

    fn send_rogue_request(&mut self, server: usize, stream: StreamId, message: Bytes) {
        self.count_event();
        let mut of_server = self.rogue_clients.iter();
        if let Some(it) = of_server.find(|it| (it.server, it.stream) == (server, stream)) {
            self.takes_effect(it.lie);
        }
        let now = self.now;
        let _guard = self.act_as_server(server, "reads a request of a rogue client");
        let Some(core) = self.core(server) else { return };
        let before = core.stats().malformed_requests;
        core.handle_event(StreamEvent::Message(stream, message), now);
        if core.stats().malformed_requests > before {
            self.note(Situation::MalformedRequest);
        }
    }

    /// Returns the first requests of a rogue client.
    fn first_requests(&mut self, lie: Lie, kind: usize, nth: u32) -> Vec<Bytes> {
        let variant = self.options.variant;
        let type_urls: Vec<String> =
            self.types.iter().map(|type_url| type_url.as_str().into()).collect();
        let own = type_urls[kind].as_str();
        let encode = |fields: RequestFields| fields.in_variant(variant, own);
        let other = match variant {
            Variant::StateOfTheWorld => Variant::Incremental,
            Variant::Incremental => Variant::StateOfTheWorld,
        };
        match lie {
            Lie::Rejecter => {
                let all =
                    |type_url: &String| RequestFields::named(&["*"]).in_variant(variant, type_url);
                type_urls.iter().map(all).collect()
            }
            Lie::Churner => {
                self.note(Situation::Churned);
                let turns = (0..CHANGES).map(|turn| match turn % 3 {
                    0 => RequestFields::named(&["r0", "r1", "*"]),
                    1 => RequestFields {
                        unsubscribed: vec!["r0".into(), "*".into(), "r9".into()],
                        ..RequestFields::named(&["r1"])
                    },
                    _ => RequestFields {
                        unsubscribed: vec!["r1".into()],
                        ..RequestFields::named(&[])
                    },
                });
                turns.map(encode).collect()
            }
            Lie::FutureAck => {
                self.note(Situation::FutureAck);
                let answer = |nonce: u32, error| RequestFields {
                    nonce: nonce.to_string(),
                    version: "of tomorrow".into(),
                    error,
                    ..RequestFields::named(&["r0", "*"])
                };
                let first =
                    if nth.is_multiple_of(2) { Some(RequestFields::named(&["*"])) } else { None };
                let answers = (1..6).map(|it| answer(it + nth, (it == 3).then_some(9)));
                first.into_iter().chain(answers).map(encode).collect()
            }
            Lie::Impostor => {
                self.note(Situation::NodeChanged);
                let nodes = [Some("one".into()), Some("another".into()), None, Some(String::new())];
                nodes
                    .map(|node| encode(RequestFields { node, ..RequestFields::named(&["*"]) }))
                    .into()
            }
            Lie::ExcessiveNames => {
                let excessive_request = self.excessive_request(nth);
                if let Some(rogue_client) = self.rogue_clients.last_mut() {
                    rogue_client.asked = excessive_request.names.len();
                }
                vec![encode(excessive_request), encode(RequestFields::named(&["r0"]))]
            }
            Lie::Bilingual => {
                self.note(Situation::BothVariants);
                let both = [variant, other, variant, other];
                let fields = || RequestFields {
                    unsubscribed: vec!["r1".into()],
                    ..RequestFields::named(&["r0", "*"])
                };
                both.map(|variant| fields().in_variant(variant, own)).into()
            }
            Lie::UnknownTypes => {
                let unknown = if has_type_url(nth) { UNKNOWN_TYPE } else { "" };
                let foreign =
                    |names: &[&str]| RequestFields::named(names).in_variant(variant, unknown);
                vec![foreign(&["x"]), encode(RequestFields::named(&["*"])), foreign(&["x", "*"])]
            }
            Lie::WrongType => {
                let next = type_urls.get((kind + 1) % type_urls.len());
                let next = next.filter(|it| *it != own).map_or(UNKNOWN_TYPE, String::as_str);
                let stray = RequestFields::named(&["r0"]).in_variant(variant, next);
                vec![encode(RequestFields::named(&["r0"])), stray]
            }
            _ if nth.is_multiple_of(2) => vec![vec![0xff; 1 + nth as usize].into(), Bytes::new()],
            _ => {
                let polite = || RequestFields {
                    nonce: "never given".into(),
                    ..RequestFields::named(&["", "*", "r0", "r0"])
                };
                vec![encode(polite()), encode(polite())]
            }
        }
    }

    /// Returns a request with malformed names.
    fn excessive_request(&mut self, nth: u32) -> RequestFields {
        let is_rare = (nth / 3).is_multiple_of(4);
        match nth % 3 {
            0 => RequestFields::named(&[
                "",
                "xdstp:",
                "xdstp://",
                "xdstp:///",
                "xdstp://apart",
                "xdstp://apart/*",
                "xdstp://apart/no.Type/*?*",
                "xdstp://apart/no.Type/a?b=1&b=2",
                "xdstp://apart/no.Type/a?=&&;%zz#%",
            ]),
            1 => RequestFields::named(&[&"x".repeat(if is_rare { LONGEST } else { LONG })]),
            _ => {
                let count = match (is_rare, (nth / 12).is_multiple_of(4)) {
                    (true, true) => TOO_MANY,
                    (true, false) => NAMES,
                    (false, _) => FEWER,
                };
                if is_rare {
                    self.note(Situation::ThousandsRequested);
                }
                let names: Vec<String> = (0..count).map(|at| numbered("n", at)).collect();
                RequestFields {
                    unsubscribed: names[names.len() / 2..].to_vec(),
                    names,
                    ..RequestFields::named(&[])
                }
            }
        }
    }

    /// Delivers responses to a rogue client.
    pub(super) fn serve_rogue_client(&mut self, server: usize, stream: StreamId) {
        let now = self.now;
        let mut frame = Frame::default();
        while let Some(core) = self.core(server)
            && core.poll_transmit(stream, now, &mut frame).is_some()
        {
            if !self.may_take_more(Party::Server(server)) {
                return;
            }
            let mut of_server = self.rogue_clients.iter_mut();
            let Some(rogue_client) =
                of_server.find(|it| (it.server, it.stream) == (server, stream))
            else {
                continue;
            };
            self.events += 1;
            rogue_client.responses += 1;
            let responses_now = if rogue_client.responses_now.0 == now {
                rogue_client.responses_now.1 + 1
            } else {
                1
            };
            rogue_client.responses_now = (now, responses_now);
            let (responses, lie, variant) =
                (rogue_client.responses, rogue_client.lie, rogue_client.variant);
            let is_huge = rogue_client.is_verbose && responses == 1;
            if responses_now > ANSWERS {
                return self
                    .break_rule(&NO_LOOP, format!("{} has {responses} answers", lie.as_str()));
            }
            let Some(response) = read_response(&frame.to_bytes(), variant, &self.types) else {
                continue;
            };
            if response.kind.is_some() {
                rogue_client.served += 1;
                if lie == Lie::UnknownTypes {
                    self.note(Situation::ServedDespiteUnknownType);
                }
            }
            let answer = self.rogue_answer(lie, variant, responses, is_huge, &response);
            if let Some(answer) = answer {
                self.send_rogue_request(server, stream, answer);
            }
        }
    }

    fn rogue_answer(
        &mut self,
        lie: Lie,
        variant: Variant,
        responses: u32,
        is_huge: bool,
        response: &Response,
    ) -> Option<Bytes> {
        let own = self.types.get(response.kind?)?.as_str().to_owned();
        let mut fields = RequestFields::named(&[]);
        fields.nonce = response.nonce.as_str().into();
        match lie {
            Lie::Rejecter => {
                if responses > self.types.len() as u32 {
                    self.note(Situation::RejectedAgain);
                }
                fields.error = Some(if is_huge { LONGEST } else { 9 });
                if is_huge {
                    self.note(Situation::HugeError);
                }
                if variant == Variant::StateOfTheWorld {
                    fields.names = vec!["*".into()];
                }
            }
            // ACK, followed by an unsubscribe or a new subscribe.
            Lie::Churner if responses < CHANGES => {
                fields.version = response.version.as_str().into();
                match responses % 2 {
                    0 => fields.names = vec!["r0".into(), "*".into()],
                    _ => {
                        fields.names = vec!["r1".into()];
                        fields.unsubscribed = vec!["r0".into(), "*".into()];
                    }
                }
            }
            _ => return None,
        }
        Some(fields.in_variant(variant, &own))
    }

    /// Notes that a server has closed a rogue client's stream.
    pub(super) fn note_close_reason(&mut self, why: &CloseReason) {
        match why {
            CloseReason::NameTooLong { .. } => self.note(Situation::LongNameRefused),
            CloseReason::TooManyNames { .. } => self.note(Situation::TooManyNamesRefused),
            CloseReason::WrongTypeUrl { .. } => self.note(Situation::WrongTypeRefused),
            CloseReason::MissingTypeUrl => self.note(Situation::MissingTypeRefused),
            CloseReason::UnknownType { .. } => self.note(Situation::UnknownTypeRefused),
            CloseReason::NodeChanged => self.note(Situation::ChangedNodeRefused),
            _ => {}
        }
    }

    /// Number of names requested by each connected rogue client of a server.
    pub(crate) fn rogue_name_counts(&self, server: usize) -> impl Iterator<Item = usize> {
        let of_server =
            self.rogue_clients.iter().filter(move |rogue_client| rogue_client.server == server);
        of_server.map(|rogue_client| rogue_client.asked)
    }

    /// Disconnects all rogue clients.
    pub(super) fn remove_rogue_clients(&mut self) {
        let now = self.now;
        for rogue_client in std::mem::take(&mut self.rogue_clients) {
            if let Some(core) = self.core(rogue_client.server) {
                core.handle_event(StreamEvent::Closed(rogue_client.stream), now);
            }
            self.drain_server(rogue_client.server);
        }
    }
}
