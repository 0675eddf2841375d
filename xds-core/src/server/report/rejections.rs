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
        event::status::{Extent, Rejection},
        queue::timer_queue::Alarm,
        session::{
            acceptance::NEVER,
            nack::{Held, Rejected},
        },
        stream::rejection_log::{Answered, Live, NodeType, Record},
    },
    slab::Slot,
    time::Time,
};

impl Server {
    /// Returns the responses that clients rejected, and whose resources they have not accepted
    /// since in any version: those of connected clients, then, by node and type, those of clients
    /// that disconnected recently
    /// ([`keep_rejections`](crate::server::ServerLimits::keep_rejections)). Takes time proportional
    /// to the number of entries.
    pub fn rejections(&self) -> impl Iterator<Item = Rejection<'_>> {
        self.rejections.iter()
    }

    /// Updates the report after a request that answered a response or changed the subscription.
    pub(crate) fn note_answer(&mut self, id: StreamId, session: Slot, answered: Answered) {
        let oldest = match answered {
            Answered::Nothing => return self.drop_unsubscribed(session),
            Answered::Accepted | Answered::Rejected(_) => {
                let state = self.subscriptions.sessions.at_mut(session);
                state.map_or(NEVER, crate::server::session::Session::note_answered)
            }
        };
        match answered {
            Answered::Rejected(rejected) => self.add_rejection(id, session, rejected, oldest),
            _ => {
                self.end_rejection(id, session);
                self.drop_unsubscribed(session);
            }
        }
    }

    fn add_rejection(&mut self, id: StreamId, session: Slot, new: Rejected, oldest: u64) {
        let now = self.clock.now();
        let subscriptions = &self.subscriptions;
        let arena = subscriptions.sessions.at(session).map(|session| session.arena);
        let Some(arena) = arena.and_then(|arena| subscriptions.store.arena(arena)) else { return };
        let Some(view) = subscriptions.store.view(arena.view) else { return };
        let view = view.name.clone();
        let node_id = self.streams.get(id.0).and_then(|stream| stream.node().cloned());
        let (node_id, type_url) = (node_id.unwrap_or_default(), arena.type_url.clone());
        let before = self.rejections.live.remove(&session);
        let (oldest, mut held, earlier) = match before {
            Some(before) => (oldest.min(before.oldest), before.held, Some(before.record)),
            None if self.rejections.gone.is_empty() => (oldest, Held::default(), None),
            None => {
                let key = (node_id.clone(), type_url.clone());
                (oldest, Held::default(), self.come_back(&key))
            }
        };
        held.add(&new);
        let record = Record {
            view,
            version: new.version,
            names: new.names,
            extent: new.extent,
            code: new.code,
            message: new.message,
            count: 1 + earlier.as_ref().map_or(0, |earlier| earlier.count),
            since: earlier.map_or(now, |earlier| earlier.since),
            last: now,
        };
        let live = Live { stream: id, node_id, type_url, record, oldest, held };
        self.rejections.live.insert(session, live);
    }

    /// Updates the report after an ACK.
    fn end_rejection(&mut self, id: StreamId, session: Slot) {
        if let Some(live) = self.rejections.live.get_mut(&session) {
            let turn = self.subscriptions.turn(session);
            if turn.is_none_or(|turn| !turn.still_rejects(&mut live.held)) {
                self.rejections.live.remove(&session);
            }
        } else if !self.rejections.gone.is_empty()
            && let Some(node) = self.streams.get(id.0).and_then(|stream| stream.node())
            && let Some(type_url) = self.subscriptions.type_of(session)
        {
            let key = (node.clone(), type_url.clone());
            self.come_back(&key);
        }
    }

    /// Removes the entry of a client that no longer subscribes to any rejected resource.
    fn drop_unsubscribed(&mut self, session: Slot) {
        let Some(live) = self.rejections.live.get(&session) else { return };
        let Some(turn) = self.subscriptions.turn(session) else { return };
        let names = &live.record.names;
        let is_over = live.record.extent == Extent::All
            && !names.is_empty()
            && !names.iter().any(|name| turn.subscribes_to(name));
        if is_over || turn.subscribes_to_nothing() {
            self.rejections.live.remove(&session);
        }
    }

    /// Keeps the rejection of a client that disconnects.
    pub(crate) fn keep_rejection(&mut self, session: Slot) {
        let Some(Live { node_id, type_url, record, .. }) = self.rejections.live.remove(&session)
        else {
            return;
        };
        let limits = &self.config.limits;
        let (keep, most) = (limits.keep_rejections, limits.remembered_rejections);
        if node_id.is_empty() || keep.is_zero() || most == 0 {
            return;
        }
        let until = self.clock.now().after(keep);
        let before = self.rejections.next_until();
        self.rejections.leave((node_id, type_url), record, until);
        self.rejections.expire(self.clock.now(), most);
        self.wake_to_forget(before);
    }

    /// Removes and returns the kept rejection of a client that has reconnected.
    fn come_back(&mut self, key: &NodeType) -> Option<Record> {
        let before = self.rejections.next_until();
        let record = self.rejections.come_back(key);
        self.wake_to_forget(before);
        record
    }

    /// Removes expired rejections, and sets the alarm for the next one.
    pub(crate) fn forget_rejections(&mut self) {
        let (now, limit) = (self.clock.now(), self.config.limits.remembered_rejections);
        self.rejections.expire(now, limit);
        self.wake_to_forget(None);
    }

    fn wake_to_forget(&mut self, before: Option<Time>) {
        let alarm = |at: Option<Time>| at.map(|at| (at, Alarm::ForgetRejections));
        self.alarms.replace(alarm(before), alarm(self.rejections.next_until()));
    }
}
