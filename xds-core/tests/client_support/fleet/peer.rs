//! One stream as a conforming management server keeps it, in either variant of the protocol.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
};

use proptest::{prelude::*, test_runner::TestCaseError};
use prost::Message as _;
use xds_core::{ChannelId, Frame, Time, WatchId, client::RequestCause, proto, service::Variant};

use super::{
    super::TYPES,
    oracle::Said,
    store::{Held, Store},
    talk::Place,
};

pub(super) type Names = BTreeSet<String>;

/// What was said of each name last: the version, or the code of the error that was reported.
pub type Listing = BTreeMap<String, Result<u64, i32>>;

/// The far end of one channel.
#[derive(Debug)]
pub struct Peer {
    pub channel: ChannelId,
    /// The position of the server.
    pub server: usize,
    /// The one type that the stream carries; `None` carries all.
    pub only: Option<usize>,
    /// When the client was heard to begin it.
    pub begun: Time,
    pub opened: Time,
    /// When somebody was last seen to want something of it.
    pub wanted_until: Time,
    pub is_open: bool,
    /// Whether the client has announced requests that were not all taken yet.
    pub is_writable: bool,
    pub has_responded: bool,
    pub first_response: Option<Time>,
    /// Whether time has passed in which nothing was read.
    pub was_held_back: bool,
    /// The watches by name whose notices hold back reading.
    pub debtors: BTreeSet<WatchId>,
    variant: Variant,
    has_node: bool,
    types: [Conversation; TYPES.len()],
    /// `None` is a lie, of which nothing is known.
    unanswered: VecDeque<Option<Unanswered>>,
    has_lied: bool,
}

/// A response, and what its answer has to state.
#[derive(Debug, PartialEq)]
struct Unanswered {
    kind: usize,
    nonce: String,
    /// The last accepted version, which is its own if it is accepted; `None` if nobody can tell.
    version: Option<String>,
    is_rejected: bool,
}

/// What a first request says of what the client holds.
#[derive(Debug)]
pub enum Stated {
    /// State of the world: the version of the type.
    Version(usize, String),
    /// State of the world: the version of the type, where all that was subscribed on the stream has ended.
    VersionAgain(usize, String),
    /// Incremental: the versions of resources.
    Versions(usize, BTreeMap<String, String>),
}

/// What the server makes of the requests of one type.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    was_requested: bool,
    /// Whether a name was ever listed, `*` included: until then, nothing means everything.
    has_listed: bool,
    /// Whether an empty list ever meant everything, and whether everything was left since the last answer.
    was_legacy: bool,
    left_everything: bool,
    pub(super) subscribed: Names,
    /// State of the world: the list of names in the last request.
    last: Option<Vec<String>>,
    /// Incremental: names whose subscription or end of one has yet to be answered.
    pub(super) owed: Names,
    /// Incremental: the versions that the client is believed to have.
    pub(super) known: BTreeMap<String, u64>,
    /// Incremental: the errors that were reported.
    pub(super) reported: BTreeMap<String, i32>,
    /// State of the world: what was sent last, and for which names.
    pub(super) sent: Option<(Listing, Names)>,
    nonces: Names,
    /// State of the world: the nonce of the newest response that was sent.
    newest: String,
    /// Whether the first request was for everything, and all were since.
    began_with_wildcard: bool,
    /// Since when each name, or the wildcard, has been subscribed without a break.
    since: BTreeMap<String, Time>,
}

