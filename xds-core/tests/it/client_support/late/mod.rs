//! A client and a conforming server connected by function calls, exchanging messages on demand.

pub mod far_side;

use std::{collections::BTreeMap, time::Duration};

use proptest::test_runner::TestCaseError;
use xds_core::{
    ChannelId, Client, Frame, StatusCode, Time, TypeUrl, WatchId,
    client::{
        Call, Change, ChannelError, ChannelEvent, ClientConfig, DataErrorPolicy, FlowControl,
        Interest, Node, Notice, Output, Profile, Resource, ServerAddress, Streams,
    },
    service::Variant,
};

use self::far_side::FarSide;
use super::{Picky, TYPES};

/// One step of a client and a conforming server.
#[derive(Clone, Debug)]
pub enum Step {
    Watch {
        kind: usize,
        name: Option<u8>,
    },
    Unwatch(usize),
    Set {
        kind: usize,
        name: u8,
        text: u8,
    },
    Remove {
        kind: usize,
        name: u8,
    },
    /// Every stream ends.
    Cut,
}

/// A watch; watches are kept in the order of their creation.
#[derive(Debug)]
pub struct Watched {
    id: WatchId,
    pub kind: usize,
    /// A name, or `*`.
    pub name: String,
    /// Last reported value of each resource.
    told: BTreeMap<String, Vec<u8>>,
}

/// A client and a server of type `F`.
pub struct Pair<F> {
    client: Client,
    far_side: F,
    now: Time,
    watched: Vec<Watched>,
    channels: Vec<ChannelId>,
}

impl<F: FarSide> Pair<F> {
    pub fn new(policy: DataErrorPolicy, variant: Variant, streams: Streams) -> Self {
        let mut profile = Profile::grpc();
        profile.flow_control = FlowControl::Off;
        profile.data_errors = policy;
        profile.does_not_exist_timeout = None;
        let server = ServerAddress::new("server").with_variant(variant).with_streams(streams);
        let config = ClientConfig::new(Node::new("me"), server).with_profile(profile);
        let config = config.with_nack_interval(Duration::ZERO);
        let picky = |type_url| Picky(TypeUrl::from(type_url));
        let config = TYPES.into_iter().fold(config, |config, it| config.with_type(picky(it)));
        Self {
            client: Client::new(config, 7, Time::ZERO),
            far_side: F::default(),
            now: Time::ZERO,
            watched: Vec::new(),
            channels: Vec::new(),
        }
    }

    pub fn take(&mut self, step: &Step) {
        match *step {
            Step::Watch { kind, name } => {
                let name = name.map(resource_name);
                let interest = name.as_deref().map_or(Interest::Wildcard, Interest::Name);
                let id = self.client.watch(&TypeUrl::from(TYPES[kind]), interest, self.now);
                let id = id.expect("a registered type and a good name");
                let name = name.unwrap_or_else(|| "*".into());
                self.watched.push(Watched { id, kind, name, told: BTreeMap::new() });
            }
            Step::Unwatch(nth) if !self.watched.is_empty() => {
                let ended = self.watched.remove(nth % self.watched.len());
                self.client.unwatch(ended.id, self.now);
            }
            Step::Unwatch(_) => {}
            Step::Set { kind, name, text } => self.far_side.set(kind, resource_name(name), text),
            Step::Remove { kind, name } => self.far_side.remove(kind, resource_name(name)),
            Step::Cut => {
                for channel in self.channels.drain(..) {
                    self.far_side.hang_up(channel);
                    let error =
                        ChannelError::Status { code: StatusCode::Unavailable, message: "".into() };
                    self.client.handle_event(ChannelEvent::Closed(channel, error), self.now);
                }
            }
        }
    }

    /// Exchanges messages until both sides are idle.
    pub fn exchange(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..10_000 {
            let has_spoken = self.client_to_server()?;
            if !(self.server_to_client() | has_spoken) {
                return Ok(());
            }
        }
        Err(TestCaseError::fail("the two never fall silent (IL2)"))
    }

    /// Exchanges messages, and lets all timers of the client fire, including the backoff.
    pub fn settle(&mut self) -> Result<(), TestCaseError> {
        self.exchange()?;
        for _ in 0..10 {
            self.now = self.now.after(Duration::from_secs(200));
            self.client.handle_timeout(self.now);
            self.exchange()?;
        }
        Ok(())
    }

    fn client_to_server(&mut self) -> Result<bool, TestCaseError> {
        let mut has_worked = false;
        while let Some(output) = self.client.poll_output() {
            has_worked = true;
            match output {
                Output::Open(channel, call) => self.open(channel, &call),
                Output::Close(channel, _) => {
                    self.channels.retain(|open| *open != channel);
                    self.far_side.hang_up(channel);
                }
                Output::Writable(channel) => self.transmit(channel)?,
                Output::Notify(watch, notice) => self.tell(watch, notice),
                _ => {}
            }
        }
        Ok(has_worked)
    }

    fn open(&mut self, channel: ChannelId, call: &Call) {
        self.channels.push(channel);
        self.far_side.accept(channel, call);
        self.client.handle_event(ChannelEvent::Opened(channel), self.now);
    }

    fn transmit(&mut self, channel: ChannelId) -> Result<(), TestCaseError> {
        let mut frame = Frame::default();
        while let Some(transmit) = self.client.poll_transmit(channel, self.now, &mut frame) {
            self.far_side.hear(channel, &frame, &transmit.cause, &self.watched)?;
        }
        Ok(())
    }

    fn tell(&mut self, watch: WatchId, notice: Notice) {
        let Some(watched) = self.watched.iter_mut().find(|it| it.id == watch) else { return };
        match notice {
            Notice::Changed(result) => watched.take(watched.name.clone(), result.ok()),
            Notice::ChangesAvailable => {
                while let Some(change) = self.client.next_change(watch) {
                    match change {
                        Change::Resource { name, result } => {
                            watched.take(name.to_string(), result.ok());
                        }
                        Change::Resync => watched.told.clear(),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        self.client.handled(watch, self.now);
    }

    fn server_to_client(&mut self) -> bool {
        let mut has_worked = false;
        while let Some((channel, bytes)) = self.far_side.speak() {
            has_worked = true;
            self.client.handle_event(ChannelEvent::Message(channel, bytes), self.now);
        }
        has_worked
    }

    /// Final value of every live watch. Absent and deleted resources are not distinguished.
    pub fn end_state(&self) -> BTreeMap<(usize, String), Vec<u8>> {
        let watches = self.watched.iter().enumerate();
        let held = watches.flat_map(|(position, watched)| {
            let told = watched.told.iter();
            told.map(move |(name, bytes)| ((position, name.clone()), bytes.clone()))
        });
        held.collect()
    }
}

impl Watched {
    fn take(&mut self, name: String, resource: Option<Resource>) {
        match resource {
            Some(resource) => self.told.insert(name, resource.bytes.to_vec()),
            None => self.told.remove(&name),
        };
    }
}

fn resource_name(name: u8) -> String {
    format!("r{name}")
}
