//! Polling: independent requests and their responses.

use std::collections::BTreeMap;

use bytes::Bytes;
use xds_core::types;

use super::{
    Event, Oracle, Report, Rule,
    polled_version::{HasGood, PolledVersion, Read},
    watched_names::WatchedNames,
};
use crate::{
    trace::Phase,
    world::{
        LinkId, Party, World,
        message::{Names, Request, Response, Text},
        subscription::SubscriptionState,
    },
};

const WHOLE: Rule = Rule::new(
    "IC7",
    "an independent request states the node, all watched names, and a version that its server sent",
);
const ANSWER: Rule = Rule::new(
    "IS31",
    "a request is answered with the full state when that differs from the stated version",
);
const HELD: Rule =
    Rule::new("IS31", "a request is held only while its client has the current state");
const NO_FLAPPING: Rule =
    Rule::new("IS31", "the same state of the same names has one version at all servers");

const OWN_VERSION: Rule = Rule::new(
    "IC7",
    "a polling client states the version last accepted from the same server, unless it released a resource since",
);
const IN_PART: Rule = Rule::new(
    "IC7",
    "a client that uses a part of a rejected response states no version until it accepts one",
);
const NO_NEWS: Rule = Rule::new("IL2", "a polling client is not sent a state that it has");

/// Resources that a request covers.
type Contents = BTreeMap<Text, Bytes>;

/// Checks polls.
#[derive(Debug, Default)]
pub(super) struct Polling {
    /// State that each version stands for, by type.
    states: BTreeMap<(usize, Text), Contents>,
    /// Version of each non-empty state.
    versions: BTreeMap<(usize, Contents), Text>,
    /// State that the newest request of each channel claims to have.
    stated: BTreeMap<LinkId, Stated>,
    /// Responses that each client has accepted, by client, server and type.
    accepted: BTreeMap<PollKey, PolledVersion>,
    phase: Option<Phase>,
    has_converged: bool,
}

/// Indexes of client, server and type.
type PollKey = (usize, usize, usize);

#[derive(Debug)]
struct Stated {
    version: Text,
    is_rejection: bool,
    /// Whether a resource of the type was changed since; it may have been restored.
    is_touched: bool,
}

fn asked_of(
    subscription: &SubscriptionState,
    link: LinkId,
    kind: usize,
    world: &World,
) -> Contents {
    let has = world.has(world.link(link).server, 0)[kind].iter();
    let asked = has.filter(|(name, _)| subscription.covers(name));
    asked.map(|(name, bytes)| (name.clone(), bytes.clone())).collect()
}

/// Whether a watched name may lack a resource in use. Always true for a wildcard.
fn is_incomplete(client: usize, kind: usize, world: &World) -> bool {
    let watched = world.watched(client, kind);
    let in_use = world.status_of_type(client, kind).filter(|it| it.bytes.is_some());
    let named = in_use.filter(|it| watched.has(Some(it.name.as_str())));
    watched.has_all() || named.count() < watched.count()
}

impl Polling {
    fn requested(&mut self, link: LinkId, request: &Request, world: &World, report: &mut Report) {
        let it = world.link(link);
        let Some(kind) = request.kind else { return };
        let Names::Whole(names) = &request.names else { return };
        let wanted = WatchedNames::of(it.client, it.server, kind, world);
        let named = names.iter().filter(|name| *name != "*");
        let is_whole = named.clone().count() == wanted.names.len()
            && named.clone().all(|name| wanted.contains(name));
        let is_known = request.version.is_empty()
            || self.states.contains_key(&(kind, request.version.clone()));
        report.ensure(is_whole && is_known && request.node.is_some(), WHOLE, || {
            format!("{request:?} where {wanted:?} is watched")
        });
        let place = (it.client, it.server, kind);
        let accepted = self.accepted.entry(place).or_default();
        // A client that lacks a watched resource must not state a version, which the server would
        // treat as complete.
        accepted.is_invalidated = accepted.is_invalidated || is_incomplete(it.client, kind, world);
        report.ensure(accepted.take(request), OWN_VERSION, || {
            format!("{:?} after {accepted:?}", request.version)
        });
        report.ensure(request.version.is_empty() || !accepted.is_mixed, IN_PART, || {
            format!("{:?} after {accepted:?}", request.version)
        });
        accepted.is_asked = true;
        let is_rejection = request.error.is_some();
        let version = if is_rejection { &request.nonce } else { &request.version };
        self.stated
            .insert(link, Stated { version: version.clone(), is_rejection, is_touched: false });
    }

