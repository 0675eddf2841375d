//! Report of responses that clients rejected and have not accepted since, by node.
//!
//! A client has at most one entry per type and stream. The entry is removed when the client has
//! accepted the current content of everything it rejected, when it no longer subscribes to any of
//! it, or some time after the client has disconnected, so that the report still shows a client that
//! crashed on a response.

use crate::{
    id::StreamId,
    server::{
        Server,
        event::status::{Completeness, RejectionStatus},
        queue::timer_queue::Alarm,
        session::{
            context::SessionContext, nack::RejectedResponse, request::ack::RequestKind,
            session_view::SessionView,
        },
        stream::rejection_log::{ConnectedRejection, NodeType, RejectionRecord, Rejections},
    },
    slab::Slot,
};

impl Server {
    /// Returns the responses that clients rejected, and whose resources they have not accepted
    /// since in any version: those of connected clients, then, by node and type, those of clients
    /// that disconnected recently
    /// ([`rejection_retention`](crate::server::ServerLimits::rejection_retention)). Takes time proportional
    /// to the number of entries.
    pub fn rejections(&self) -> impl Iterator<Item = RejectionStatus<'_>> {
        self.rejections.iter()
    }

    /// Updates the report after a request that answered a response or changed the subscription.
    pub(crate) fn review_rejection(&mut self, id: StreamId, session: Slot, kind: &RequestKind) {
        if let RequestKind::Ack(_) = kind {
            self.end_rejection(id, session);
        }
        if !matches!(kind, RequestKind::Nack(..)) {
            self.drop_unsubscribed(session);
        }
    }

    /// Adds a rejection. It ends when a later request is [finished](Self::review_rejection).
    pub(crate) fn add_rejection(
        &mut self,
        id: StreamId,
        session: Slot,
        mut response: RejectedResponse,
    ) {
        let now = self.clock.now();
        let Some(SessionView { arena, .. }) = SessionView::of(session, &self.subscriptions) else {
            return;
        };
        let Some(view) = self.subscriptions.store.view(arena.view) else { return };
        let view = view.name.clone();
        let node_id = self.streams.get(id.0).and_then(|stream| stream.node().cloned());
        let (node_id, type_url) = (node_id.unwrap_or_default(), arena.type_url.clone());
        let earlier = match self.rejections.connected.remove(&session) {
            Some(before) => {
                response.oldest = response.oldest.min(before.record.response.oldest);
                Some(before.record)
            }
            None if self.rejections.disconnected.is_empty() => None,
            None => self.remove_disconnected(&(node_id.clone(), type_url.clone())),
        };
        let count = 1 + earlier.as_ref().map_or(0, |earlier| earlier.count);
        let since = earlier.map_or(now, |earlier| earlier.since);
        let record = RejectionRecord { view, response, count, since, last: now };
        let connected = ConnectedRejection { stream: id, node_id, type_url, record };
        self.rejections.connected.insert(session, connected);
    }

    /// Updates the report after an ACK.
    fn end_rejection(&mut self, id: StreamId, session: Slot) {
        if self.rejections.connected.contains_key(&session) {
            let context = self.subscriptions.context(session);
            if context.is_none_or(|mut context| !context.still_rejects()) {
                self.rejections.connected.remove(&session);
            }
        } else if !self.rejections.disconnected.is_empty()
            && let Some(node) = self.streams.get(id.0).and_then(|stream| stream.node())
            && let Some(type_url) = self.subscriptions.type_of(session)
        {
            let key = (node.clone(), type_url.clone());
            self.remove_disconnected(&key);
        }
    }

    /// Removes the entry of a client that no longer subscribes to any rejected resource.
    fn drop_unsubscribed(&mut self, session: Slot) {
        let Some(connected) = self.rejections.connected.get(&session) else { return };
        let Some(mut context) = self.subscriptions.context(session) else { return };
        let RejectedResponse { names, completeness, .. } = &connected.record.response;
        let is_over = *completeness == Completeness::Complete
            && !names.is_empty()
            && !names.iter().any(|name| context.subscribes_to(name));
        context.drop_stale_suspects();
        if is_over && !context.session.is_isolating() || context.subscribes_to_nothing() {
            context.session.forget_rejections();
            self.rejections.connected.remove(&session);
        }
    }

    /// Keeps the rejection of a client that disconnects.
    pub(crate) fn keep_rejection(&mut self, session: Slot) {
        let Some(ConnectedRejection { node_id, type_url, record, .. }) =
            self.rejections.connected.remove(&session)
        else {
            return;
        };
        let limits = &self.config.limits;
        let keep = limits.rejection_retention;
        if node_id.is_empty() || keep.is_zero() || limits.retained_rejections == 0 {
            return;
        }
        let until = self.clock.now().after(keep);
        self.rejections.add_disconnected((node_id, type_url), record, until);
        self.expire_rejections();
    }

    /// Removes and returns the kept rejection of a client that has reconnected.
    fn remove_disconnected(&mut self, key: &NodeType) -> Option<RejectionRecord> {
        let record = self.rejections.remove_disconnected(key);
        self.alarms.set(Alarm::ExpireRejections, self.rejections.next_until());
        record
    }

    /// Removes expired rejections, and sets the alarm for the next one.
    pub(crate) fn expire_rejections(&mut self) {
        let (now, limit) = (self.clock.now(), self.config.limits.retained_rejections);
        self.rejections.expire(now, limit);
        self.alarms.set(Alarm::ExpireRejections, self.rejections.next_until());
    }
}

impl Rejections {
    /// Removes the entry of a client that turned out to need no response, if rejected resources are
    /// isolated and nothing is left of them.
    pub(crate) fn review_isolated(&mut self, session: Slot, mut context: SessionContext<'_>) {
        if self.connected.contains_key(&session) && context.isolates() && !context.still_rejects() {
            self.connected.remove(&session);
        }
    }
}
