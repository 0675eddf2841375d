//! One stream as a conforming management server keeps it, in either variant of the protocol.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
};

use proptest::{prelude::*, test_runner::TestCaseError};
use prost::Message as _;
use xds_core::{ChannelId, Frame, client::RequestCause, proto, service::Variant};

use super::{super::TYPES, store::Store};

type Names = BTreeSet<String>;

/// The far end of one channel.
#[derive(Debug)]
pub struct Peer {
    pub channel: ChannelId,
    /// The position of the server.
    pub server: usize,
    /// The one type that the stream carries; `None` carries all.
    pub only: Option<usize>,
    pub is_open: bool,
    /// Whether the client has announced requests that were not all taken yet.
    pub is_writable: bool,
    pub has_responded: bool,
    variant: Variant,
    has_node: bool,
    types: [Conversation; TYPES.len()],
    /// Type and nonce of each; `None` is a lie, of which nothing is known.
    unanswered: VecDeque<Option<(usize, String)>>,
    has_lied: bool,
}

/// What the server makes of the requests of one type.
#[derive(Debug, Default)]
struct Conversation {
    was_requested: bool,
    /// Whether a name was ever listed, `*` included: until then, nothing means everything.
    has_listed: bool,
    subscribed: Names,
    /// State of the world: the list of names in the last request.
    last: Option<Vec<String>>,
    /// Incremental: names whose subscription or end of one has yet to be answered.
    owed: Names,
    /// Incremental: the versions that the client is believed to have.
    known: BTreeMap<String, u64>,
    /// State of the world: what was sent last, and for which names.
    sent: Option<(BTreeMap<String, u64>, Names)>,
    nonces: Names,
}

/// A request in the words that both variants share.
#[derive(Debug)]
struct Read {
    kind: usize,
    nonce: String,
    has_error: bool,
    has_node: bool,
}

impl Peer {
    pub fn new(channel: ChannelId, server: usize, variant: Variant, only: Option<usize>) -> Self {
        Self {
            channel,
            server,
            only,
            is_open: false,
            is_writable: false,
            has_responded: false,
            variant,
            has_node: false,
            types: Default::default(),
            unanswered: VecDeque::new(),
            has_lied: false,
        }
    }

    /// What the server takes to be subscribed of a type.
    pub fn subscribed(&self, kind: usize) -> &Names {
        &self.types[kind].subscribed
    }

    pub fn was_asked_for(&self, kind: usize) -> bool {
        self.types[kind].was_requested
    }