/// A request in the words that both variants share.
#[derive(Debug)]
struct Read {
    kind: usize,
    nonce: String,
    /// State of the world: the version that it states.
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
            first_response: None,
            was_held_back: false,
            debtors: BTreeSet::new(),
            variant,
            has_node: false,
            types: Default::default(),
            unanswered: VecDeque::new(),
            has_lied: false,
        }
    }

    /// Where the stream leads.
    pub fn place(&self) -> Place {
        (self.server, self.only)
    }

    /// What the server takes to be subscribed of a type.
    pub fn subscribed(&self, kind: usize) -> &Names {
        &self.types[kind].subscribed
    }

    /// Whether every response of the type was one to a request for everything.
    pub fn began_with_wildcard(&self, kind: usize) -> bool {
        self.types[kind].began_with_wildcard
    }

    /// State of the world: what was said last.
    pub fn said(&self, kind: usize) -> Option<&Listing> {
        self.types[kind].sent.as_ref().map(|(listing, _)| listing)
    }

    /// A client that comes back for the wildcard alone, and states a version that was given to just what
    /// there is, has it all (B06).
    pub fn trust(&mut self, kind: usize, store: &Store, given: &Listing) {
        let talk = &mut self.types[kind];
        let is_whole = talk.subscribed.len() == 1 && talk.subscribed.contains("*");
        let current = talk.listing(kind, store);
        if is_whole && current == *given && current.values().all(Result::is_ok) {
            talk.sent = Some((current, talk.subscribed.clone()));
        }
    }

    pub fn was_asked_for(&self, kind: usize) -> bool {
        self.types[kind].was_requested
    }

    /// Since when a name, or the wildcard, has been subscribed.
    pub fn subscribed_since(&self, kind: usize, name: &str) -> Option<Time> {
        self.types[kind].since.get(name).copied().filter(|_| self.is_open)
    }

    /// Whether the server is asked for a resource, alone or among others.
    pub fn covers(&self, kind: usize, name: &str) -> bool {
        self.types[kind].covers(name)
    }

    pub fn is_all_answered(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// Reads a request; `wanted` is what live watches of a type ask for.
    pub fn read(
        &mut self,
        frame: &Frame,
        cause: &RequestCause,
        now: Time,
        wanted: impl Fn(usize) -> Names,
    ) -> Result<Option<Stated>, TestCaseError> {
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
            talk.sent = None; // What is newly named is sent even if it was before (IS6).
        }
        talk.was_legacy |= !talk.has_listed;
        // A response makes the server drop what crosses it; leaving a wildcard is then said again.
        let is_newest = read.nonce == talk.newest;
        let is_answer = *cause != RequestCause::Subscription && is_newest;
        let leaves_after = is_answer && talk.was_legacy && mem::take(&mut talk.left_everything);
        // Of a lie nobody knows which answer is the newest.
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
            // Naming something ends what naming nothing meant.
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
            // Whoever keeps it as part of the whole is told where it stands (IS14).
            talk.owed.extend(ended);
        } else {
            talk.owed.retain(|name| subscribed.contains(name));
        }
        if is_first {
            // A stream's first request is answered even if there is nothing to say: that is how the
            // client learns that the server works.
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
                continue; // What was watched by name and is no longer stays with a wildcard watch.
            }
            let is_wanted = talk.covers(&name);
            prop_assert!(is_wanted, "{} is held but not subscribed (IC8)", name);
            let version = version.strip_prefix('v').and_then(|number| number.parse().ok());
            // What is known is not asked for anew.
            talk.owed.remove(&name);
            // The zeroth is one that no server has: that of a lie.
            talk.known.insert(name, version.unwrap_or_default());
        }
        Ok(is_first.then_some(Stated::Versions(read.kind, stated)))
    }

    /// Each response is answered once, in its turn (IC1): with its own version, or with a reason and the
    /// last accepted one (IC2, IC3).
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

    /// The next response of a type, if there is anything to say; `number` is part of its nonce.
    pub fn push(&mut self, kind: usize, store: &Store, number: u64) -> Option<(Said, Vec<u8>)> {
        if !self.is_open || !self.types[kind].was_requested {
            return None;
        }
        let talk = &mut self.types[kind];
        match self.variant {
            Variant::StateOfTheWorld => talk.push_sotw(kind, store, number),
            Variant::Incremental => talk.push_delta(kind, store, number),
        }
    }

    /// Renews what has a TTL, if that is all there is to say; `is_in_use` tells of which version the
    /// client has a resource.
    pub fn beat(
        &self,
        kind: usize,
        store: &Store,
        number: u64,
        is_in_use: impl Fn(&str, u64) -> bool,
    ) -> Option<(Said, Vec<u8>)> {
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

    /// Notes that a response was sent, whose answer has to state `version`.
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

    /// Notes that the client will answer something that no server should have sent.
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
    /// Nothing subscribes to everything unless somebody watches everything (IC11).
    fn take_subscription(
        &mut self,
        subscribed: Names,
        leaves_again: bool,
        wanted: &Names,
    ) -> Result<(), TestCaseError> {
        let is_first = !mem::replace(&mut self.was_requested, true);
        self.began_with_wildcard =
            subscribed.contains("*") && (is_first || self.began_with_wildcard);
        // Leaving a wildcard may take a request that still states it; nothing may begin one.
        let begins = subscribed.contains("*") && !self.subscribed.contains("*");
        let may_state = leaves_again || wanted.contains("*");
        prop_assert!(!begins || may_state, "a wildcard by accident (IC11)");
        self.left_everything |= self.subscribed.contains("*") && !subscribed.contains("*");
        self.subscribed = subscribed;
        Ok(())
    }

    /// A wildcard asks for what has no authority.
    pub(super) fn covers(&self, name: &str) -> bool {
        let by_wildcard = self.subscribed.contains("*") && !name.starts_with("xdstp:");
        by_wildcard || self.subscribed.contains(name)
    }
}