    fn responded(&mut self, link: LinkId, response: &Response, world: &World, report: &mut Report) {
        let Some(kind) = response.kind else { return };
        let Some(subscription) = world.link(link).asked(kind) else { return };
        let content = response.resources.iter();
        let content: Contents =
            content.filter_map(|item| Some((item.name.clone(), item.bytes.clone()?))).collect();
        let expected = asked_of(subscription, link, kind, world);
        let is_other = self
            .stated
            .get(&link)
            .is_none_or(|stated| stated.is_touched || stated.version != response.version);
        report.ensure(is_other && content == expected, ANSWER, || {
            format!("{:?} with {:?} after {:?}", response.version, content.keys(), self.stated)
        });
        let key = (kind, response.version.clone());
        let known = self.states.entry(key).or_insert_with(|| content.clone());
        let is_one_state = *known == content;
        let of_it = match content.is_empty() {
            true => &response.version,
            false => {
                self.versions.entry((kind, content)).or_insert_with(|| response.version.clone())
            }
        };
        report.ensure(is_one_state && *of_it == response.version, NO_FLAPPING, || {
            format!("{:?} and {of_it:?}", response.version)
        });
    }

    fn read(&mut self, link: LinkId, response: &Response, world: &World) {
        let it = world.link(link);
        let Some(kind) = response.kind else { return };
        let accepted = self.accepted.entry((it.client, it.server, kind)).or_default();
        accepted.unconfirmed.push(Read {
            version: response.version.clone(),
            is_whole: accepted.is_asked,
            has_good: HasGood::of(response, link, kind, world),
        });
        // The response may replace resources of other servers.
        let is_other = |&(client, server, of): &PollKey| {
            (client, of) == (it.client, kind) && server != it.server
        };
        let others = self.accepted.iter_mut().filter(|(place, _)| is_other(place));
        others.for_each(|(_, accepted)| accepted.invalidate());
    }

    /// Handles the begin or end of a watch, by which a client may lack or release resources.
    fn interest_changed(&mut self, client: usize) {
        let of_client = self.accepted.iter_mut().filter(|((owner, ..), _)| *owner == client);
        of_client.for_each(|(_, accepted)| {
            accepted.invalidate();
            accepted.is_asked = false;
        });
    }

    fn given_up(&self, link: LinkId, world: &World, report: &mut Report) {
        let it = world.link(link);
        if world.is_suspended(Party::Server(it.server)) {
            return; // There is no request to answer.
        }
        let Some((kind, subscription)) = it.only.and_then(|kind| Some((kind, it.asked(kind)?)))
        else {
            return;
        };
        let Some(stated) = self.stated.get(&link).filter(|stated| !stated.is_rejection) else {
            return;
        };
        let there_is = asked_of(subscription, link, kind, world);
        let known = self.states.get(&(kind, stated.version.clone()));
        // A missing resource is a change only if it means a deletion.
        let is_full = types::is_full_state_in_sotw(world.types()[kind].as_str());
        let has_all = known.is_some_and(|known| {
            there_is.iter().all(|(name, bytes)| known.get(name) == Some(bytes))
                && (!is_full || known.len() == there_is.len())
        });
        let is_known = there_is.is_empty() || has_all;
        report
            .ensure(is_known, HELD, || format!("{stated:?}, and there are {:?}", there_is.keys()));
    }
}