    pub fn is_all_answered(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// Reads a request; `wanted` is what live watches of a type ask for.
    pub fn read(
        &mut self,
        frame: &Frame,
        cause: &RequestCause,
        wanted: impl Fn(usize) -> Names,
    ) -> Result<(), TestCaseError> {
        match self.variant {
            Variant::StateOfTheWorld => {
                let request = proto::DiscoveryRequest::decode(frame.to_bytes()).expect("sound");
                self.read_sotw(request, cause, wanted)
            }
            Variant::Incremental => {
                let request = proto::DeltaDiscoveryRequest::decode(frame.to_bytes());
                self.read_delta(request.expect("sound"), cause, wanted)
            }
        }
    }

    fn read_sotw(
        &mut self,
        request: proto::DiscoveryRequest,
        cause: &RequestCause,
        wanted: impl Fn(usize) -> Names,
    ) -> Result<(), TestCaseError> {
        let read = Read {
            kind: kind_of(&request.type_url)?,
            nonce: request.response_nonce,
            has_error: request.error_detail.is_some(),
            has_node: request.node.is_some(),
        };
        self.match_answer(&read, cause)?;
        let talk = &mut self.types[read.kind];
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
        talk.take_subscription(subscribed, &wanted(read.kind))
    }

    fn read_delta(
        &mut self,
        request: proto::DeltaDiscoveryRequest,
        cause: &RequestCause,
        wanted: impl Fn(usize) -> Names,
    ) -> Result<(), TestCaseError> {
        let read = Read {
            kind: kind_of(&request.type_url)?,
            nonce: request.response_nonce,
            has_error: request.error_detail.is_some(),
            has_node: request.node.is_some(),
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
        talk.take_subscription(subscribed, &wanted(read.kind))?;
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
        Ok(())
    }

    /// Each response is answered once, in its turn (IC1), and only a NACK has a reason (IC2, IC3).
    fn match_answer(&mut self, read: &Read, cause: &RequestCause) -> Result<(), TestCaseError> {
        let is_first_message = !mem::replace(&mut self.has_node, true);
        prop_assert_eq!(read.has_node, is_first_message, "the node comes first (IC5)");
        prop_assert!(self.only.is_none_or(|only| only == read.kind), "another stream's type");
        let is_first = !self.types[read.kind].was_requested;
        prop_assert!(!is_first || read.nonce.is_empty(), "the first has no nonce (IC5)");
        let is_nack = matches!(cause, RequestCause::Nack { .. });
        prop_assert_eq!(read.has_error, is_nack, "only a NACK has a reason (IC3)");
        if *cause != RequestCause::Subscription {
            let answered = self.unanswered.pop_front();
            prop_assert!(answered.is_some(), "an answer to nothing (IC1)");
            if let Some(Some((kind, nonce))) = answered {
                prop_assert_eq!((kind, &nonce), (read.kind, &read.nonce), "in turn (IC1)");
            }
        }
        Ok(())
    }

    /// The next response of a type, if there is anything to say; `number` is part of its nonce.
    pub fn push(&mut self, kind: usize, store: &Store, number: u64) -> Option<Vec<u8>> {
        if !self.is_open || !self.types[kind].was_requested {
            return None;
        }
        let nonce = format!("n{number}");
        let talk = &mut self.types[kind];
        let frame = match self.variant {
            Variant::StateOfTheWorld => talk.push_sotw(kind, store, &nonce, number)?,
            Variant::Incremental => talk.push_delta(kind, store, &nonce, number)?,
        };
        self.note_response(kind, nonce);
        Some(frame)
    }

    fn note_response(&mut self, kind: usize, nonce: String) {
        self.has_responded = true;
        self.types[kind].nonces.insert(nonce.clone());
        self.unanswered.push_back(Some((kind, nonce)));
    }

    /// Notes that the client will answer something that no server should have sent.
    pub fn note_lie(&mut self) {
        self.has_lied = true;
        self.unanswered.push_back(None);
    }
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
        wanted: &Names,
    ) -> Result<(), TestCaseError> {
        self.was_requested = true;
        // Leaving a wildcard may take a request that still states it; nothing may begin one.
        let begins = subscribed.contains("*") && !self.subscribed.contains("*");
        prop_assert!(!begins || wanted.contains("*"), "a wildcard by accident (IC11)");
        self.subscribed = subscribed;
        Ok(())
    }

    /// A wildcard asks for what has no authority.
    fn covers(&self, name: &str) -> bool {
        let by_wildcard = self.subscribed.contains("*") && !name.starts_with("xdstp:");
        by_wildcard || self.subscribed.contains(name)
    }

    fn push_sotw(
        &mut self,
        kind: usize,
        store: &Store,
        nonce: &str,
        number: u64,
    ) -> Option<Vec<u8>> {
        let all = store.of(kind).iter().filter(|(name, _)| self.covers(name));
        let listing = all.clone().map(|(name, held)| (name.clone(), held.version)).collect();
        let state = Some((listing, self.subscribed.clone()));
        if self.sent == state {
            return None;
        }
        let any = |(name, held): (&String, &super::store::Held)| held.to_any(kind, name);
        let response = proto::DiscoveryResponse {
            version_info: format!("v{number}"),
            nonce: nonce.into(),
            type_url: TYPES[kind].into(),
            resources: all.map(any).collect(),
            ..Default::default()
        };
        self.sent = state;
        Some(response.encode_to_vec())
    }

    fn push_delta(
        &mut self,
        kind: usize,
        store: &Store,
        nonce: &str,
        number: u64,
    ) -> Option<Vec<u8>> {
        let is_owed = !self.owed.is_empty();
        let owed = mem::take(&mut self.owed);
        let names = store.of(kind).keys().chain(self.known.keys()).chain(&owed);
        let names: Names = names.filter(|name| *name != "*").cloned().collect();
        let mut response = proto::DeltaDiscoveryResponse {
            system_version_info: format!("v{number}"),
            nonce: nonce.into(),
            type_url: TYPES[kind].into(),
            ..Default::default()
        };
        for name in names {
            match store.of(kind).get(&name).filter(|_| self.covers(&name)) {
                Some(held)
                    if owed.contains(&name) || self.known.get(&name) != Some(&held.version) =>
                {
                    self.known.insert(name.clone(), held.version);
                    response.resources.push(proto::Resource {
                        version: format!("v{}", held.version),
                        resource: Some(held.to_any(kind, &name)),
                        name,
                        ..Default::default()
                    });
                }
                Some(_) => {}
                None => {
                    if self.known.remove(&name).is_some() || owed.contains(&name) {
                        response.removed_resources.push(name);
                    }
                }
            }
        }
        let is_empty = response.resources.is_empty() && response.removed_resources.is_empty();
        (is_owed || !is_empty).then(|| response.encode_to_vec())
    }
}
