//! What a client says on a stream: the model of one type on one stream, as a client has to keep to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Event, Oracle, Report, Rule};
use crate::{
    options::ProfileName,
    world::{
        LinkId, World,
        message::{Names, Request, Response},
    },
};

const ONE_ANSWER: Rule = Rule::new(
    "IC1",
    "each response of a subscribed type gets exactly one ACK or NACK, on its stream, with its nonce",
);
const ACK: Rule = Rule::new("IC2", "an ACK states the version of the response and no error");
const NACK: Rule =
    Rule::new("IC3", "a NACK states an error and the version that was accepted last");
const NEWEST_NONCE: Rule = Rule::new(
    "IC4",
    "a spontaneous request carries the newest acknowledged nonce, or in the incremental variant none",
);
const FIRST: Rule = Rule::new(
    "IC5",
    "the first request of a type has no nonce, and the first one of a stream states the node",
);
const OWN_NONCES: Rule = Rule::new("IC6", "a nonce stays with its stream, its type and its server");
const VERSIONS_FIRST: Rule =
    Rule::new("IC9", "versions held are stated in the first request of a type only");
const NO_ACCIDENT: Rule =
    Rule::new("IC11", "nothing subscribes to everything unless somebody watches everything");
const NEWS: Rule = Rule::new("IC40", "a request says something that the server does not know");

/// Judges requests.
#[derive(Debug, Default)]
pub(super) struct ClientTalk {
    streams: BTreeMap<LinkId, Stream>,
    /// The version of each type that a client accepted last, by client, server and type.
    accepted: BTreeMap<(usize, usize, usize), String>,
}

#[derive(Debug, Default)]
struct Stream {
    has_node: bool,
    types: Vec<Talk>,
}

/// One type on one stream.
#[derive(Debug, Default)]
struct Talk {
    was_requested: bool,
    has_listed: bool,
    /// What the server takes to be subscribed.
    subscribed: BTreeSet<String>,
    last: Option<Vec<String>>,
    /// The nonces and versions of responses that were read and not answered yet.
    unanswered: VecDeque<(String, String)>,
    /// The nonce that was answered last.
    newest: String,
}

impl ClientTalk {
    fn talk(&mut self, link: LinkId, kind: usize) -> &mut Talk {
        let stream = self.streams.entry(link).or_default();
        if stream.types.len() <= kind {
            stream.types.resize_with(kind + 1, Talk::default);
        }
        &mut stream.types[kind]
    }

    fn read(&mut self, link: LinkId, response: &Response) {
        let Some(kind) = response.kind else { return };
        let talk = self.talk(link, kind);
        if talk.was_requested {
            talk.unanswered.push_back((response.nonce.clone(), response.version.clone()));
        }
    }

    fn requested(&mut self, link: LinkId, request: &Request, world: &World, report: &mut Report) {
        let it = world.link(link);
        let Some(kind) = request.kind else {
            report.breach(OWN_NONCES, || "a request of a type that nobody watches".into());
            return;
        };
        let place = (it.client, it.server, kind);
        let stream = self.streams.entry(link).or_default();
        let is_first_of_all = !std::mem::replace(&mut stream.has_node, true);
        report.ensure(request.node.is_some() == is_first_of_all, FIRST, || {
            format!("the node is {:?}, first request: {is_first_of_all}", request.node)
        });
        let accepted = self.accepted.get(&place).cloned().unwrap_or_default();
        let talk = self.talk(link, kind);
        let is_first = !std::mem::replace(&mut talk.was_requested, true);
        report.ensure(!is_first || request.nonce.is_empty(), FIRST, || {
            format!("the first request has nonce {:?}", request.nonce)
        });
        let answered = match talk.unanswered.front() {
            Some((nonce, _)) if *nonce == request.nonce => talk.unanswered.pop_front(),
            _ => None,
        };
        let is_answer = answered.is_some();
        match (&answered, request.error) {
            (Some((nonce, version)), None) => {
                talk.newest.clone_from(nonce);
                let is_whole = matches!(request.names, Names::Whole(_));
                report.ensure(!is_whole || request.version == *version, ACK, || {
                    format!("version {:?} is answered with {:?}", version, request.version)
                });
                self.accepted.insert(place, version.clone());
            }
            (Some((nonce, _)), Some(code)) => {
                talk.newest.clone_from(nonce);
                let expected = match world.options().profile {
                    ProfileName::Grpc => 3,
                    ProfileName::Envoy => 13,
                };
                let is_whole = matches!(request.names, Names::Whole(_));
                // A stream that begins states nothing where what was held is not what is wanted now.
                let states = request.version == accepted || request.version.is_empty();
                report.ensure(code == expected && (!is_whole || states), NACK, || {
                    format!("code {code}, version {:?} after {accepted:?}", request.version)
                });
            }
            (None, Some(_)) => report.breach(ONE_ANSWER, || {
                format!("a NACK with nonce {:?} answers nothing", request.nonce)
            }),
            (None, None) => {
                let expected = match request.names {
                    Names::Whole(_) => talk.newest.as_str(),
                    Names::Change { .. } => "",
                };
                report.ensure(request.nonce == expected, NEWEST_NONCE, || {
                    format!("nonce {:?} where it should be {expected:?}", request.nonce)
                });
            }
        }
        let wants_all =
            world.watches(it.client).any(|(_, it)| it.kind == kind && it.name.is_none());
        let talk = self.talk(link, kind);
        talk.fold(request, is_first, is_answer, wants_all, report);
    }
}

