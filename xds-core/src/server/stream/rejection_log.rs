//! Rejections of connected and of disconnected clients.

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

/// All rejections.
#[derive(Debug, Default)]
pub(crate) struct Rejections {
    pub(crate) live: BTreeMap<Slot, Live>,
    pub(crate) gone: BTreeMap<NodeType, Gone>,
    /// The keys of these, in the order in which they left, which is that in which they are forgotten. None is left
    /// behind by who comes back: as many are kept as there are, not as many as left.
    pub(crate) leaving: BTreeMap<u64, NodeType>,
    /// How many have left so far.
    pub(crate) left: u64,
}

pub(crate) type NodeType = (Arc<str>, TypeUrl);

#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) stream: StreamId,
    pub(crate) node_id: Arc<str>,
    pub(crate) type_url: TypeUrl,
    pub(crate) record: Record,
    /// The oldest change that was rejected.
    pub(crate) oldest: u64,
    /// What of it is left.
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

/// What a client rejected that has gone.
#[derive(Debug)]
pub(crate) struct Gone {
    pub(crate) record: Record,
    /// When it is forgotten.
    pub(crate) until: Time,
    /// How many had left before.
    pub(crate) left: u64,
}

/// What a request answered.
#[derive(Clone, Debug)]
pub(crate) enum Answered {
    Nothing,
    Accepted,
    Rejected(Rejected),
}

impl Rejections {
    /// The oldest change that the session has rejected.
    pub(crate) fn oldest(&self, session: Slot) -> u64 {
        self.live.get(&session).map_or(NEVER, |live| live.oldest)
    }

    /// What the session has rejected.
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

    /// A client goes.
    pub(crate) fn leave(&mut self, key: NodeType, record: Record, until: Time) {
        self.come_back(&key);
        let left = self.left;
        self.left += 1;
        self.leaving.insert(left, key.clone());
        self.gone.insert(key, Gone { record, until, left });
    }

    /// It is there again, or forgotten.
    pub(crate) fn come_back(&mut self, key: &NodeType) -> Option<Record> {
        let gone = self.gone.remove(key)?;
        self.leaving.remove(&gone.left);
        Some(gone.record)
    }

    /// When the next one of those who have gone is forgotten.
    pub(crate) fn next_until(&self) -> Option<Time> {
        let (_, key) = self.leaving.first_key_value()?;
        Some(self.gone.get(key)?.until)
    }

    /// Forgets what is to be forgotten by now.
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
