//! Log of the rejections of connected and disconnected clients.

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc};

use crate::{
    id::StreamId,
    server::{
        event::status::{Extent, Rejection},
        session::{
            acceptance::NEVER,
            nack::{Held, Rejected},
        },
    },
    slab::Slot,
    text::{ResourceName, TypeUrl, Version, ViewName},
    time::Time,
};

/// Rejections of all clients.
#[derive(Debug, Default)]
pub(crate) struct Rejections {
    pub(crate) live: BTreeMap<Slot, Live>,
    pub(crate) gone: BTreeMap<NodeType, Gone>,
    /// Keys of `gone` in the order of their disconnection, in which they expire. The entry of a
    /// client that reconnects is removed, so this has as many entries as `gone`.
    pub(crate) leaving: BTreeMap<u64, NodeType>,
    /// Number of entries added to `gone` so far.
    pub(crate) left: u64,
}

pub(crate) type NodeType = (Arc<str>, TypeUrl);

#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) stream: StreamId,
    pub(crate) node_id: Arc<str>,
    pub(crate) type_url: TypeUrl,
    pub(crate) record: Record,
    /// Sequence number of the oldest rejected change.
    pub(crate) oldest: u64,
    /// Rejected resources that the client still lacks.
    pub(crate) held: Held,
}

#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) view: ViewName,
    pub(crate) version: Version,
    pub(crate) names: Box<[ResourceName]>,
    pub(crate) extent: Extent,
    pub(crate) code: i32,
    pub(crate) message: Arc<str>,
    pub(crate) count: u64,
    pub(crate) since: Time,
    pub(crate) last: Time,
}

/// Rejection of a disconnected client.
#[derive(Debug)]
pub(crate) struct Gone {
    pub(crate) record: Record,
    /// Time at which it expires.
    pub(crate) until: Time,
    /// Value of `left` when it was added.
    pub(crate) left: u64,
}

/// Answer that a request contains.
#[derive(Clone, Debug)]
pub(crate) enum Answered {
    Nothing,
    Accepted,
    Rejected(Rejected),
}

impl Rejections {
    /// Sequence number of the oldest change that the session has rejected.
    pub(crate) fn oldest(&self, session: Slot) -> u64 {
        self.live.get(&session).map_or(NEVER, |live| live.oldest)
    }

    /// Rejected resources that the session still lacks.
    pub(crate) fn held(&self, session: Slot) -> Option<&Held> {
        self.live.get(&session).map(|live| &live.held)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Rejection<'_>> {
        let live = self
            .live
            .values()
            .map(|live| live.record.report(&live.node_id, Some(live.stream), &live.type_url));
        let gone = self.gone.iter().map(|((node, ty), gone)| gone.record.report(node, None, ty));
        live.chain(gone)
    }

    /// Adds the rejection of a client that disconnects.
    pub(crate) fn leave(&mut self, key: NodeType, record: Record, until: Time) {
        self.come_back(&key);
        let left = self.left;
        self.left += 1;
        self.leaving.insert(left, key.clone());
        self.gone.insert(key, Gone { record, until, left });
    }

    /// Removes the rejection of a client that has reconnected or accepted the type since.
    pub(crate) fn come_back(&mut self, key: &NodeType) -> Option<Record> {
        let gone = self.gone.remove(key)?;
        self.leaving.remove(&gone.left);
        Some(gone.record)
    }

    /// Time at which the next rejection expires.
    pub(crate) fn next_until(&self) -> Option<Time> {
        let (_, key) = self.leaving.first_key_value()?;
        Some(self.gone.get(key)?.until)
    }

    /// Removes expired rejections, and the oldest ones above the limit.
    pub(crate) fn expire(&mut self, now: Time, limit: usize) {
        while self.gone.len() > limit || self.next_until().is_some_and(|until| until <= now) {
            let Some((_, key)) = self.leaving.pop_first() else { return };
            self.gone.remove(&key);
        }
    }
}

impl Record {
    pub(crate) fn report<'a>(
        &'a self,
        node_id: &'a str,
        stream: Option<StreamId>,
        type_url: &'a TypeUrl,
    ) -> Rejection<'a> {
        Rejection {
            node_id,
            stream,
            view: &self.view,
            type_url,
            version: &self.version,
            names: &self.names,
            extent: self.extent,
            code: self.code,
            message: &self.message,
            count: self.count,
            since: self.since,
            last: self.last,
        }
    }
}
