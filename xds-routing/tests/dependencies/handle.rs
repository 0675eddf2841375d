//! The same behind the handle of a client, as an application has it.

use std::{
    collections::VecDeque,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use xds_core::{
    ChannelId, Client, Frame, StreamId, Time,
    client::{ChannelEvent, Output, Profile},
    server::{
        AbsenceGrace, Server, ServerConfig, ServerOutput, StreamEvent, Transaction, Variant, Via,
    },
    types,
};
use xds_handle::{DriverSide, Turn, channel};
use xds_routing::dependencies::{DependencyManager, HandleDependencies};

use crate::rig::{Outcome, Store, VARIANTS, client_config, shorten};

/// A client with its driver, a server, and who follows. There is no time.
struct Rig {
    client: Client,
    side: DriverSide,
    server: Server,
    dependencies: HandleDependencies,
    variant: Variant,
    connection: Option<(ChannelId, StreamId)>,
    /// On their way to the client.
    responses: VecDeque<Bytes>,
}

impl Rig {
    fn new(variant: Variant) -> Self {
        let (handle, side) = channel();
        let mut config = ServerConfig::default();
        config.type_defaults.full_state.absence_grace = AbsenceGrace::Never;
        config.type_defaults.others.absence_grace = AbsenceGrace::Never;
        let manager = DependencyManager::new("l", "shop.example.com", "node-1");
        Self {
            client: Client::new(client_config(variant, Profile::grpc()), 1, Time::ZERO),
            side,
            server: Server::new(config, 1, Time::ZERO),
            dependencies: HandleDependencies::new(manager, handle),
            variant,
            connection: None,
            responses: VecDeque::new(),
        }
    }

    /// Changes what the server has, and returns what came of it.
    fn set(&mut self, change: impl FnOnce(&mut Store)) -> Vec<String> {
        let mut store = Store(Transaction::new());
        change(&mut store);
        self.server.apply(store.0, Time::ZERO).expect("a sound change");
        self.settle()
    }

    fn settle(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        // Whoever waits is woken by the driver's turn, which may have more to do for it.
        for _ in 0..100 {
            while self.side.apply(&mut self.client, Time::ZERO) == Turn::More {}
            self.exchange();
            if let Poll::Ready(Some(outcome)) = self.poll() {
                told.push(shorten(&outcome));
            }
        }
        told
    }

    fn poll(&mut self) -> Poll<Option<Outcome>> {
        self.dependencies.poll_next(&mut Context::from_waker(Waker::noop()))
    }

    fn exchange(&mut self) {
        let mut frame = Frame::default();
        while let Some(output) = self.side.poll_output(&mut self.client, Time::ZERO) {
            match output {
                Output::Open(channel, _) => {
                    let via = Via::Aggregated(self.variant);
                    let stream = self.server.accept(via, Time::ZERO).expect("room");
                    self.connection = Some((channel, stream));
                    self.client.handle_event(ChannelEvent::Opened(channel), Time::ZERO);
                }
                Output::Writable(channel) => {
                    let Some((_, stream)) = self.connection else { continue };
                    while self.client.poll_transmit(channel, Time::ZERO, &mut frame).is_some() {
                        let message = StreamEvent::Message(stream, frame.to_bytes());
                        self.server.handle_event(message, Time::ZERO);
                    }
                }
                _ => {}
            }
        }
        while let Some(output) = self.server.poll_output() {
            if let ServerOutput::Writable(stream) = output {
                while self.server.poll_transmit(stream, Time::ZERO, &mut frame).is_some() {
                    self.responses.push_back(frame.to_bytes());
                }
            }
        }
        if let Some((channel, _)) = self.connection
            && self.client.wants_read(channel)
            && let Some(response) = self.responses.pop_front()
        {
            self.client.handle_event(ChannelEvent::Message(channel, response), Time::ZERO);
        }
    }
}

#[test]
fn a_handle_will_do() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        assert!(rig.settle().is_empty());
        let told = rig.set(|it| {
            it.listener("r").routes("r", &["a", "b"]).whole("a", &[1]).cluster("b");
        });
        assert!(told.is_empty());
        let told = rig.set(|it| {
            it.endpoints("b", &[2]);
        });
        assert_eq!(told, ["[a b] a=1 b=2"]);
        assert_eq!(rig.client.watch_count(), 6);
        rig.dependencies.subscribe(&"a".into());
        let told = rig.set(|it| {
            it.routes("r", &["b"]).endpoints("b", &[3]);
        });
        assert_eq!(told.last().map(String::as_str), Some("[b] a=1 b=3"));
        rig.dependencies.unsubscribe(&"a".into());
        assert_eq!(rig.settle(), ["[b] b=3"]);
        assert_eq!(rig.client.watch_count(), 4, "what nothing refers to is not watched");
        // There and back again.
        let told = rig.set(|it| {
            it.routes("r", &["a"]);
        });
        assert_eq!(told, ["[a] a=1"]);
        let told = rig.set(|it| {
            it.remove(types::CLUSTER, "b").routes("r", &["a", "*"]);
        });
        assert!(told[0].contains("*=(cannot be watched: "), "{told:?}");
        assert_eq!(rig.client.watch_count(), 4);
        rig.client.shut_down(Time::ZERO);
        let Rig { side, mut dependencies, .. } = rig;
        drop(side);
        let ended = dependencies.poll_next(&mut Context::from_waker(Waker::noop()));
        assert_eq!(ended, Poll::Ready(None));
    }
    println!("covers: B44");
}