impl Talk {
    /// Takes what is wanted as the server takes it.
    fn fold(
        &mut self,
        request: &Request,
        is_first: bool,
        is_answer: bool,
        wants_all: bool,
        report: &mut Report,
    ) {
        let had_all = self.subscribed.contains("*");
        let subscribed = match &request.names {
            Names::Whole(names) => {
                let is_news = is_answer || self.last.as_ref() != Some(names);
                report.ensure(is_news, NEWS, || format!("{names:?} is what the last one said"));
                self.last = Some(names.clone());
                self.has_listed |= !names.is_empty();
                match self.has_listed {
                    true => names.iter().cloned().collect(),
                    false => BTreeSet::from(["*".to_owned()]),
                }
            }
            Names::Change { subscribe, unsubscribe, versions } => {
                report.ensure(is_first || versions.is_empty(), VERSIONS_FIRST, || {
                    format!("{versions:?} in a later request")
                });
                for name in subscribe {
                    let is_stated_again = name == "*" && had_all && !self.has_listed;
                    let is_news = is_stated_again || !self.subscribed.contains(name);
                    report.ensure(is_news, NEWS, || format!("{name} is subscribed already"));
                }
                for name in unsubscribe {
                    let is_news = self.subscribed.contains(name);
                    report.ensure(is_news, NEWS, || format!("{name} is not subscribed"));
                }
                let mut subscribed = self.subscribed.clone();
                if had_all && !self.has_listed && !subscribe.is_empty() {
                    // Naming something ends what naming nothing meant.
                    subscribed.remove("*");
                }
                self.has_listed |= !subscribe.is_empty();
                if is_first && subscribe.is_empty() {
                    subscribed.insert("*".into());
                }
                subscribed.extend(subscribe.iter().cloned());
                subscribed.retain(|name| !unsubscribe.contains(name));
                let is_news = is_answer || is_first || subscribed != self.subscribed;
                report.ensure(is_news, NEWS, || "it changes nothing".into());
                subscribed
            }
        };
        // Leaving a wildcard may take a request that still states it; nothing may begin one.
        let begins = subscribed.contains("*") && !had_all;
        report.ensure(!begins || wants_all, NO_ACCIDENT, || format!("{:?}", request.names));
        self.subscribed = subscribed;
    }
}

impl Oracle for ClientTalk {
    fn rules(&self) -> &'static [Rule] {
        &[ONE_ANSWER, ACK, NACK, NEWEST_NONCE, FIRST, OWN_NONCES, VERSIONS_FIRST, NO_ACCIDENT, NEWS]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match event {
            Event::Reading { link, response } => self.read(*link, response),
            Event::Requested { link, request } => self.requested(*link, request, world, report),
            Event::EndedAtClient { link, .. } => drop(self.streams.remove(link)),
            Event::ClientRestarted { client } => {
                self.streams.retain(|link, _| world.link(*link).client != *client);
                self.accepted.retain(|(owner, ..), _| owner != client);
            }
            Event::Rest => {
                for (link, stream) in &self.streams {
                    let mut talks = stream.types.iter();
                    let unanswered = talks.find(|talk| !talk.unanswered.is_empty());
                    report.ensure(unanswered.is_none(), ONE_ANSWER, || {
                        format!("on stream {}: {unanswered:?}", link.0)
                    });
                }
            }
            _ => {}
        }
    }
}
