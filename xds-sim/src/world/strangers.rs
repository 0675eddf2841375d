//! Rogue clients: their requests must not affect the world's clients.
//!
//! A rogue client answers each response at once. It stays connected until all faults are repaired
//! or the server closes its stream.

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    Frame, StreamId, Time, proto,
    server::{CloseReason, StreamEvent, Via},
    service::Variant,
};

use super::{
    MOST_NAMES, Party, World,
    message::{Response, read_response},
    parts::{Plane, StreamKey},
    reception::{Reception, says_type},
};
use crate::{options::Lie, oracle::Rule, situations::Situation};

const NO_LOOP: Rule = Rule::new(
    "IS4",
    "who rejects everything, or changes its mind for ever, is not answered for ever at one instant",
);

/// A type that neither clients nor servers know.
const UNKNOWN_TYPE: &str = "type.googleapis.com/made.up.Type";

/// Maximum number of responses to a rogue client at one instant.
const ANSWERS: u32 = 400;

/// Maximum number of rogue clients at a time.
const STRANGERS: usize = 6;

/// Number of subscription changes that [`Lie::Churner`] makes in a row.
const CHANGES: u32 = 120;

/// Number of names that [`Lie::Babbler`] requests, rarely and normally.
const NAMES: usize = 3_000;
const FEWER: usize = 100;

/// Number of names above the server's limit.
const TOO_MANY: usize = MOST_NAMES + 1_000;

/// Length of the longest names and messages, 1 MiB, used rarely because copying them is slow.
const LONGEST: usize = 1 << 20;

/// Length of overlong names.
const LONG: usize = 5_000;

/// A client that violates the protocol.
#[derive(Debug)]
pub(super) struct Stranger {
    pub(super) server: usize,
    pub(super) stream: StreamId,
    manner: Lie,
    /// Whether its NACKs have an error message of 1 MiB.
    is_verbose: bool,
    variant: Variant,
    /// Number of names that it has requested.
    asked: usize,
    /// Number of responses that it has received.
    told: u32,
    /// Number of responses of a known type that it has received.
    pub(super) served: u32,
    /// Current instant, and the number of responses received at it.
    told_now: (Time, u32),
}

/// Contents of a request.
#[derive(Default)]
struct Words {
    node: Option<String>,
    nonce: String,
    version: String,
    error: Option<usize>,
    names: Vec<String>,
    unsubscribed: Vec<String>,
}

impl Words {
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
    pub fn let_stranger_in(&mut self, server: usize, manner: Lie, kind: usize, nth: u32) {
        let is_ours = matches!(self.servers[server].core, Plane::Core(_));
        if !is_ours || self.strangers.len() >= STRANGERS {
            return;
        }
        let lane = self.servers[server].lane;
        self.strike(&[lane], "a stranger speaks");
        let variant = self.options.variant;
        let via = match manner {
            Lie::Stray => Via::Single { type_url: self.types[kind].clone(), variant },
            _ => Via::Aggregated(variant),
        };
        let Some(StreamKey::Core(stream)) = self.accept(server, &via) else { return };
        let told_now = (self.now, 0);
        let is_verbose = nth.is_multiple_of(8);
        let asked = 0;
        let stranger = Stranger {
            server,
            stream,
            manner,
            is_verbose,
            variant,
            asked,
            told: 0,
            served: 0,
            told_now,
        };
        self.strangers.push(stranger);
        for message in self.opening(manner, kind, nth) {
            self.hear_stranger(server, stream, message);
        }
        self.drain_server(server);
        if !self.is_starved(Party::Server(server)) {
            self.judge_reception((server, stream), manner, kind, nth);
        }
    }

    /// Checks a server's treatment of a rogue client's first requests.
    fn judge_reception(
        &mut self,
        (server, stream): (usize, StreamId),
        manner: Lie,
        kind: usize,
        nth: u32,
    ) {
        let mut strangers = self.strangers.iter();
        let stranger = strangers.find(|it| (it.server, it.stream) == (server, stream));
        let there_is = !self.has(server, 0)[kind].is_empty();
        let reception = Reception::of(stranger, there_is, &self.options);
        if let Some(rule) = reception.breaks(manner, nth, &self.options) {
            self.break_rule(&rule, format!("{}: {reception:?}", manner.as_str()));
        }
    }

