//! Messages and connections in flight between the client and the server of a pair.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use xds_core::{ChannelId, StreamId, Time, client::Call};

/// One connection as the network sees it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) call: Call,
    pub(super) stream: Option<StreamId>,
    /// Messages that have arrived at the client and are unread.
    pub(super) inbox: VecDeque<Bytes>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) at: Time,
    pub(super) order: u64,
    pub(super) channel: ChannelId,
    pub(super) what: Payload,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// The server accepts the stream, and the client is notified that it is open.
    Connect,
    Refuse,
    Request(Bytes),
    Response(Bytes),
    /// The stream ends at the client.
    EndAtClient(i32, Arc<str>),
    /// The stream ends at the server.
    EndAtServer,
}

impl PartialOrd for Delivery {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Delivery {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}
