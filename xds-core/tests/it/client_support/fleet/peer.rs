//! One stream of a conforming management server, in either protocol variant.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
};

use proptest::{prelude::*, test_runner::TestCaseError};
use prost::Message as _;
use xds_core::{ChannelId, Frame, Time, WatchId, client::RequestCause, proto, service::Variant};

use super::{
    super::TYPES,
    exchange::Place,
    oracle::ResponseContent,
    store::{Held, Store},
};

pub(super) type Names = BTreeSet<String>;

/// Version or error code last sent for each name.
pub type Listing = BTreeMap<String, Result<u64, i32>>;

/// The server's end of one channel.
#[derive(Debug)]
pub struct Peer {
    pub channel: ChannelId,
    /// Index of the server.
    pub server: usize,
    /// The single type that the stream carries; `None` for all types.
    pub only: Option<usize>,
    /// Time at which the client began to open the channel.
    pub begun: Time,
    pub opened: Time,
    /// Time at which the stream was last in use.
    pub wanted_until: Time,
    pub is_open: bool,
    /// Whether the client has announced requests that have not all been taken.
    pub is_writable: bool,
    pub has_responded: bool,
    pub first_request: Option<Time>,
    pub first_response: Option<Time>,
    /// Types of which the client has stated a version on this stream.
    pub stated: BTreeSet<usize>,
    /// Whether time has passed while the client did not read.
    pub was_held_back: bool,
    /// Watches whose unhandled notices block reading.
    pub debtors: BTreeSet<WatchId>,
    variant: Variant,
    has_node: bool,
    types: [Conversation; TYPES.len()],
    /// Unanswered responses. `None` is an invalid message with an unknown expected answer.
    unanswered: VecDeque<Option<Unanswered>>,
    has_lied: bool,
}

/// A response and its expected answer.
#[derive(Debug, PartialEq)]
struct Unanswered {
    kind: usize,
    nonce: String,
    /// The version that the answer states: the last accepted one. `None` if unknown.
    version: Option<String>,
    is_rejected: bool,
}

/// Versions stated in a first request.
#[derive(Debug)]
pub enum Stated {
    /// State of the world: the version of the type.
    Version(usize, String),
    /// State of the world: the version of the type, after all subscriptions of the stream had
    /// ended.
    VersionAgain(usize, String),
    /// Incremental: the versions of resources.
    Versions(usize, BTreeMap<String, String>),
}

/// A server's state for one type of the stream.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    was_requested: bool,
    /// Whether any name was ever listed, including `*`. Until then an empty list means the
    /// wildcard.
    has_listed: bool,
    /// Whether an empty list ever meant the wildcard.
    was_legacy: bool,
    left_everything: bool,
    pub(super) subscribed: Names,
    /// State of the world: the names in the last request.
    last: Option<Vec<String>>,
    /// Incremental: names whose subscription or unsubscription has not been answered.
    pub(super) owed: Names,
    /// Incremental: the versions that the client is believed to have.
    pub(super) known: BTreeMap<String, u64>,
    /// Incremental: the errors that were reported.
    pub(super) reported: BTreeMap<String, i32>,
    /// State of the world: the last response, and the names it was for.
    pub(super) sent: Option<(Listing, Names)>,
    nonces: Names,
    /// State of the world: the nonce of the newest response.
    newest: String,
    /// Whether every request has included the wildcard.
    began_with_wildcard: bool,
    /// Time since which each name, or the wildcard, has been subscribed without interruption.
    since: BTreeMap<String, Time>,
}

/// The fields of a request that both variants have.
#[derive(Debug)]
struct Read {
    kind: usize,
    nonce: String,
    /// State of the world: the stated version.
    version: Option<String>,
    error: Option<i32>,
    node: Option<String>,
}

impl Peer {
    pub fn new(channel: ChannelId, server: usize, variant: Variant, only: Option<usize>) -> Self {
        Self {
            channel,
            server,
            only,
            begun: Time::ZERO,
            opened: Time::ZERO,
            wanted_until: Time::ZERO,
            is_open: false,
            is_writable: false,
            has_responded: false,
            first_request: None,
            first_response: None,
            stated: BTreeSet::new(),
            was_held_back: false,
            debtors: BTreeSet::new(),
            variant,
            has_node: false,
            types: Default::default(),
            unanswered: VecDeque::new(),
            has_lied: false,
        }
    }

    /// Server and type of the stream.
    pub fn place(&self) -> Place {
        (self.server, self.only)
    }

    /// Subscriptions of a type, according to the requests.
    pub fn subscribed(&self, kind: usize) -> &Names {
        &self.types[kind].subscribed
    }

    /// Whether every response of the type was for a wildcard subscription.
    pub fn began_with_wildcard(&self, kind: usize) -> bool {
        self.types[kind].began_with_wildcard
    }

