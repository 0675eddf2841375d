//! Rule 3 of the contract: when outputs are taken changes how messages coalesce, never where a client
//! and a conforming server end.

mod client_support;

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use xds_core::{
    Client, Frame, StreamId, Time, TypeUrl, WatchId,
    client::{
        Change, ChannelEvent, ClientConfig, DataErrorPolicy, ManagementServer, Node, Notice,
        Output, Profile, ReadGate,
    },
    server::{Server, ServerConfig, ServerOutput, StreamEvent, Transaction, Variant, Via},
};

use client_support::{Driver, Input, Picky, TYPES, resource};

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rule 3: runs that differ only in when outputs are taken end equal, once all is taken and a
    /// conforming server has answered.
    #[test]
    fn draining_late_changes_nothing_in_the_end(
        steps in proptest::collection::vec(step(), 0..40),
        policy in prop_oneof![Just(DataErrorPolicy::KeepCached), Just(DataErrorPolicy::DropCached)],
    ) {
        let eager = Pair::run(&steps, policy, |_| true);
        let lazy = Pair::run(&steps, policy, |_| false);
        let odd = Pair::run(&steps, policy, |turn| turn % 3 == 0);
        prop_assert_eq!(eager.end_state(), lazy.end_state());
        prop_assert_eq!(eager.end_state(), odd.end_state());
    }
}

/// One thing that happens to a client and a conforming server.
#[derive(Clone, Debug)]
enum Step {
    Watch { kind: usize, name: Option<u8> },
    Unwatch(usize),
    Set { kind: usize, name: u8, text: u8 },
    Remove { kind: usize, name: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let kind = 0..TYPES.len();
    prop_oneof![
        (kind.clone(), proptest::option::weighted(0.8, 0..5u8))
            .prop_map(|(kind, name)| Step::Watch { kind, name }),
        (0..8usize).prop_map(Step::Unwatch),
        // Only texts that are accepted: a rejected one leaves behind what came before it.
        (kind.clone(), 0..5u8, 0..3u8).prop_map(|(kind, name, text)| Step::Set {
            kind,
            name,
            text
        }),
        (kind, 0..5u8).prop_map(|(kind, name)| Step::Remove { kind, name }),
    ]
}

/// Our client and our server, connected by function calls.
struct Pair {
    driver: Driver,
    server: Server,
    stream: Option<StreamId>,
    /// The last value that each watch was told, by name.
    told: BTreeMap<(WatchId, String), Option<Bytes>>,
}

impl Pair {
    fn run(steps: &[Step], policy: DataErrorPolicy, drains: impl Fn(usize) -> bool) -> Self {
        let mut driver = Driver::new(policy, Variant::StateOfTheWorld);
        let mut profile = Profile::grpc();
        profile.read_gate = ReadGate::Off;
        profile.data_errors = policy;
        profile.does_not_exist_after = None;
        let mut config = ClientConfig::new(Node::new("me"), ManagementServer::new("server"))
            .with_profile(profile);
        for type_url in TYPES {
            config = config.with_type(Picky(TypeUrl::from(type_url)));
        }
        driver.client = Client::new(config, 7, Time::ZERO);
        let server = Server::new(ServerConfig::default(), 7, Time::ZERO);
        let mut pair = Self { driver, server, stream: None, told: BTreeMap::new() };
        for (turn, step) in steps.iter().enumerate() {
            // What a client may keep although the server has it no longer depends on whether it ever
            // had it: such steps are left out.
            let leaves_a_trace = matches!(step, Step::Remove { kind, .. }
                if *kind != 0 || policy == DataErrorPolicy::KeepCached);
            if !leaves_a_trace {
                pair.step(step);
            }
            if drains(turn) {
                pair.exchange();
            }
        }
        pair.exchange();
        pair
    }

    fn step(&mut self, step: &Step) {
        let mut change = Transaction::new();
        match *step {
            Step::Watch { kind, name } => self.driver.apply(&Input::Watch { kind, name }),
            Step::Unwatch(nth) => {
                let before = self.driver.watches.clone();
                self.driver.apply(&Input::Unwatch(nth));
                let left = &self.driver.watches;
                let ended = before.iter().find(|watch| !left.contains(watch)).copied();
                self.told.retain(|&(watch, _), _| Some(watch) != ended);
            }
            Step::Set { kind, name, text } => {
                change.set(TYPES[kind], format!("r{name}"), resource(name, text));
            }
            Step::Remove { kind, name } => {
                change.remove(TYPES[kind], format!("r{name}"));
            }
        }
        self.server.apply(change, Time::ZERO).expect("a good transaction");
    }

    /// Messages go to and fro until both sides are silent.
    fn exchange(&mut self) {
        for _ in 0..10_000 {
            if !(self.client_to_server() | self.server_to_client()) {
                return;
            }
        }
        panic!("the two never fall silent (IL2)");
    }

    fn client_to_server(&mut self) -> bool {
        let mut has_worked = false;
        let mut frame = Frame::default();
        while let Some(output) = self.driver.client.poll_output() {
            has_worked = true;
            match output {
                Output::Open(channel, _) => {
                    self.driver.channel = Some(channel);
                    let via = Via::Aggregated(Variant::StateOfTheWorld);
                    self.stream = self.server.accept(via, Time::ZERO).ok();
                    self.driver.apply(&Input::Connect);
                }
                Output::Writable(channel) => {
                    while self
                        .driver
                        .client
                        .poll_transmit(channel, Time::ZERO, &mut frame)
                        .is_some()
                    {
                        let event = StreamEvent::Message(self.stream.unwrap(), frame.to_bytes());
                        self.server.handle_event(event, Time::ZERO);
                    }
                }
                Output::Notify(watch, Notice::Changed(result)) => {
                    self.told.insert((watch, String::new()), result.ok().map(|r| r.bytes));
                }
                Output::Notify(watch, Notice::Behind) => {
                    while let Some(change) = self.driver.client.next_change(watch) {
                        if let Change::Resource { name, result } = change {
                            let bytes = result.ok().map(|resource| resource.bytes);
                            self.told.insert((watch, name.to_string()), bytes);
                        }
                    }
                }
                _ => {}
            }
        }
        has_worked
    }

    fn server_to_client(&mut self) -> bool {
        let mut has_worked = false;
        let mut frame = Frame::default();
        while let Some(output) = self.server.poll_output() {
            has_worked = true;
            if let ServerOutput::Writable(stream) = output {
                while self.server.poll_transmit(stream, Time::ZERO, &mut frame).is_some() {
                    let event =
                        ChannelEvent::Message(self.driver.channel.unwrap(), frame.to_bytes());
                    self.driver.client.handle_event(event, Time::ZERO);
                }
            }
        }
        has_worked
    }

    /// What every live watch holds in the end. What was never had and what is gone is the same.
    fn end_state(&self) -> BTreeMap<(usize, String), Bytes> {
        let position = |watch: &WatchId| self.driver.watches.iter().position(|w| w == watch);
        let held = self.told.iter().filter_map(|((watch, name), bytes)| {
            Some(((position(watch)?, name.clone()), bytes.clone()?))
        });
        held.collect()
    }
}