    fn hear_stranger(&mut self, server: usize, stream: StreamId, message: Bytes) {
        self.count_event();
        let mut of_server = self.strangers.iter();
        if let Some(it) = of_server.find(|it| (it.server, it.stream) == (server, stream)) {
            self.takes_effect(it.manner);
        }
        let now = self.now;
        let _turn = self.turn_of_server(server, "reads a request of a stranger");
        let Some(core) = self.core(server) else { return };
        let before = core.stats().malformed_requests;
        core.handle_event(StreamEvent::Message(stream, message), now);
        if core.stats().malformed_requests > before {
            self.note(Situation::MalformedRequest);
        }
    }

    /// Returns the first requests of a rogue client.
    fn opening(&mut self, manner: Lie, kind: usize, nth: u32) -> Vec<Bytes> {
        let variant = self.options.variant;
        let type_urls: Vec<String> =
            self.types.iter().map(|type_url| type_url.as_str().into()).collect();
        let own = type_urls[kind].as_str();
        let say = |words: Words| words.in_variant(variant, own);
        let other = match variant {
            Variant::StateOfTheWorld => Variant::Incremental,
            Variant::Incremental => Variant::StateOfTheWorld,
        };
        match manner {
            Lie::Rejecter => {
                let all = |type_url: &String| Words::named(&["*"]).in_variant(variant, type_url);
                type_urls.iter().map(all).collect()
            }
            Lie::Churner => {
                self.note(Situation::Churned);
                let turns = (0..CHANGES).map(|turn| match turn % 3 {
                    0 => Words::named(&["r0", "r1", "*"]),
                    1 => Words {
                        unsubscribed: vec!["r0".into(), "*".into(), "r9".into()],
                        ..Words::named(&["r1"])
                    },
                    _ => Words { unsubscribed: vec!["r1".into()], ..Words::named(&[]) },
                });
                turns.map(say).collect()
            }
            Lie::Prophet => {
                self.note(Situation::FutureAnswered);
                let answer = |nonce: u32, error| Words {
                    nonce: nonce.to_string(),
                    version: "of tomorrow".into(),
                    error,
                    ..Words::named(&["r0", "*"])
                };
                let first = if nth.is_multiple_of(2) { Some(Words::named(&["*"])) } else { None };
                let answers = (1..6).map(|it| answer(it + nth, (it == 3).then_some(9)));
                first.into_iter().chain(answers).map(say).collect()
            }
            Lie::Impostor => {
                self.note(Situation::NodeChanged);
                let nodes = [Some("one".into()), Some("another".into()), None, Some(String::new())];
                nodes.map(|node| say(Words { node, ..Words::named(&["*"]) })).into()
            }
            Lie::Babbler => {
                let babble = self.babble(nth);
                if let Some(stranger) = self.strangers.last_mut() {
                    stranger.asked = babble.names.len();
                }
                vec![say(babble), say(Words::named(&["r0"]))]
            }
            Lie::Bilingual => {
                self.note(Situation::BothVariants);
                let both = [variant, other, variant, other];
                let words =
                    || Words { unsubscribed: vec!["r1".into()], ..Words::named(&["r0", "*"]) };
                both.map(|variant| words().in_variant(variant, own)).into()
            }
            Lie::Foreigner => {
                let unknown = if says_type(nth) { UNKNOWN_TYPE } else { "" };
                let foreign = |names: &[&str]| Words::named(names).in_variant(variant, unknown);
                vec![foreign(&["x"]), say(Words::named(&["*"])), foreign(&["x", "*"])]
            }
            Lie::Stray => {
                let next = type_urls.get((kind + 1) % type_urls.len());
                let next = next.filter(|it| *it != own).map_or(UNKNOWN_TYPE, String::as_str);
                let stray = Words::named(&["r0"]).in_variant(variant, next);
                vec![say(Words::named(&["r0"])), stray]
            }
            _ if nth.is_multiple_of(2) => vec![vec![0xff; 1 + nth as usize].into(), Bytes::new()],
            _ => {
                let polite = || Words {
                    nonce: "never given".into(),
                    ..Words::named(&["", "*", "r0", "r0"])
                };
                vec![say(polite()), say(polite())]
            }
        }
    }