    /// State of the world: the content of the last response.
    pub fn said(&self, kind: usize) -> Option<&Listing> {
        self.types[kind].sent.as_ref().map(|(listing, _)| listing)
    }

    /// Skips the first response if the client subscribes to the wildcard alone and states a version
    /// whose content equals the current one.
    // B06
    pub fn trust(&mut self, kind: usize, store: &Store, given: &Listing) {
        let talk = &mut self.types[kind];
        let is_whole = talk.subscribed.len() == 1 && talk.subscribed.contains("*");
        let current = talk.listing(kind, store);
        if is_whole && current == *given && current.values().all(Result::is_ok) {
            talk.sent = Some((current, talk.subscribed.clone()));
        }
    }

    /// Time since which a name, or the wildcard, has been subscribed.
    pub fn subscribed_since(&self, kind: usize, name: &str) -> Option<Time> {
        self.types[kind].since.get(name).copied().filter(|_| self.is_open)
    }

    /// Incremental: time since which the wildcard has covered a resource that was not sent on this
    /// stream.
    pub fn awaited_since(&self, kind: usize, name: &str) -> Option<Time> {
        let is_awaited = self.covers(kind, name) && !self.types[kind].known.contains_key(name);
        self.subscribed_since(kind, "*").filter(|_| is_awaited)
    }

    /// Whether a name is subscribed, by name or by the wildcard.
    pub fn covers(&self, kind: usize, name: &str) -> bool {
        self.types[kind].covers(name)
    }

