//! Log of the rejections of connected and disconnected clients.

use alloc::{collections::BTreeMap, sync::Arc};

use crate::{
    id::StreamId,
    server::{
        event::status::RejectionStatus,
        session::{nack::RejectedResponse, window::NEVER},
    },
    slab::Slot,
    text::{TypeUrl, ViewName},
    time::Time,
};

/// Rejections of all clients.
#[derive(Debug, Default)]
pub(crate) struct Rejections {
    pub(crate) connected: BTreeMap<Slot, ConnectedRejection>,
    pub(crate) disconnected: BTreeMap<NodeType, DisconnectedRejection>,
    /// Keys of `disconnected` in the order of their disconnection, in which they expire. The entry of a
    /// client that reconnects is removed, so this has as many entries as `disconnected`.
    pub(crate) expiry_order: BTreeMap<u64, NodeType>,
    /// Number of entries added to `disconnected` so far.
    pub(crate) sequence: u64,
}

pub(crate) type NodeType = (Arc<str>, TypeUrl);

#[derive(Debug)]
pub(crate) struct ConnectedRejection {
    pub(crate) stream: StreamId,
    pub(crate) node_id: Arc<str>,
    pub(crate) type_url: TypeUrl,
    pub(crate) record: RejectionRecord,
}

#[derive(Debug)]
pub(crate) struct RejectionRecord {
    pub(crate) view: ViewName,
    /// Newest rejected response. The oldest change is that of all rejected responses.
    pub(crate) response: RejectedResponse,
    pub(crate) count: u64,
    pub(crate) since: Time,
    pub(crate) last: Time,
}

/// Rejection of a disconnected client.
#[derive(Debug)]
pub(crate) struct DisconnectedRejection {
    pub(crate) record: RejectionRecord,
    /// Time at which it expires.
    pub(crate) until: Time,
    /// Value of `sequence` when it was added.
    pub(crate) sequence: u64,
}

impl Rejections {
    /// Sequence number of the oldest change that the session has rejected.
    pub(crate) fn oldest(&self, session: Slot) -> u64 {
        self.connected.get(&session).map_or(NEVER, |it| it.record.response.oldest)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = RejectionStatus<'_>> {
        let connected = self.connected.values().map(|connected| {
            connected.record.report(&connected.node_id, Some(connected.stream), &connected.type_url)
        });
        let disconnected = self
            .disconnected
            .iter()
            .map(|((node, ty), disconnected)| disconnected.record.report(node, None, ty));
        connected.chain(disconnected)
    }

    /// Adds the rejection of a client that disconnects.
    pub(crate) fn add_disconnected(&mut self, key: NodeType, record: RejectionRecord, until: Time) {
        self.remove_disconnected(&key);
        let sequence = self.sequence;
        self.sequence += 1;
        self.expiry_order.insert(sequence, key.clone());
        self.disconnected.insert(key, DisconnectedRejection { record, until, sequence });
    }

    /// Removes the rejection of a client that has reconnected or accepted the type since.
    pub(crate) fn remove_disconnected(&mut self, key: &NodeType) -> Option<RejectionRecord> {
        let disconnected = self.disconnected.remove(key)?;
        self.expiry_order.remove(&disconnected.sequence);
        Some(disconnected.record)
    }

    /// Time at which the next rejection expires.
    pub(crate) fn next_until(&self) -> Option<Time> {
        let (_, key) = self.expiry_order.first_key_value()?;
        Some(self.disconnected.get(key)?.until)
    }

    /// Removes expired rejections, and the oldest ones above the limit.
    pub(crate) fn expire(&mut self, now: Time, limit: usize) {
        while self.disconnected.len() > limit || self.next_until().is_some_and(|until| until <= now)
        {
            let Some((_, key)) = self.expiry_order.pop_first() else { return };
            self.disconnected.remove(&key);
        }
    }
}

impl RejectionRecord {
    pub(crate) fn report<'a>(
        &'a self,
        node_id: &'a str,
        stream: Option<StreamId>,
        type_url: &'a TypeUrl,
    ) -> RejectionStatus<'a> {
        let RejectedResponse { version, names, completeness, code, message, .. } = &self.response;
        RejectionStatus {
            node_id,
            stream,
            view: &self.view,
            type_url,
            version,
            names,
            completeness: *completeness,
            code: *code,
            message,
            count: self.count,
            since: self.since,
            last: self.last,
        }
    }
}