impl Oracle for Polling {
    fn rules(&self) -> &'static [Rule] {
        &[WHOLE, ANSWER, HELD, NO_FLAPPING, OWN_VERSION, IN_PART, NO_NEWS]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match event {
            Event::Requested { link, request } => self.requested(*link, request, world, report),
            Event::Responded { link, response } => {
                let is_silent = self.has_converged && self.phase == Some(Phase::Converge);
                report.ensure(!is_silent, NO_NEWS, || format!("{:?}", response.version));
                self.responded(*link, response, world, report);
            }
            Event::Reading { link, response } => self.read(*link, response, world),
            Event::Watched { client, .. } | Event::Unwatched { client, .. } => {
                self.interest_changed(*client);
            }
            Event::ClientRestarted { client } => {
                self.accepted.retain(|(owner, ..), _| owner != client);
            }
            Event::Phase(phase) => self.phase = Some(*phase),
            Event::Rest => self.has_converged |= self.phase == Some(Phase::Converge),
            Event::Applied { server, kind, .. } => {
                let place = |link: &LinkId| (world.link(*link).server, world.link(*link).only);
                let it = (*server, Some(*kind));
                let touched = self.stated.iter_mut().filter(|(link, _)| place(link) == it);
                touched.for_each(|(_, stated)| stated.is_touched = true);
            }
            Event::GivenUp { link } => self.given_up(*link, world, report),
            Event::EndedAtClient { link, .. } => drop(self.stated.remove(link)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Toy,
        options::{Options, Streams, Transport},
        oracle::testing::broken_rule,
        world::message::ResponseItem,
    };

    fn request(version: &str, error: Option<i32>) -> Request {
        Request {
            kind: Some(0),
            nonce: Text::default(),
            version: version.into(),
            error,
            node: None,
            names: Names::Whole(Vec::new()),
        }
    }

    fn unconfirmed(version: &str, has_good: HasGood) -> Read {
        Read { version: version.into(), is_whole: true, has_good }
    }

    fn read(version: &str) -> PolledVersion {
        PolledVersion {
            unconfirmed: vec![unconfirmed(version, HasGood::No)],
            ..PolledVersion::default()
        }
    }

    #[test]
    fn poll_must_state_the_last_accepted_version() {
        let mut accepted = read("1");
        assert!(accepted.take(&request("1", None)));
        accepted.unconfirmed.push(unconfirmed("2", HasGood::No));
        assert!(accepted.take(&request("1", Some(3))), "the other one was rejected");
        assert!(!accepted.take(&request("2", None)), "it was rejected");
        let mut accepted = read("1");
        assert!(accepted.take(&request("1", None)));
        accepted.unconfirmed.push(unconfirmed("2", HasGood::No));
        assert!(!accepted.take(&request("", Some(3))), "one was accepted before");
        println!("covers: IC7 IS31");
    }

    #[test]
    fn partly_used_rejected_poll_must_not_state_a_version() {
        let rejects = |version: &'static str| {
            broken(move |oracle, link, world, report| {
                let had = PolledVersion { version: "1".into(), is_asked: true, ..read("1") };
                oracle.accepted.insert((0, 0, 0), had);
                oracle.states.insert((0, "1".into()), Contents::new());
                let asked = oracle.accepted.get_mut(&(0, 0, 0)).expect("it was put there");
                asked.unconfirmed = vec![unconfirmed("2", HasGood::Surely)];
                let names = Names::Whole(vec!["r0".into()]);
                let node = Some("client-0".into());
                let request = &Request { names, node, ..request(version, Some(3)) };
                oracle.on_event(&Event::Requested { link, request }, world, report);
            })
        };
        assert_eq!(rejects(""), None);
        assert_eq!(rejects("1"), Some(IN_PART));
    }

    #[test]
    fn empty_version_is_valid_only_after_invalidation() {
        let mut accepted = read("1");
        assert!(accepted.take(&request("1", None)));
        assert!(!accepted.take(&request("", None)), "it has let go of nothing");
        accepted.is_invalidated = true;
        assert!(accepted.take(&request("", None)));
    }

