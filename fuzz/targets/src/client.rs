//! Responses, as a client takes them.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    ChannelId, Client, Frame, Malformed, Time, TypeUrl,
    client::{
        ChannelError, ChannelEvent, ClientConfig, Interest, ManagementServer, Node, Output,
        PollPolicy,
    },
    proto::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse},
    service::Variant,
    types,
};
use xds_sim::ToyType;

/// A response of the state-of-the-world variant.
///
/// What a decoder of protobuf takes for a response is not malformed, but for groups; and it is answered exactly if it is
/// of a type that was asked for, with its nonce.
pub fn discovery_response(bytes: &[u8]) {
    let mut talk = Talk::begin(Variant::StateOfTheWorld);
    let said = talk.hear(bytes);
    if let Ok(response) = DiscoveryResponse::decode(bytes) {
        assert!(!is_malformed(&said), "{response:?} is malformed: {:?}", said.fault);
        let answers = said.requests.iter().map(|request| {
            let request = DiscoveryRequest::decode(&**request).expect("we can write");
            (request.type_url, request.response_nonce)
        });
        check_answers(&said, &response.type_url, &response.nonce, answers.collect());
    }
}

/// A response of the incremental variant; see [`discovery_response`].
pub fn delta_response(bytes: &[u8]) {
    let mut talk = Talk::begin(Variant::Incremental);
    let said = talk.hear(bytes);
    if let Ok(response) = DeltaDiscoveryResponse::decode(bytes) {
        assert!(!is_malformed(&said), "{response:?} is malformed: {:?}", said.fault);
        let answers = said.requests.iter().map(|request| {
            let request = DeltaDiscoveryRequest::decode(&**request).expect("we can write");
            (request.type_url, request.response_nonce)
        });
        check_answers(&said, &response.type_url, &response.nonce, answers.collect());
    }
}

/// A response, encoded by us, to a client that polls for clusters: nothing in it is malformed.
pub(crate) fn polled_response(bytes: &[u8]) {
    let policy = PollPolicy::new(Duration::from_secs(5));
    let server = ManagementServer::new("server").with_polls(policy);
    let config = ClientConfig::new(Node::new("fuzz"), server);
    let mut client = Client::new(config.with_type(ToyType::new(types::CLUSTER)), 1, Time::ZERO);
    for interest in [Interest::Wildcard, Interest::Name("a")] {
        let _ = client.watch(&TypeUrl::from(types::CLUSTER), interest, Time::ZERO);
    }
    let mut talk = Talk::open(client);
    assert_eq!(talk.drain().requests.len(), 1, "a client that polls asks for its type");
    let fault = talk.hear(bytes).fault;
    assert!(!matches!(fault, Some(ChannelError::Malformed(_))), "{fault:?}");
}

/// What a client did about one response.
#[derive(Debug)]
struct Said {
    requests: Vec<Vec<u8>>,
    /// Why it ended the channel, if it did.
    fault: Option<ChannelError>,
}

/// Groups, which decoders pass over, are none of proto3's encodings: the walk ends there.
fn is_malformed(said: &Said) -> bool {
    match said.fault {
        Some(ChannelError::Malformed(why)) => !matches!(why, Malformed::Tag { .. }),
        _ => false,
    }
}

/// IC1: exactly one answer, on the same stream, with the nonce of the response.
fn check_answers(said: &Said, type_url: &str, nonce: &str, answers: Vec<(String, String)>) {
    if said.fault.is_some() {
        return;
    }
    let expected = if WATCHED.contains(&type_url) && !nonce.is_empty() { 1 } else { 0 };
    let of_it = answers.iter().filter(|(url, echoed)| url == type_url && echoed == nonce).count();
    if !nonce.is_empty() {
        assert_eq!(of_it, expected, "{type_url} {nonce:?} is answered with {answers:?}");
    }
}

/// A client in the middle of a conversation.
struct Talk {
    client: Client,
    channel: ChannelId,
}

const WATCHED: [&str; 3] = [types::CLUSTER, types::CLUSTER_LOAD_ASSIGNMENT, types::LISTENER];

/// A second: nothing that a response starts is over before.
const LATER: Time = Time::from_nanos(1_000_000_000);

impl Talk {
    /// A client that watches names and everything, whose first requests have been sent.
    fn begin(variant: Variant) -> Self {
        let server = ManagementServer::new("server").with_variant(variant);
        let config = ClientConfig::new(Node::new("fuzz"), server);
        let config =
            WATCHED.into_iter().fold(config, |config, url| config.with_type(ToyType::new(url)));
        let mut client = Client::new(config, 1, Time::ZERO);
        let everything = [(0, Interest::Wildcard), (2, Interest::Wildcard)];
        let named = [(0, "a"), (1, "a"), (1, "b"), (2, "xdstp:///t/a?k=v")];
        let named = named.map(|(nth, name)| (nth, Interest::Name(name)));
        for (nth, interest) in everything.into_iter().chain(named) {
            let _ = client.watch(&TypeUrl::from(WATCHED[nth]), interest, Time::ZERO);
        }
        let mut talk = Self::open(client);
        let said = talk.drain();
        assert_eq!(said.requests.len(), WATCHED.len());
        talk
    }

    /// A client whose first channel is up.
    fn open(mut client: Client) -> Self {
        let Some(Output::Open(channel, _)) = client.poll_output() else {
            unreachable!("a client that wants something opens a channel")
        };
        client.handle_event(ChannelEvent::Opened(channel), Time::ZERO);
        Self { client, channel }
    }

    fn hear(&mut self, bytes: &[u8]) -> Said {
        let message = ChannelEvent::Message(self.channel, Bytes::copy_from_slice(bytes));
        self.client.handle_event(message, LATER);
        self.drain()
    }

    /// Does all that the client asks for; watchers are done at once.
    fn drain(&mut self) -> Said {
        let mut said = Said { requests: Vec::new(), fault: None };
        let mut frame = Frame::default();
        while let Some(output) = self.client.poll_output() {
            match output {
                Output::Close(_, fault) => said.fault = fault,
                Output::Writable(channel) => {
                    while self.client.poll_transmit(channel, LATER, &mut frame).is_some() {
                        said.requests.push(frame.to_bytes().to_vec());
                    }
                }
                Output::Notify(watch, _) => {
                    while self.client.next_change(watch).is_some() {}
                    self.client.handled(watch, LATER);
                }
                _ => {}
            }
        }
        said
    }
}
