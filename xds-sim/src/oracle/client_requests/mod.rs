//! Model of a client's requests of one type on one stream.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use xds_core::{
    WatchId,
    client::{Change, Notice, WatchError, WatchErrorKind},
};

use super::{Event, Oracle, Report, Rule, watched_names::WatchedNames};
use crate::{
    options::{Action, ProfileName, Verdicts},
    situations::Situation,
    world::{
        LinkId, World, is_alias,
        message::{Names, Request, Response, Text},
        subscription::{ALL, SubscriptionState},
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
const NONCE_KEPT: Rule = Rule::new(
    "IC12",
    "a client that subscribes to a type again on the same stream continues with its nonce",
);
const FIRST: Rule = Rule::new(
    "IC5",
    "the first request of a type has no nonce, and the first one of a stream states the node",
);
const OWN_NONCES: Rule = Rule::new("IC6", "a nonce is used only on its stream and for its type");
const VERSIONS_FIRST: Rule =
    Rule::new("IC9", "initial resource versions are stated only in the first request of a type");
const NO_ACCIDENT: Rule =
    Rule::new("IC11", "a client subscribes to the wildcard only if it has a wildcard watch");
const WHOLE_LIST: Rule = Rule::new("IC7", "a list of names contains all currently watched names");
const LAST_VERSION: Rule = Rule::new(
    "IC7",
    "a subscription begins with the version last accepted from that server, or with none if the client no longer has that state",
);
const STANDING_VERSION: Rule = Rule::new(
    "IC7",
    "a spontaneous request states the version last accepted on its stream, or the initial one",
);
const INTEREST: Rule =
    Rule::new("IC10", "at rest, the subscriptions at a server equal the watches");
const AUTHORITY: Rule = Rule::new("IC30", "a name is requested from the servers of its authority");
const NEWS: Rule = Rule::new("IC40", "a request contains something new for the server");

/// Rules that messages on the wire alone show to be broken. The others compare a request with what
/// the client watches or holds at the instant at which it makes the request.
#[cfg(feature = "stack")]
pub(super) const OF_MESSAGES: [Rule; 9] = [
    ONE_ANSWER,
    ACK,
    NACK,
    NEWEST_NONCE,
    NONCE_KEPT,
    FIRST,
    OWN_NONCES,
    STANDING_VERSION,
    VERSIONS_FIRST,
];

/// Rules about participants at rest.
#[cfg(feature = "stack")]
pub(super) const AT_REST: [Rule; 2] = [ONE_ANSWER, INTEREST];

/// Checks requests.
#[derive(Debug, Default)]
pub(super) struct ClientRequests {
    streams: BTreeMap<LinkId, ClientStream>,
    /// Responses that each client has accepted from each server.
    accepted: BTreeMap<SubscriptionKey, AcceptedVersion>,
}

/// Indexes of client, server and type.
type SubscriptionKey = (usize, usize, usize);

/// State of the world: accepted responses of a type from one server.
#[derive(Debug, Default)]
struct AcceptedVersion {
    /// Version accepted last; empty if the newest stream began without one.
    version: Text,
    /// Versions of responses that were read but not answered before their stream ended. Only the
    /// client knows whether it accepted them.
    unconfirmed: Vec<Text>,
    /// Whether the client's resources may differ from this version, because of another server or of
    /// expired TTLs.
    is_outdated: bool,
    /// Whether the version covers the wildcard: the wildcard was subscribed from the start of the
    /// stream and has been watched since, and nothing was rejected.
    is_of_everything: bool,
}

impl AcceptedVersion {
    /// Whether a subscription may begin with this version.
    ///
    /// A version must be the last accepted one, and the client must hold a subscribed resource. An
    /// empty version is permitted if none was accepted, if the accepted one may be outdated or does
    /// not cover a wildcard, or if the client holds nothing.
    fn may_begin(&self, version: &Text, wanted: &WatchedNames<'_>, held: Holds) -> bool {
        if !version.is_empty() {
            let is_last = *version == self.version || self.unconfirmed.contains(version);
            return is_last && held == Holds::Something;
        }
        let says_too_much = self.is_outdated || wanted.all && !self.is_of_everything;
        self.version.is_empty() || says_too_much || held == Holds::Nothing
    }

    /// Handles a subscription that begins with this version.
    fn begin(&mut self, version: &Text) {
        if *version != self.version {
            self.is_of_everything = false;
        }
        self.version.clone_from(version);
        self.unconfirmed.clear();
        self.is_outdated = false;
    }
}

/// Whether a client holds any resource that it subscribes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Nothing,
    Something,
}

impl Holds {
    fn of(subscription: &SubscriptionState, client: usize, kind: usize, world: &World) -> Self {
        let mut held = world.status_of_type(client, kind).filter(|it| it.bytes.is_some());
        match held.any(|it| subscription.covers(it.name.as_str())) {
            true => Self::Something,
            false => Self::Nothing,
        }
    }
}

#[derive(Debug, Default)]
struct ClientStream {
    has_node: bool,
    types: Vec<TypeRequests>,
}

/// One type on one stream.
#[derive(Debug, Default)]
struct TypeRequests {
    last: Option<Vec<Text>>,
    /// Nonces and versions of responses that were read and are unanswered.
    unanswered: VecDeque<(Text, Text)>,
    /// Nonce of the newest ACK or NACK.
    newest: Text,
    /// All nonces that were read.
    nonces: BTreeSet<Text>,
    /// Whether the wildcard has been subscribed since the first request.
    began_with_all: bool,
    /// Names unsubscribed since the newest ACK or NACK. A response that crosses these requests
    /// makes them stale, so the next one may unsubscribe again.
    ended: BTreeSet<Text>,
    /// Names that the current request may unsubscribe again.
    crossed: BTreeSet<Text>,
    /// Whether the wildcard was subscribed by an empty list (legacy wildcard).
    was_legacy: bool,
}

impl ClientRequests {
    fn requests(&mut self, link: LinkId, kind: usize) -> &mut TypeRequests {
        let stream = self.streams.entry(link).or_default();
        if stream.types.len() <= kind {
            stream.types.resize_with(kind + 1, TypeRequests::default);
        }
        &mut stream.types[kind]
    }

    fn read(&mut self, link: LinkId, response: &Response, world: &World) {
        let Some(kind) = response.kind else { return };
        self.outdate_others(link, kind, world);
        let requests = self.requests(link, kind);
        requests.nonces.insert(response.nonce.clone());
        if world.link(link).asked(kind).is_some() {
            requests.unanswered.push_back((response.nonce.clone(), response.version.clone()));
        }
    }

    /// Marks other servers' versions as outdated, because the client now uses resources of the
    /// link's server.
    fn outdate_others(&mut self, link: LinkId, kind: usize, world: &World) {
        let it = world.link(link);
        let is_other = |&(client, server, of): &SubscriptionKey| {
            client == it.client && of == kind && server != it.server && server.max(it.server) < 2
        };
        let others = self.accepted.iter_mut().filter(|(place, _)| is_other(place));
        others.for_each(|(_, accepted)| accepted.is_outdated = true);
    }

    /// Handles an error of a watch. If the client has waited too long for a resource, the server that it
    /// uses now has ended the use of a resource that an earlier one has sent.
    fn reported_missing(
        &mut self,
        client: usize,
        watch: WatchId,
        error: &WatchError,
        world: &World,
    ) {
        if world.server_count() == 1 || !matches!(error.kind(), WatchErrorKind::DoesNotExist(_)) {
            return;
        }
        let Some(kind) = world.watch_of(client, watch).map(|watch| watch.kind) else { return };
        for ((owner, _, of), accepted) in &mut self.accepted {
            accepted.is_outdated |= *owner == client && *of == kind;
        }
    }

    fn ended(&mut self, link: LinkId, world: &World) {
        let Some(stream) = self.streams.remove(&link) else { return };
        let it = world.link(link);
        for (kind, requests) in stream.types.into_iter().enumerate() {
            let versions = requests.unanswered.into_iter().map(|(_, version)| version);
            let accepted = self.accepted.entry((it.client, it.server, kind)).or_default();
            accepted.unconfirmed.extend(versions);
            // Unanswered responses may have been rejected.
            accepted.is_of_everything &= accepted.unconfirmed.is_empty();
        }
    }

    /// Handles the end of a watch. Without a wildcard watch, the client no longer holds all
    /// resources.
    fn unwatched(&mut self, client: usize, world: &World) {
        for ((owner, _, kind), accepted) in &mut self.accepted {
            accepted.is_of_everything &= *owner != client || world.watched(client, *kind).has_all();
        }
    }

    fn requested(&mut self, link: LinkId, request: &Request, world: &World, report: &mut Report) {
        let it = world.link(link);
        let nothing = SubscriptionState::default();
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
        let wanted = WatchedNames::of(it.client, it.server, kind, world);
        let mut accepted = self.accepted.remove(&place).unwrap_or_default();
        let requests = self.requests(link, kind);
        let is_whole = matches!(request.names, Names::Whole(_));
        let subscription = it.asked(kind).unwrap_or(&nothing);
        let is_first = subscription.is_first;
        report.ensure(!is_first || request.nonce.is_empty(), FIRST, || {
            format!("the first request has nonce {:?}", request.nonce)
        });
        requests.began_with_all = subscription.has_all() && (is_first || requests.began_with_all);
        let is_own = request.nonce.is_empty() || requests.nonces.contains(&request.nonce);
        report.ensure(is_own, OWN_NONCES, || format!("nonce {:?} never came here", request.nonce));
        let begins_again = !is_first
            && !subscription.subscribed.is_empty()
            && subscription.gained.len() == subscription.subscribed.len()
            && requests.unanswered.front().is_none_or(|(nonce, _)| *nonce != request.nonce);
        // Unintended wildcards are checked by a separate rule below.
        let is_accident = subscription.has_all() && !subscription.had(ALL) && !wanted.all;
        if is_whole && (is_first || begins_again) && !is_accident {
            // Resources with a TTL may have expired, and another server's response may have been
            // accepted by a verdict after the last stream began.
            let is_late = world.options().verdicts != Verdicts::AtOnce && world.server_count() > 1;
            accepted.is_outdated |= is_late || world.options().actions.contains(Action::SetWithTtl);
            let held = Holds::of(subscription, it.client, kind, world);
            report.ensure(
                accepted.may_begin(&request.version, &wanted, held),
                LAST_VERSION,
                || {
                    format!(
                        "version {:?} begins after {accepted:?}, held: {held:?}",
                        request.version
                    )
                },
            );
            accepted.begin(&request.version);
            if is_first && !request.version.is_empty() {
                report.note(Situation::VersionStatedOnReconnect);
            }
        }
        let answered = match requests.unanswered.front() {
            Some((nonce, _)) if *nonce == request.nonce => requests.unanswered.pop_front(),
            _ => None,
        };
        let is_answer = answered.is_some();
        let is_newest_answer = is_answer && requests.unanswered.is_empty();
        let is_leaving = requests.last.as_ref().is_some_and(|names| *names == ["*"]);
        let before = std::mem::take(&mut requests.crossed);
        let crossed = match (is_newest_answer, is_leaving) {
            (true, _) => std::mem::take(&mut requests.ended),
            // Ending a legacy wildcard takes two requests.
            (false, true) => before,
            (false, false) => BTreeSet::new(),
        };
        requests.crossed.clone_from(&crossed);
        match (&answered, request.error) {
            (Some((nonce, version)), None) => {
                requests.newest.clone_from(nonce);
                report.ensure(!is_whole || request.version == *version, ACK, || {
                    format!("version {:?} is answered with {:?}", version, request.version)
                });
                accepted.version.clone_from(version);
                accepted.is_of_everything = requests.began_with_all && wanted.all;
            }
            (Some((nonce, _)), Some(code)) => {
                requests.newest.clone_from(nonce);
                let expected = match world.options().profile {
                    ProfileName::Grpc => 3,
                    ProfileName::Envoy => 13,
                };
                let states = !is_whole || request.version == accepted.version;
                report.ensure(code == expected && states, NACK, || {
                    format!("code {code}, version {:?} after {accepted:?}", request.version)
                });
                accepted.is_of_everything = false;
            }
            (None, Some(_)) => report.breach(ONE_ANSWER, || {
                format!("a NACK with nonce {:?} answers nothing", request.nonce)
            }),
            (None, None) => {
                let expected = match request.names {
                    Names::Whole(_) => requests.newest.as_str(),
                    Names::Change { .. } => "",
                };
                let rule = if begins_again { NONCE_KEPT } else { NEWEST_NONCE };
                report.ensure(request.nonce == expected, rule, || {
                    format!("nonce {:?} where it should be {expected:?}", request.nonce)
                });
                // A request that unsubscribes the last name for the server may omit a name that is
                // subscribed again.
                if subscription.subscribed.is_empty() && request.version.is_empty() {
                    accepted.begin(&request.version);
                }
                let states = !is_whole || is_accident || request.version == accepted.version;
                report.ensure(states, STANDING_VERSION, || {
                    format!("version {:?} after {accepted:?}", request.version)
                });
            }
        }
        self.accepted.insert(place, accepted);
        if is_answer && world.options().verdicts != Verdicts::AtOnce {
            // With a verdict, the resources are in use since the verdict.
            self.outdate_others(link, kind, world);
        }
        let states_all = wanted.states(&request.names, &crossed);
        report.ensure(states_all, WHOLE_LIST, || {
            format!("{:?} where {wanted:?} is watched", request.names)
        });
        let may_name = |name: &str| name == "*" || world.serves(it.server, name);
        let foreign = request.names.iter().find(|name| !may_name(name));
        report.ensure(foreign.is_none(), AUTHORITY, || {
            format!("server-{} is asked for {foreign:?}", it.server)
        });
        self.requests(link, kind).has_news(
            subscription,
            request,
            is_answer,
            &wanted,
            &crossed,
            report,
        );
    }
}

impl TypeRequests {
    /// Checks that a request contains something new, given the subscription that the server
    /// derives.
    fn has_news(
        &mut self,
        subscription: &SubscriptionState,
        request: &Request,
        is_answer: bool,
        wanted: &WatchedNames<'_>,
        crossed: &BTreeSet<Text>,
        report: &mut Report,
    ) {
        let is_first = subscription.is_first;
        match &request.names {
            Names::Whole(names) => {
                let is_news = self.last.as_ref() != Some(names);
                report.ensure(is_answer || is_news, NEWS, || {
                    format!("{names:?} is what the last one said")
                });
                if is_news {
                    self.last = Some(names.clone());
                }
            }
            Names::Change { subscribe, unsubscribe, versions } => {
                report.ensure(is_first || versions.is_empty(), VERSIONS_FIRST, || {
                    format!("{versions:?} in a later request")
                });
                for name in subscribe {
                    let is_stated_again =
                        name == ALL && subscription.had(ALL) && !subscription.had_listed;
                    // The resource of an alias is sent only for an explicit subscription.
                    let is_asked_anew = is_alias(name);
                    let is_news = is_stated_again || is_asked_anew || !subscription.had(name);
                    report.ensure(is_news, NEWS, || format!("{name} is subscribed already"));
                }
                for name in unsubscribe {
                    report.ensure(subscription.had(name), NEWS, || {
                        format!("{name} is not subscribed")
                    });
                }
                let has_changed = !subscription.gained.is_empty() || !subscription.lost.is_empty();
                report.ensure(is_answer || is_first || has_changed, NEWS, || {
                    "it changes nothing".into()
                });
            }
        }
        self.was_legacy |= subscription.has_all() && !subscription.has_listed;
        self.ended.extend(subscription.lost.iter().cloned());
        // Ending a legacy wildcard may take a request that still states it, once more if a response
        // crossed that. No request may begin one.
        let leaves_again = self.was_legacy && crossed.contains(ALL);
        let begins = subscription.has_all() && !subscription.had(ALL) && !leaves_again;
        report.ensure(!begins || wanted.all, NO_ACCIDENT, || format!("{:?}", request.names));
    }
}

impl ClientRequests {
    /// Checks a world at rest: every response is answered, and servers have the right
    /// subscriptions.
    fn at_rest(&self, world: &World, report: &mut Report) {
        for (link, stream) in &self.streams {
            let it = world.link(*link);
            for (kind, requests) in stream.types.iter().enumerate() {
                report.ensure(requests.unanswered.is_empty(), ONE_ANSWER, || {
                    format!("on stream {}: {:?}", link.0, requests.unanswered)
                });
                if let Some(subscription) = it.asked(kind) {
                    let wanted = WatchedNames::of(it.client, it.server, kind, world);
                    let is_just_that =
                        wanted.is(subscription) && subscription.has_all() == wanted.all;
                    report.ensure(is_just_that, INTEREST, || {
                        format!(
                            "{:?} is subscribed, {wanted:?} is watched",
                            subscription.subscribed
                        )
                    });
                }
            }
        }
    }
}

impl Oracle for ClientRequests {
    fn rules(&self) -> &'static [Rule] {
        &[
            ONE_ANSWER,
            ACK,
            NACK,
            NEWEST_NONCE,
            NONCE_KEPT,
            FIRST,
            OWN_NONCES,
            WHOLE_LIST,
            LAST_VERSION,
            STANDING_VERSION,
            VERSIONS_FIRST,
            INTEREST,
            NO_ACCIDENT,
            AUTHORITY,
            NEWS,
        ]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match event {
            Event::Reading { link, response } => self.read(*link, response, world),
            Event::Requested { link, request } => self.requested(*link, request, world, report),
            Event::EndedAtClient { link, .. } => self.ended(*link, world),
            Event::ClientRestarted { client } => {
                self.streams.retain(|link, _| world.link(*link).client != *client);
                self.accepted.retain(|(owner, ..), _| owner != client);
            }
            Event::Watched { client, kind, name, is_first: true, .. } => {
                let name = name.unwrap_or(ALL);
                let mut asked = world.links(*client).filter_map(|(_, link)| link.asked(*kind));
                let is_subscribed =
                    asked.any(|subscription| subscription.subscribed.contains(name));
                if is_subscribed {
                    report.note(Situation::WatchedAgainBeforeUnsubscribed);
                }
            }
            Event::Unwatched { client, .. } => self.unwatched(*client, world),
            Event::Notified {
                client,
                watch,
                notice: Notice::Changed(Err(error)) | Notice::Ambient(Some(error)),
            }
            | Event::Changed {
                client,
                watch,
                change:
                    Change::Resource { result: Err(error), .. }
                    | Change::Ambient { error: Some(error), .. },
            } => self.reported_missing(*client, *watch, error, world),
            Event::Rest => self.at_rest(world, report),
            _ => {}
        }
    }
}
