//! A driver for the client's tests: generated inputs and their effects.

#![allow(unreachable_pub, reason = "private to the test binary")]

pub mod far_end;
pub mod fleet;
pub mod late;
pub mod reported;
pub mod watcher;

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use prost::{Message as _, Name as _};
use xds_core::{
    ChannelId, Client, Frame, StatusCode, Time, TypeUrl, WatchId,
    client::{
        ChannelError, ChannelEvent, ClientConfig, DataErrorPolicy, Interest, Node, Notice, Output,
        Profile, Rejection, ResourceType, ServerAddress, ValidationContext, Value,
    },
    proto,
    service::Variant,
    types,
};

/// A type with complete responses, and a type with partial ones.
pub const TYPES: [&str; 2] = [types::CLUSTER, types::CLUSTER_LOAD_ASSIGNMENT];

/// One input of an application, network or clock.
#[derive(Clone, Debug)]
pub enum Input {
    Watch {
        kind: usize,
        name: Option<u8>,
    },
    Unwatch(usize),
    Handled(usize),
    Connect,
    Respond {
        kind: usize,
        nonce: u8,
        resources: Vec<(u8, u8)>,
    },
    Garbage(Vec<u8>),
    Close {
        code: i32,
    },
    /// An event of a closed channel.
    Late,
    Sleep {
        millis: u64,
    },
    /// The driver's clock jumps back.
    Back,
}

fn input() -> impl Strategy<Value = Input> {
    let kind = 0..TYPES.len();
    let resources = proptest::collection::vec((0..6u8, 0..9u8), 0..6);
    prop_oneof![
        4 => (kind.clone(), proptest::option::weighted(0.8, 0..6u8))
            .prop_map(|(kind, name)| Input::Watch { kind, name }),
        2 => (0..8usize).prop_map(Input::Unwatch),
        2 => (0..8usize).prop_map(Input::Handled),
        3 => Just(Input::Connect),
        6 => (kind, any::<u8>(), resources)
            .prop_map(|(kind, nonce, resources)| Input::Respond { kind, nonce, resources }),
        1 => proptest::collection::vec(any::<u8>(), 0..40).prop_map(Input::Garbage),
        1 => (0..17i32).prop_map(|code| Input::Close { code }),
        1 => Just(Input::Late),
        2 => (0..20_000u64).prop_map(|millis| Input::Sleep { millis }),
        1 => Just(Input::Back),
    ]
}

pub fn inputs() -> impl Strategy<Value = Vec<Input>> {
    proptest::collection::vec(input(), 0..60)
}

/// The two protocol variants.
pub const VARIANTS: [Variant; 2] = [Variant::StateOfTheWorld, Variant::Incremental];

/// Profiles for rules that hold in every profile.
pub fn profiles() -> [Profile; 3] {
    let mut dropping = Profile::grpc();
    dropping.data_errors = DataErrorPolicy::DropCached;
    [Profile::grpc(), dropping, Profile::envoy()]
}

/// gRPC's profile with a validating type for each of [`TYPES`].
pub fn config() -> ClientConfig {
    config_in(Variant::StateOfTheWorld)
}

/// gRPC's profile with a server of this protocol variant.
pub fn config_in(variant: Variant) -> ClientConfig {
    let server = ServerAddress::new("server").with_variant(variant);
    // NACKs are not delayed, so that each response is answered at once.
    let config = ClientConfig::new(Node::new("me"), server).with_nack_interval(Duration::ZERO);
    let picky = |type_url| Picky(TypeUrl::from(type_url));
    TYPES.into_iter().fold(config, |config, type_url| config.with_type(picky(type_url)))
}

/// A client with its driver's state.
pub struct Driver {
    pub client: Client,
    pub variant: Variant,
    pub now: Time,
    pub channel: Option<ChannelId>,
    pub dead: Vec<ChannelId>,
    pub watches: Vec<WatchId>,
    pub trace: Vec<String>,
}

impl Driver {
    pub fn new(profile: Profile, variant: Variant) -> Self {
        let mut config = config_in(variant).with_profile(profile);
        config.limits.tombstones_per_type = 3;
        config.limits.resources_per_type = 5;
        Self {
            client: Client::new(config, 7, Time::ZERO),
            variant,
            now: Time::ZERO,
            channel: None,
            dead: Vec::new(),
            watches: Vec::new(),
            trace: Vec::new(),
        }
    }

