//! Fuzz targets for responses to a client.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    ChannelId, Client, Frame, Malformed, Time, TypeUrl,
    client::{
        ChannelError, ChannelEvent, ClientConfig, Interest, Node, Output, PollPolicy, ServerAddress,
    },
    proto::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse},
    service::Variant,
    types,
};
use xds_sim::ToyType;

/// Fuzz target for a state-of-the-world response.
///
/// Bytes that a protobuf decoder accepts as a response must not be malformed, except groups. The
/// client must answer exactly once, with the response's nonce, if it subscribes to the type.
pub fn discovery_response(bytes: &[u8]) {
    let mut session = Session::begin(Variant::StateOfTheWorld);
    let output = session.receive(bytes);
    if let Ok(response) = DiscoveryResponse::decode(bytes) {
        assert!(!is_malformed(&output), "{response:?} is malformed: {:?}", output.fault);
        let answers = output.requests.iter().map(|request| {
            let request = DiscoveryRequest::decode(&**request).expect("we can write");
            (request.type_url, request.response_nonce)
        });
        check_answers(&output, &response.type_url, &response.nonce, answers.collect());
    }
}

/// Fuzz target for an incremental response, with the rules of [`discovery_response`].
pub fn delta_response(bytes: &[u8]) {
    let mut session = Session::begin(Variant::Incremental);
    let output = session.receive(bytes);
    if let Ok(response) = DeltaDiscoveryResponse::decode(bytes) {
        assert!(!is_malformed(&output), "{response:?} is malformed: {:?}", output.fault);
        let answers = output.requests.iter().map(|request| {
            let request = DeltaDiscoveryRequest::decode(&**request).expect("we can write");
            (request.type_url, request.response_nonce)
        });
        check_answers(&output, &response.type_url, &response.nonce, answers.collect());
    }
}

/// Checks that an encoded response is not malformed for a client that polls for clusters.
pub(crate) fn polled_response(bytes: &[u8]) {
    let policy = PollPolicy::new(Duration::from_secs(5));
    let server = ServerAddress::new("server").with_polling(policy);
    let config = ClientConfig::new(Node::new("fuzz"), server);
    let mut client = Client::new(config.with_type(ToyType::new(types::CLUSTER)), 1, Time::ZERO);
    for interest in [Interest::Wildcard, Interest::Name("a")] {
        let _ = client.watch(&TypeUrl::from(types::CLUSTER), interest, Time::ZERO);
    }
    let mut session = Session::open(client);
    assert_eq!(session.drain().requests.len(), 1, "a client that polls asks for its type");
    let fault = session.receive(bytes).fault;
    assert!(!matches!(fault, Some(ChannelError::Malformed(_))), "{fault:?}");
}

/// Reaction of a client to one response.
#[derive(Debug)]
struct Drained {
    requests: Vec<Vec<u8>>,
    /// Reason why the client closed the channel, if it did.
    fault: Option<ChannelError>,
}

/// Whether the client found the bytes malformed. Groups do not count: decoders skip them, but
/// proto3 has none.
fn is_malformed(output: &Drained) -> bool {
    match output.fault {
        Some(ChannelError::Malformed(why)) => !matches!(why, Malformed::Tag { .. }),
        _ => false,
    }
}

/// Checks that there is exactly one answer, on the same stream, with the nonce of the response.
// IC1
fn check_answers(output: &Drained, type_url: &str, nonce: &str, answers: Vec<(String, String)>) {
    if output.fault.is_some() {
        return;
    }
    let expected = if WATCHED.contains(&type_url) && !nonce.is_empty() { 1 } else { 0 };
    let of_it = answers.iter().filter(|(url, echoed)| url == type_url && echoed == nonce).count();
    if !nonce.is_empty() {
        assert_eq!(of_it, expected, "{type_url} {nonce:?} is answered with {answers:?}");
    }
}

/// Client with an open channel.
struct Session {
    client: Client,
    channel: ChannelId,
}

const WATCHED: [&str; 3] = [types::CLUSTER, types::CLUSTER_LOAD_ASSIGNMENT, types::LISTENER];

/// One second, before which no timer that a response starts expires.
const LATER: Time = Time::from_nanos(1_000_000_000);

impl Session {
    /// Creates a client that watches names and wildcards and has sent its first requests.
    fn begin(variant: Variant) -> Self {
        let server = ServerAddress::new("server").with_variant(variant);
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
        let mut session = Self::open(client);
        let output = session.drain();
        assert_eq!(output.requests.len(), WATCHED.len());
        session
    }

    /// Opens the first channel of a client.
    fn open(mut client: Client) -> Self {
        let Some(Output::Open(channel, _)) = client.poll_output() else {
            unreachable!("a client that wants something opens a channel")
        };
        client.handle_event(ChannelEvent::Opened(channel), Time::ZERO);
        Self { client, channel }
    }

    fn receive(&mut self, bytes: &[u8]) -> Drained {
        let message = ChannelEvent::Message(self.channel, Bytes::copy_from_slice(bytes));
        self.client.handle_event(message, LATER);
        self.drain()
    }

    /// Processes all outputs of the client. Watchers handle each notice at once.
    fn drain(&mut self) -> Drained {
        let mut drained = Drained { requests: Vec::new(), fault: None };
        let mut frame = Frame::default();
        while let Some(output) = self.client.poll_output() {
            match output {
                Output::Close(_, fault) => drained.fault = fault,
                Output::Writable(channel) => {
                    while self.client.poll_transmit(channel, LATER, &mut frame).is_some() {
                        drained.requests.push(frame.to_bytes().to_vec());
                    }
                }
                Output::Notify(watch, _) => {
                    while self.client.next_change(watch).is_some() {}
                    self.client.handled(watch, LATER);
                }
                _ => {}
            }
        }
        drained
    }
}