    #[test]
    fn response_of_another_server_invalidates_the_version() {
        let forgets = |server: usize| {
            broken(move |oracle, link, world, report| {
                let had = PolledVersion {
                    version: "1".into(),
                    is_asked: true,
                    ..PolledVersion::default()
                };
                oracle.accepted.insert((0, server, 0), had);
                let response = &poll_response("good", "2");
                oracle.on_event(&Event::Reading { link, response }, world, report);
                let had = oracle.accepted.get_mut(&(0, server, 0)).expect("it was put there");
                had.unconfirmed.clear();
                let is_right = had.take(&request("", None));
                report.ensure(is_right, OWN_VERSION, String::new);
            })
        };
        assert_eq!(forgets(1), None, "the answer was that of server 0");
        assert_eq!(forgets(0), Some(OWN_VERSION), "no other server has said anything");
        println!("covers: IC7");
    }

    #[test]
    fn version_from_another_server_is_invalid() {
        assert!(!PolledVersion::default().take(&request("1", None)));
    }

    /// Returns the rule broken in an exchange between a client and a server with a valid `r0`.
    fn broken(
        play: impl Fn(&mut Polling, LinkId, &World, &mut Report) + Send + Sync + 'static,
    ) -> Option<Rule> {
        let (streams, transport) = (Streams::PerType, Transport::Polls);
        let options = Options { streams, transport, ..Options::default() };
        broken_rule(options, move |world, link, report| {
            play(&mut Polling::default(), link, world, report);
        })
    }

    fn asks(name: &str, node: Option<&str>) -> Request {
        let names = Names::Whole(vec![name.into()]);
        Request { names, node: node.map(Text::from), ..request("", None) }
    }

    fn poll_response(text: &str, version: &str) -> Response {
        let bytes = Some(Toy::bytes("r0", text));
        let item = ResponseItem { name: "r0".into(), version: Text::default(), bytes, ttl: None };
        Response {
            kind: Some(0),
            nonce: Text::default(),
            version: version.into(),
            resources: vec![item],
            removed: Vec::new(),
            errors: Vec::new(),
        }
    }

    #[test]
    fn poll_with_wrong_names_or_without_a_node_is_detected() {
        let asked = |name: &'static str, node: Option<&'static str>| {
            broken(move |oracle, link, world, report| {
                let event = Event::Requested { link, request: &asks(name, node) };
                oracle.on_event(&event, world, report);
            })
        };
        assert_eq!(asked("r0", Some("client-0")), None);
        assert_eq!(asked("r9", Some("client-0")), Some(WHOLE));
        assert_eq!(asked("r0", None), Some(WHOLE));
    }

    #[test]
    fn poll_response_that_differs_from_the_server_state_is_detected() {
        let answered = |text: &'static str, again: Option<&'static str>| {
            broken(move |oracle, link, world, report| {
                for version in [Some("1"), again].into_iter().flatten() {
                    let event = Event::Responded { link, response: &poll_response(text, version) };
                    oracle.on_event(&event, world, report);
                }
            })
        };
        assert_eq!(answered("good", None), None);
        assert_eq!(answered("other", None), Some(ANSWER));
        assert_eq!(answered("good", Some("2")), Some(NO_FLAPPING));
        println!("covers: IS31");
    }

    #[test]
    fn poll_held_despite_a_newer_version_is_detected() {
        let found = broken(|oracle, link, world, report| {
            let event = Event::Requested { link, request: &asks("r0", Some("client-0")) };
            oracle.on_event(&event, world, report);
            oracle.on_event(&Event::GivenUp { link }, world, report);
        });
        assert_eq!(found, Some(HELD));
    }

    #[test]
    fn poll_response_without_a_change_is_detected() {
        let found = broken(|oracle, link, world, report| {
            let response = &poll_response("good", "1");
            let (rest, content) = (Event::Rest, Event::Responded { link, response });
            for event in [Event::Phase(Phase::Converge), rest, content] {
                oracle.on_event(&event, world, report);
            }
        });
        assert_eq!(found, Some(NO_NEWS));
    }
}