    pub fn apply(&mut self, input: &Input) {
        let now = self.now;
        match input {
            Input::Watch { kind, name } => {
                let name = name.map(|name| format!("r{name}"));
                let interest = name.as_deref().map_or(Interest::Wildcard, Interest::Name);
                let watch = self.client.watch(&TypeUrl::from(TYPES[*kind]), interest, now);
                self.watches.push(watch.expect("a registered type and a good name"));
            }
            Input::Unwatch(nth) if !self.watches.is_empty() => {
                let watch = self.watches.remove(nth % self.watches.len());
                self.client.unwatch(watch, now);
                self.client.unwatch(watch, now);
            }
            Input::Handled(nth) if !self.watches.is_empty() => {
                let watch = self.watches[nth % self.watches.len()];
                while let Some(change) = self.client.next_change(watch) {
                    self.trace.push(format!("{watch} {change:?}"));
                }
                self.client.handled(watch, now);
            }
            Input::Unwatch(_) | Input::Handled(_) => {}
            Input::Connect => {
                if let Some(channel) = self.channel {
                    self.client.handle_event(ChannelEvent::Opened(channel), now);
                }
            }
            Input::Respond { kind, nonce, resources } => {
                let frame = response_in(self.variant, *kind, *nonce, resources);
                if let Some(channel) = self.channel.filter(|&c| self.client.wants_read(c)) {
                    self.client.handle_event(ChannelEvent::Message(channel, frame), now);
                }
            }
            Input::Garbage(bytes) => {
                if let Some(channel) = self.channel {
                    let frame = Bytes::copy_from_slice(bytes);
                    self.client.handle_event(ChannelEvent::Message(channel, frame), now);
                }
            }
            Input::Close { code } => {
                if let Some(channel) = self.channel.take() {
                    self.dead.push(channel);
                    let error = ChannelError::Status {
                        code: StatusCode::from_i32(*code),
                        message: "".into(),
                    };
                    self.client.handle_event(ChannelEvent::Closed(channel, error), now);
                }
            }
            Input::Late => {
                if let Some(&channel) = self.dead.first() {
                    let before = self.client.stats().ignored_events;
                    let frame = response_in(self.variant, 0, 1, &[(1, 1)]);
                    self.client.handle_event(ChannelEvent::Message(channel, frame), now);
                    assert_eq!(self.client.stats().ignored_events, before + 1, "rule 7");
                }
            }
            Input::Sleep { millis } => self.sleep(Duration::from_millis(*millis)),
            Input::Back => self.client.handle_timeout(Time::ZERO),
        }
    }