    /// Returns a request with malformed names.
    fn babble(&mut self, nth: u32) -> Words {
        let is_rare = (nth / 3).is_multiple_of(4);
        match nth % 3 {
            0 => Words::named(&[
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
            1 => Words::named(&[&"x".repeat(if is_rare { LONGEST } else { LONG })]),
            _ => {
                let count = match (is_rare, (nth / 12).is_multiple_of(4)) {
                    (true, true) => TOO_MANY,
                    (true, false) => NAMES,
                    (false, _) => FEWER,
                };
                if is_rare {
                    self.note(Situation::NamesWithoutEnd);
                }
                let names: Vec<String> = (0..count).map(|at| format!("n{at}")).collect();
                Words { unsubscribed: names[count / 2..].to_vec(), names, ..Words::named(&[]) }
            }
        }
    }

    /// Delivers responses to a rogue client.
    pub(super) fn tell_stranger(&mut self, server: usize, stream: StreamId) {
        let now = self.now;
        let mut frame = Frame::default();
        while let Some(core) = self.core(server)
            && core.poll_transmit(stream, now, &mut frame).is_some()
        {
            if !self.may_take_more(Party::Server(server)) {
                return;
            }
            let mut of_server = self.strangers.iter_mut();
            let Some(stranger) = of_server.find(|it| (it.server, it.stream) == (server, stream))
            else {
                continue;
            };
            self.events += 1;
            stranger.told += 1;
            let told_now = if stranger.told_now.0 == now { stranger.told_now.1 + 1 } else { 1 };
            stranger.told_now = (now, told_now);
            let (told, manner, variant) = (stranger.told, stranger.manner, stranger.variant);
            let is_huge = stranger.is_verbose && told == 1;
            if told_now > ANSWERS {
                return self
                    .break_rule(&NO_LOOP, format!("{} has {told} answers", manner.as_str()));
            }
            let Some(response) = read_response(&frame.to_bytes(), variant, &self.types) else {
                continue;
            };
            if response.kind.is_some() {
                stranger.served += 1;
                if manner == Lie::Foreigner {
                    self.note(Situation::ServedBesideUnknownType);
                }
            }
            let answer = self.answer_of_stranger(manner, variant, told, is_huge, &response);
            if let Some(answer) = answer {
                self.hear_stranger(server, stream, answer);
            }
        }
    }

    fn answer_of_stranger(
        &mut self,
        manner: Lie,
        variant: Variant,
        told: u32,
        is_huge: bool,
        response: &Response,
    ) -> Option<Bytes> {
        let own = self.types.get(response.kind?)?.as_str().to_owned();
        let mut words = Words::named(&[]);
        words.nonce = response.nonce.as_str().into();
        match manner {
            Lie::Rejecter => {
                if told > self.types.len() as u32 {
                    self.note(Situation::RejectedAgain);
                }
                words.error = Some(if is_huge { LONGEST } else { 9 });
                if is_huge {
                    self.note(Situation::HugeError);
                }
                if variant == Variant::StateOfTheWorld {
                    words.names = vec!["*".into()];
                }
            }
            // ACK, followed by an unsubscribe or a new subscribe.
            Lie::Churner if told < CHANGES => {
                words.version = response.version.as_str().into();
                match told % 2 {
                    0 => words.names = vec!["r0".into(), "*".into()],
                    _ => {
                        words.names = vec!["r1".into()];
                        words.unsubscribed = vec!["r0".into(), "*".into()];
                    }
                }
            }
            _ => return None,
        }
        Some(words.in_variant(variant, &own))
    }

    /// Notes that a server has closed a rogue client's stream.
    pub(super) fn note_sent_away(&mut self, why: &CloseReason) {
        match why {
            CloseReason::NameTooLong { .. } => self.note(Situation::LongNameRefused),
            CloseReason::TooManyNames { .. } => self.note(Situation::TooManyNamesRefused),
            CloseReason::ForeignTypeUrl { .. } => self.note(Situation::ForeignTypeRefused),
            CloseReason::MissingTypeUrl => self.note(Situation::MissingTypeRefused),
            CloseReason::UnknownType { .. } => self.note(Situation::UnknownTypeRefused),
            CloseReason::NodeChanged => self.note(Situation::OtherNodeRefused),
            _ => {}
        }
    }

    /// Number of names requested by each connected rogue client of a server.
    pub(crate) fn names_of_strangers(&self, server: usize) -> impl Iterator<Item = usize> {
        let of_server = self.strangers.iter().filter(move |stranger| stranger.server == server);
        of_server.map(|stranger| stranger.asked)
    }

    /// Disconnects all rogue clients.
    pub(super) fn dismiss_strangers(&mut self) {
        let now = self.now;
        for stranger in std::mem::take(&mut self.strangers) {
            if let Some(core) = self.core(stranger.server) {
                core.handle_event(StreamEvent::Closed(stranger.stream), now);
            }
            self.drain_server(stranger.server);
        }
    }
}
