//! Management servers for client tests: this crate's server and a checking test server.

use std::collections::VecDeque;

use bytes::Bytes;
use proptest::test_runner::TestCaseError;
use xds_core::{
    ChannelId, Frame, StreamId, Time,
    client::{Call, RequestCause},
    server::{Server, ServerConfig, ServerOutput, StreamEvent, StreamKind, Transaction},
};

use super::{
    super::{
        TYPES,
        fleet::{
            peer::Peer,
            store::{Held, Store},
        },
    },
    Watched,
};

/// A conforming management server. Its side of a channel has the channel's id.
pub trait FarSide: Default {
    fn set(&mut self, kind: usize, name: String, text: u8);
    fn remove(&mut self, kind: usize, name: String);
    fn accept(&mut self, channel: ChannelId, call: &Call);
    fn hang_up(&mut self, channel: ChannelId);
    /// Reads a request, which was sent while `watched` were the live watches.
    fn hear(
        &mut self,
        channel: ChannelId,
        frame: &Frame,
        cause: &RequestCause,
        watched: &[Watched],
    ) -> Result<(), TestCaseError>;
    /// Returns the next response, if there is one.
    fn speak(&mut self) -> Option<(ChannelId, Bytes)>;
}

/// The server of this crate.
pub struct OwnServer {
    server: Server,
    streams: Vec<(ChannelId, StreamId)>,
    unread: VecDeque<(ChannelId, Bytes)>,
}

impl Default for OwnServer {
    fn default() -> Self {
        let server = Server::new(ServerConfig::default(), 7, Time::ZERO);
        Self { server, streams: Vec::new(), unread: VecDeque::new() }
    }
}

impl OwnServer {
    fn apply(&mut self, change: Transaction) {
        self.server.apply(change, Time::ZERO).expect("a good transaction");
    }
}

impl FarSide for OwnServer {
    fn set(&mut self, kind: usize, name: String, text: u8) {
        let held = Held { version: 0, text, ttl: None };
        let mut change = Transaction::new();
        let bytes = held.to_bytes(&name);
        change.set(TYPES[kind], name, bytes);
        self.apply(change);
    }

    fn remove(&mut self, kind: usize, name: String) {
        let mut change = Transaction::new();
        change.remove(TYPES[kind], name);
        self.apply(change);
    }

    fn accept(&mut self, channel: ChannelId, call: &Call) {
        let variant = call.server.variant;
        let via = match call.type_url.clone() {
            Some(type_url) => StreamKind::Single { type_url, variant },
            None => StreamKind::Aggregated(variant),
        };
        let stream = self.server.accept(via, Time::ZERO).expect("there is room");
        self.streams.push((channel, stream));
    }

    fn hang_up(&mut self, channel: ChannelId) {
        let ended = self.streams.iter().position(|(open, _)| *open == channel);
        if let Some(at) = ended {
            let (_, stream) = self.streams.remove(at);
            self.server.handle_event(StreamEvent::Closed(stream), Time::ZERO);
            self.unread.retain(|(to, _)| *to != channel);
        }
    }

    fn hear(
        &mut self,
        channel: ChannelId,
        frame: &Frame,
        _: &RequestCause,
        _: &[Watched],
    ) -> Result<(), TestCaseError> {
        if let Some((_, stream)) = self.streams.iter().find(|(open, _)| *open == channel) {
            let message = StreamEvent::Message(*stream, frame.to_bytes());
            self.server.handle_event(message, Time::ZERO);
        }
        Ok(())
    }

    fn speak(&mut self) -> Option<(ChannelId, Bytes)> {
        let mut frame = Frame::default();
        while self.unread.is_empty()
            && let Some(output) = self.server.poll_output()
        {
            let ServerOutput::Writable(stream) = output else { continue };
            let Some((channel, _)) = self.streams.iter().find(|(_, open)| *open == stream) else {
                continue;
            };
            while self.server.poll_transmit(stream, Time::ZERO, &mut frame).is_some() {
                self.unread.push_back((*channel, frame.to_bytes()));
            }
        }
        self.unread.pop_front()
    }
}

/// A conforming server that checks the client's requests.
#[derive(Default)]
pub struct CheckingServer {
    store: Store,
    peers: Vec<Peer>,
    /// Number in the last version and nonce.
    number: u64,
}

impl FarSide for CheckingServer {
    fn set(&mut self, kind: usize, name: String, text: u8) {
        self.number += 1;
        self.store.put(kind, name, Held { version: self.number, text, ttl: None });
    }

    fn remove(&mut self, kind: usize, name: String) {
        self.store.remove(kind, &name);
    }

    fn accept(&mut self, channel: ChannelId, call: &Call) {
        let type_url = call.type_url.as_ref();
        let only = type_url.and_then(|it| TYPES.iter().position(|known| it == *known));
        let mut peer = Peer::new(channel, 0, call.server.variant, only);
        peer.is_open = true;
        self.peers.push(peer);
    }

    fn hang_up(&mut self, channel: ChannelId) {
        self.peers.retain(|peer| peer.channel != channel);
    }

    fn hear(
        &mut self,
        channel: ChannelId,
        frame: &Frame,
        cause: &RequestCause,
        watched: &[Watched],
    ) -> Result<(), TestCaseError> {
        let Some(peer) = self.peers.iter_mut().find(|peer| peer.channel == channel) else {
            return Ok(());
        };
        let wanted = |kind| {
            let of_kind = watched.iter().filter(|it| it.kind == kind);
            of_kind.map(|it| it.name.clone()).collect()
        };
        peer.read(frame, cause, Time::ZERO, wanted).map(drop)
    }

    fn speak(&mut self) -> Option<(ChannelId, Bytes)> {
        for peer in &mut self.peers {
            for kind in 0..TYPES.len() {
                let number = self.number + 1;
                if let Some((_, frame)) = peer.push(kind, &self.store, number) {
                    self.number = number;
                    peer.note_response(kind, number, Some(format!("v{number}")), false);
                    return Some((peer.channel, frame.into()));
                }
            }
        }
        None
    }
}
