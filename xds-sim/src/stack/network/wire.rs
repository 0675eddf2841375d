//! Messages and ends of streams on connections without TLS, as the oracles of messages need them.

use bytes::Bytes;

use super::{super::run::executor::HostId, ConnectionId};

/// Message, or end, of a stream of HTTP/2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StreamUnit {
    /// Message of gRPC, without its header.
    Message(Bytes),
    /// End of the stream in one direction, or a reset.
    End,
}

/// Event of a connection.
#[derive(Clone, Debug)]
pub(crate) struct WireEvent {
    pub(crate) connection: ConnectionId,
    /// Host of the client and of the server.
    pub(crate) hosts: [HostId; 2],
    /// Side that the event is about: 0 for the client, 1 for the server.
    pub(crate) side: usize,
    pub(crate) what: WireAction,
}

/// Action of one side of a connection.
#[derive(Clone, Debug)]
pub(crate) enum WireAction {
    /// The side wrote it.
    Wrote { stream: u32, unit: StreamUnit },
    /// The side read it.
    Read { stream: u32, unit: StreamUnit },
    /// The side closed its socket.
    Closed,
}
