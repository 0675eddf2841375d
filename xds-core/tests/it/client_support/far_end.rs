//! A stream as seen by a management server.

use std::{
    collections::{BTreeSet, VecDeque},
    mem,
};

use proptest::{prelude::*, test_runner::TestCaseError};
use xds_core::{ChannelId, Time, client::RequestCause, proto};

use super::TYPES;

/// The server's end of one channel.
#[derive(Debug)]
pub struct FarEnd {
    pub channel: ChannelId,
    pub is_open: bool,
    /// Whether the client has announced requests that have not all been taken.
    pub is_writable: bool,
    pub first_request: Option<Time>,
    pub has_responded: bool,
    has_node: bool,
    types: [Requests; TYPES.len()],
    unanswered: VecDeque<Unanswered>,
}

/// The requests of one type, applied by the rules of the protocol.
#[derive(Debug, Default)]
struct Requests {
    last: Option<Vec<String>>,
    has_listed: bool,
    /// Whether an empty list ever meant the wildcard.
    was_legacy: bool,
    left_everything: bool,
    subscribed: BTreeSet<String>,
    nonces: BTreeSet<String>,
}

/// A response without an ACK or NACK yet.
#[derive(Debug)]
struct Unanswered {
    kind: usize,
    nonce: String,
    version: String,
}

impl FarEnd {
    pub fn new(channel: ChannelId) -> Self {
        Self {
            channel,
            is_open: false,
            is_writable: false,
            first_request: None,
            has_responded: false,
            has_node: false,
            types: Default::default(),
            unanswered: VecDeque::new(),
        }
    }

    /// Time of the first request, if there has been no response.
    pub fn unanswered_since(&self) -> Option<Time> {
        self.first_request.filter(|_| !self.has_responded)
    }

    /// Records a response. A response of a type that was never requested is not answered.
    pub fn note_response(&mut self, kind: usize, nonce: String, version: String) {
        self.has_responded = true;
        let requests = &mut self.types[kind];
        if requests.last.is_some() {
            requests.nonces.insert(nonce.clone());
            self.unanswered.push_back(Unanswered { kind, nonce, version });
        }
    }

    /// Reads a request. `wanted` returns the subscriptions that the live watches of a type need.
    pub fn read(
        &mut self,
        request: proto::DiscoveryRequest,
        cause: &RequestCause,
        wanted: impl Fn(usize) -> BTreeSet<String>,
    ) -> Result<(), TestCaseError> {
        let kind = TYPES.iter().position(|known| *known == request.type_url);
        let kind = kind.ok_or_else(|| TestCaseError::fail("a request for an unknown type"))?;
        let is_first_message = !mem::replace(&mut self.has_node, true);
        prop_assert_eq!(request.node.is_some(), is_first_message, "the node comes first (IC5)");
        self.match_answer(kind, &request, cause)?;

        let requests = &mut self.types[kind];
        let nonce = &request.response_nonce;
        let is_first = requests.last.is_none();
        prop_assert!(!is_first || nonce.is_empty(), "the first request has no nonce (IC5)");
        let is_ours = nonce.is_empty() || requests.nonces.contains(nonce);
        prop_assert!(is_ours, "a nonce stays with its stream and type (IC6)");
        if *cause == RequestCause::Subscription {
            let is_news = requests.last.as_ref() != Some(&request.resource_names);
            prop_assert!(is_news, "it says what the last one said (IC40)");
        }
        let had_wildcard = requests.subscribed.contains("*");
        requests.fold(request.resource_names);
        let has_wildcard = requests.subscribed.contains("*");
        // Unsubscribing from a legacy wildcard may need one more request that still states it, and
        // one more if a response crosses that. No other request may start a wildcard subscription.
        let is_newest = self.unanswered.iter().all(|response| response.kind != kind);
        let is_answer = *cause != RequestCause::Subscription && is_newest;
        let leaves_again =
            is_answer && requests.was_legacy && mem::take(&mut requests.left_everything);
        requests.left_everything |= had_wildcard && !has_wildcard;
        if has_wildcard && !had_wildcard {
            let may_state = leaves_again || wanted(kind).contains("*");
            prop_assert!(may_state, "a wildcard by accident (IC11)");
        }
        Ok(())
    }

    /// Checks that each response is answered once and in order, and only an ACK states its version.
    // IC1 to IC3
    fn match_answer(
        &mut self,
        kind: usize,
        request: &proto::DiscoveryRequest,
        cause: &RequestCause,
    ) -> Result<(), TestCaseError> {
        let is_nack = matches!(cause, RequestCause::Nack { .. });
        prop_assert_eq!(request.error_detail.is_some(), is_nack, "only a NACK has a reason (IC3)");
        if *cause == RequestCause::Subscription {
            return Ok(());
        }
        let answered = self.unanswered.pop_front();
        let answered = answered.ok_or_else(|| TestCaseError::fail("an answer to nothing (IC1)"))?;
        let (asked, nonce) = (answered.kind, &answered.nonce);
        prop_assert_eq!((asked, nonce), (kind, &request.response_nonce), "in turn (IC1)");
        let has_version = answered.version == request.version_info;
        prop_assert_eq!(has_version, !is_nack, "an ACK moves the version (IC2, IC3)");
        Ok(())
    }

    /// Checks at rest that the server knows the subscriptions and every response is answered.
    // IC10 IC1
    pub fn agrees_with(
        &self,
        wanted: impl Fn(usize) -> BTreeSet<String>,
    ) -> Result<(), TestCaseError> {
        for (kind, requests) in self.types.iter().enumerate() {
            prop_assert_eq!(&requests.subscribed, &wanted(kind), "type {} (IC10)", kind);
        }
        prop_assert!(self.unanswered.is_empty(), "unanswered: {:?} (IC1)", self.unanswered);
        Ok(())
    }
}

impl Requests {
    /// Applies a list of names. An empty list means the wildcard until any name was listed, then
    /// nothing.
    fn fold(&mut self, names: Vec<String>) {
        self.has_listed |= !names.is_empty();
        self.was_legacy |= !self.has_listed;
        self.subscribed = match self.has_listed {
            true => names.iter().cloned().collect(),
            false => BTreeSet::from(["*".into()]),
        };
        self.last = Some(names);
    }
}