    pub fn is_all_answered(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// Reads a request. `wanted` returns the subscriptions that the live watches of a type need.
    pub fn read(
        &mut self,
        frame: &Frame,
        cause: &RequestCause,
        now: Time,
        wanted: impl Fn(usize) -> Names,
    ) -> Result<Option<Stated>, TestCaseError> {
        self.first_request.get_or_insert(now);
        let stated = match self.variant {
            Variant::StateOfTheWorld => {
                let request = proto::DiscoveryRequest::decode(frame.to_bytes()).expect("sound");
                self.read_sotw(request, cause, wanted)
            }
            Variant::Incremental => {
                let request = proto::DeltaDiscoveryRequest::decode(frame.to_bytes());
                self.read_delta(request.expect("sound"), cause, wanted)
            }
        }?;
        self.first_request.get_or_insert(now);
        for talk in &mut self.types {
            let subscribed = &talk.subscribed;
            talk.since.retain(|name, _| subscribed.contains(name));
            for name in subscribed {
                talk.since.entry(name.clone()).or_insert(now);
            }
        }
        Ok(stated)
    }

    fn read_sotw(
        &mut self,
        request: proto::DiscoveryRequest,
        cause: &RequestCause,
        wanted: impl Fn(usize) -> Names,
    ) -> Result<Option<Stated>, TestCaseError> {
        let read = Read {
            kind: kind_of(&request.type_url)?,
            nonce: request.response_nonce,
            version: Some(request.version_info),
            error: request.error_detail.map(|status| status.code),
            node: request.node.map(|node| node.id),
        };
        self.match_answer(&read, cause)?;
        let talk = &mut self.types[read.kind];
        let is_first = !talk.was_requested;
        if *cause == RequestCause::Subscription && !self.has_lied {
            let newest = &talk.newest;
            prop_assert_eq!(&read.nonce, newest, "the newest nonce (IC4, IC12)");
        }
        let is_known = read.nonce.is_empty() || talk.nonces.contains(&read.nonce);
        let is_ours = is_known || self.has_lied;
        prop_assert!(is_ours, "a nonce stays with its stream and type (IC6)");
        if *cause == RequestCause::Subscription {
            let is_news = talk.last.as_ref() != Some(&request.resource_names);
            prop_assert!(is_news, "it says what the last one said (IC40)");
        }
        talk.last = Some(request.resource_names.clone());
        talk.has_listed |= !request.resource_names.is_empty();
        let subscribed = match talk.has_listed {
            true => request.resource_names.into_iter().collect(),
            false => Names::from(["*".into()]),
        };
        if !talk.subscribed.is_superset(&subscribed) {
            talk.sent = None; // A newly listed resource is sent again (IS6).
        }
        talk.was_legacy |= !talk.has_listed;
        // The server ignores requests that cross a response, so leaving a wildcard is then
        // repeated.
        let is_newest = read.nonce == talk.newest;
        let is_answer = *cause != RequestCause::Subscription && is_newest;
        let leaves_after = is_answer && talk.was_legacy && mem::take(&mut talk.left_everything);
        // After an invalid message the newest answer is unknown.
        let leaves_again = leaves_after || (self.has_lied && talk.was_legacy);
        let begins_again = *cause == RequestCause::Subscription
            && !subscribed.is_empty()
            && subscribed.is_disjoint(&talk.subscribed);
        talk.take_subscription(subscribed, leaves_again, &wanted(read.kind))?;
        let version = read.version.unwrap_or_default();
        Ok(match (is_first, begins_again) {
            (true, _) => Some(Stated::Version(read.kind, version)),
            (false, true) => Some(Stated::VersionAgain(read.kind, version)),
            (false, false) => None,
        })
    }

    fn read_delta(
        &mut self,
        request: proto::DeltaDiscoveryRequest,
        cause: &RequestCause,
        wanted: impl Fn(usize) -> Names,
    ) -> Result<Option<Stated>, TestCaseError> {
        let read = Read {
            kind: kind_of(&request.type_url)?,
            nonce: request.response_nonce,
            version: None,
            error: request.error_detail.map(|status| status.code),
            node: request.node.map(|node| node.id),
        };
        self.match_answer(&read, cause)?;
        let is_answer = *cause != RequestCause::Subscription;
        prop_assert!(is_answer || read.nonce.is_empty(), "spontaneous: no nonce (IC4)");

        let talk = &mut self.types[read.kind];
        let is_first = !talk.was_requested;
        let added: Names = request.resource_names_subscribe.iter().cloned().collect();
        let ended: Names = request.resource_names_unsubscribe.iter().cloned().collect();
        prop_assert_eq!(added.len(), request.resource_names_subscribe.len(), "each once");
        prop_assert!(added.is_disjoint(&ended), "{:?} and {:?}", added, ended);
        prop_assert!(!is_first || ended.is_empty(), "the first takes nothing back (DX-22)");
        let has_versions = !request.initial_resource_versions.is_empty();
        prop_assert!(is_first || !has_versions, "versions come first (IC9)");
        let had_wildcard = talk.subscribed.contains("*");
        for name in &added {
            let is_stated_again = name == "*" && had_wildcard && !talk.has_listed;
            let is_news = is_stated_again || !talk.subscribed.contains(name);
            prop_assert!(is_news, "{} is subscribed already (IC40)", name);
        }
        for name in &ended {
            prop_assert!(talk.subscribed.contains(name), "{} is not subscribed (IC40)", name);
        }

        let mut subscribed = talk.subscribed.clone();
        if had_wildcard && !talk.has_listed && !added.is_empty() {
            // An explicit name ends the legacy wildcard.
            subscribed.remove("*");
        }
        talk.has_listed |= !added.is_empty();
        if is_first && added.is_empty() {
            subscribed.insert("*".into());
        }
        subscribed.extend(added.iter().cloned());
        subscribed.retain(|name| !ended.contains(name));
        talk.owed.extend(added);
        let has_wildcard = subscribed.contains("*");
        talk.known.retain(|name, _| has_wildcard || subscribed.contains(name));
        talk.reported.retain(|name, _| has_wildcard || subscribed.contains(name));
        if has_wildcard {
            // Under a wildcard, the answer to an unsubscription states the resource's current state
            // (IS14).
            talk.owed.extend(ended);
        } else {
            talk.owed.retain(|name| subscribed.contains(name));
        }
        if is_first {
            // The first request is answered even if nothing is to be sent, so that the client
            // learns that the server works.
            talk.owed.insert("*".into());
        }
        if *cause == RequestCause::Subscription {
            let is_news = is_first || subscribed != talk.subscribed;
            prop_assert!(is_news, "it says what the server knows (IC40)");
        }
        talk.take_subscription(subscribed, false, &wanted(read.kind))?;
        let stated = request.initial_resource_versions.clone().into_iter().collect();
        for (name, version) in request.initial_resource_versions {
            if talk.subscribed.contains("*") && name.starts_with("xdstp:") {
                continue; // Watched by name before, and kept by a wildcard watch.
            }
            let is_wanted = talk.covers(&name);
            prop_assert!(is_wanted, "{} is held but not subscribed (IC8)", name);
            let version = version.strip_prefix('v').and_then(|number| number.parse().ok());
            // A resource stated with its version is not a new subscription.
            talk.owed.remove(&name);
            // Version 0 exists on no server: it came from an invalid message.
            talk.known.insert(name, version.unwrap_or_default());
        }
        Ok(is_first.then_some(Stated::Versions(read.kind, stated)))
    }

    /// Checks that each response is answered once and in order: with its own version, or with an
    /// error and the last accepted version.
    // IC1 IC2 IC3
    fn match_answer(&mut self, read: &Read, cause: &RequestCause) -> Result<(), TestCaseError> {
        let node = (!mem::replace(&mut self.has_node, true)).then_some("me");
        prop_assert_eq!(read.node.as_deref(), node, "the node comes first (IC5)");
        prop_assert!(self.only.is_none_or(|only| only == read.kind), "another stream's type");
        let is_first = !self.types[read.kind].was_requested;
        prop_assert!(!is_first || read.nonce.is_empty(), "the first has no nonce (IC5)");
        let is_nack = matches!(cause, RequestCause::Nack { .. });
        const INVALID_ARGUMENT: i32 = 3;
        let reason = is_nack.then_some(INVALID_ARGUMENT);
        prop_assert_eq!(read.error, reason, "only a NACK has a reason (IC2, IC3)");
        if *cause != RequestCause::Subscription {
            let answered = self.unanswered.pop_front();
            prop_assert!(answered.is_some(), "an answer to nothing (IC1)");
            if let Some(Some(answered)) = answered {
                let version = answered.version.as_ref().and(read.version.as_ref());
                let given = Unanswered {
                    kind: read.kind,
                    nonce: read.nonce.clone(),
                    version: version.or(answered.version.as_ref()).cloned(),
                    is_rejected: is_nack,
                };
                prop_assert_eq!(given, answered, "in turn (IC1), as it was judged (IC2, IC3)");
            }
        }
        Ok(())
    }

    /// Returns the next response of a type, if one is due. `number` is part of its nonce.
    pub fn push(
        &mut self,
        kind: usize,
        store: &Store,
        number: u64,
    ) -> Option<(ResponseContent, Vec<u8>)> {
        if !self.is_open || !self.types[kind].was_requested {
            return None;
        }
        let talk = &mut self.types[kind];
        match self.variant {
            Variant::StateOfTheWorld => talk.push_sotw(kind, store, number),
            Variant::Incremental => talk.push_delta(kind, store, number),
        }
    }

    /// Returns a heartbeat response if nothing else is due. `is_in_use` returns whether the client
    /// has the resource in this version.
    pub fn beat(
        &self,
        kind: usize,
        store: &Store,
        number: u64,
        is_in_use: impl Fn(&str, u64) -> bool,
    ) -> Option<(ResponseContent, Vec<u8>)> {
        let talk = &self.types[kind];
        let lives = |name: &String, held: &Held| held.ttl.is_some() && talk.covers(name);
        let has_lease = store.of(kind).iter().any(|(name, held)| lives(name, held));
        if !self.is_open || !talk.was_requested || !has_lease {
            return None;
        }
        match self.variant {
            Variant::StateOfTheWorld => talk.beat_sotw(kind, store, number, is_in_use),
            Variant::Incremental => talk.beat_delta(kind, store, number, is_in_use),
        }
    }

    /// Records a response whose answer must state `version`.
    pub fn note_response(
        &mut self,
        kind: usize,
        number: u64,
        version: Option<String>,
        is_rejected: bool,
    ) {
        self.has_responded = true;
        let nonce = nonce_of(number);
        let talk = &mut self.types[kind];
        talk.nonces.insert(nonce.clone());
        talk.newest = nonce.clone();
        self.unanswered.push_back(Some(Unanswered { kind, nonce, version, is_rejected }));
    }

    /// Records an invalid message that the client will answer.
    pub fn note_lie(&mut self) {
        self.has_lied = true;
        self.unanswered.push_back(None);
    }
}

pub(super) fn nonce_of(number: u64) -> String {
    format!("n{number}")
}

fn kind_of(type_url: &str) -> Result<usize, TestCaseError> {
    let kind = TYPES.iter().position(|known| *known == type_url);
    kind.ok_or_else(|| TestCaseError::fail("a request for an unknown type"))
}

impl Conversation {
    /// Checks that a wildcard subscription starts only if a wildcard watch exists.
    // IC11
    fn take_subscription(
        &mut self,
        subscribed: Names,
        leaves_again: bool,
        wanted: &Names,
    ) -> Result<(), TestCaseError> {
        let is_first = !mem::replace(&mut self.was_requested, true);
        self.began_with_wildcard =
            subscribed.contains("*") && (is_first || self.began_with_wildcard);
        // Leaving a wildcard may need a request that still states it; no other request may start
        // one.
        let begins = subscribed.contains("*") && !self.subscribed.contains("*");
        let may_state = leaves_again || wanted.contains("*");
        prop_assert!(!begins || may_state, "a wildcard by accident (IC11)");
        self.left_everything |= self.subscribed.contains("*") && !subscribed.contains("*");
        self.subscribed = subscribed;
        Ok(())
    }

    /// Whether a name is covered. The wildcard covers names without an authority.
    pub(super) fn covers(&self, name: &str) -> bool {
        let by_wildcard = self.subscribed.contains("*") && !name.starts_with("xdstp:");
        by_wildcard || self.subscribed.contains(name)
    }
}