    /// Sleeps exactly to each deadline, as a driver may.
    fn sleep(&mut self, duration: Duration) {
        let end = self.now.after(duration);
        for _ in 0..10_000 {
            match self.client.poll_timeout() {
                Some(due) if due.at <= end => {
                    self.now = self.now.max(due.at);
                    self.client.handle_timeout(self.now);
                    self.drain();
                }
                _ => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("a due timeout makes no progress (IC38)");
    }

    /// Takes every output and renders every request.
    pub fn drain(&mut self) {
        loop {
            let due = self.client.poll_timeout();
            let Some(output) = self.client.poll_output() else { break };
            assert!(due.is_some_and(|due| due.at <= self.now), "rule 4: {output:?} was queued");
            match &output {
                Output::Open(channel, _) => {
                    assert!(!self.dead.contains(channel), "rule 7: {channel} is reused");
                    self.channel = Some(*channel);
                }
                Output::Close(channel, _) => {
                    self.dead.push(*channel);
                    self.channel = self.channel.filter(|current| current != channel);
                }
                Output::Writable(channel) => self.transmit(*channel),
                Output::Notify(watch, Notice::ChangesAvailable) => {
                    let watch = *watch;
                    while let Some(change) = self.client.next_change(watch) {
                        self.trace.push(format!("{watch} {change:?}"));
                    }
                }
                _ => {}
            }
            self.trace.push(format!("{output:?}"));
        }
        assert!(self.client.poll_output().is_none(), "rule 5");
    }

    fn transmit(&mut self, channel: ChannelId) {
        let mut frame = Frame::default();
        while let Some(transmit) = self.client.poll_transmit(channel, self.now, &mut frame) {
            self.trace.push(format!("{transmit:?} {:?}", frame.to_bytes()));
        }
        assert!(self.client.poll_transmit(channel, self.now, &mut frame).is_none(), "rule 5");
    }
}

pub fn run(inputs: &[Input], profile: &Profile, variant: Variant) -> Driver {
    let mut driver = Driver::new(profile.clone(), variant);
    for input in inputs {
        driver.apply(input);
        driver.drain();
    }
    driver
}

/// Returns a response. Texts from 4 on select special content: a resource with a TTL, a heartbeat,
/// a malformed wrapper, and two kinds of reported errors.
pub fn response_in(variant: Variant, kind: usize, nonce: u8, resources: &[(u8, u8)]) -> Bytes {
    match variant {
        Variant::StateOfTheWorld => response(kind, nonce, resources),
        Variant::Incremental => incremental_response(kind, nonce, resources),
    }
}

fn packed(kind: usize, name: u8, text: u8) -> proto::Any {
    proto::Any { type_url: TYPES[kind].into(), value: resource(name, text) }
}

/// Returns a wrapper with a TTL of three seconds.
fn wrapped(name: u8, resource: Option<proto::Any>) -> proto::Resource {
    proto::Resource {
        name: format!("r{name}"),
        resource,
        ttl: Some(proto::Duration { seconds: 3, nanos: 0 }),
        ..Default::default()
    }
}

fn reported(name: u8, code: i32) -> proto::ResourceError {
    proto::ResourceError {
        resource_name: Some(proto::ResourceName { name: format!("r{name}"), ..Default::default() }),
        error_detail: Some(proto::Status { code, ..Default::default() }),
    }
}

pub fn response(kind: usize, nonce: u8, resources: &[(u8, u8)]) -> Bytes {
    let wrapped = |name, resource| proto::Any {
        type_url: proto::Resource::type_url(),
        value: wrapped(name, resource).encode_to_vec().into(),
    };
    let broken = proto::Any {
        type_url: proto::Resource::type_url(),
        value: Bytes::from_static(&[0x1a, 2, b'r', b'1', 0x12, 9]),
    };
    let mut response = proto::DiscoveryResponse {
        version_info: format!("v{nonce}"),
        nonce: format!("n{nonce}"),
        type_url: TYPES[kind].into(),
        ..Default::default()
    };
    for &(name, text) in resources {
        match text {
            ..4 => response.resources.push(packed(kind, name, text)),
            4 => response.resources.push(wrapped(name, Some(packed(kind, name, 1)))),
            5 => response.resources.push(wrapped(name, None)),
            6 => response.resources.push(broken.clone()),
            7 => response.resource_errors.push(reported(name, 5)),
            8.. => response.resource_errors.push(reported(name, 13)),
        }
    }
    response.encode_to_vec().into()
}

/// Returns an incremental response. A resource's text is its version; text 6 is a removal.
fn incremental_response(kind: usize, nonce: u8, resources: &[(u8, u8)]) -> Bytes {
    let versioned = |text, resource| proto::Resource { version: format!("v{text}"), ..resource };
    let mut response = proto::DeltaDiscoveryResponse {
        system_version_info: format!("v{nonce}"),
        nonce: format!("n{nonce}"),
        type_url: TYPES[kind].into(),
        ..Default::default()
    };
    for &(name, text) in resources {
        match text {
            ..4 => {
                let lasting =
                    proto::Resource { ttl: None, ..wrapped(name, Some(packed(kind, name, text))) };
                response.resources.push(versioned(text, lasting));
            }
            4 => response.resources.push(versioned(1, wrapped(name, Some(packed(kind, name, 1))))),
            5 => response.resources.push(versioned(1, wrapped(name, None))),
            6 => response.removed_resources.push(format!("r{name}")),
            7 => response.resource_errors.push(reported(name, 5)),
            8.. => response.resource_errors.push(reported(name, 13)),
        }
    }
    response.encode_to_vec().into()
}

/// Returns an encoded resource. Text 3 is invalid.
pub fn resource(name: u8, text: u8) -> Bytes {
    let locality = proto::Locality {
        region: format!("r{name}"),
        zone: format!("text {text}"),
        ..Default::default()
    };
    locality.encode_to_vec().into()
}

#[derive(Debug)]
pub struct Picky(pub TypeUrl);

impl ResourceType for Picky {
    fn type_url(&self) -> &TypeUrl {
        &self.0
    }

    fn validate(
        &self,
        bytes: &Bytes,
        _: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        verdict_on(bytes).map(|()| None)
    }
}

/// The validation result, for validating types and external verdicts.
pub fn verdict_on(bytes: &[u8]) -> Result<(), Rejection> {
    match bytes.ends_with(b"text 3") {
        true => Err(Rejection::new("text 3 is not accepted")),
        false => Ok(()),
    }
}
