//! What clients rejected and have not accepted since: the report by node.
//!
//! A client has at most one entry per type and stream. It ends when the client has accepted all of what it
//! rejected in whatever form it has now, when it no longer subscribes to it, or some time after the client
//! has gone: one that crashes on what it is sent should be found in the report after it did.

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc};

use super::{
    Server,
    alarms::Alarm,
    session::{
        progress::NEVER,
        rejected::{Held, Rejected},
    },
};
use crate::{
    id::StreamId,
    slab::Slot,
    text::{ResourceName, TypeUrl, Version, ViewName},
    time::Time,
};

/// A response that a client rejected and has not accepted since, in whatever form.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejection<'a> {
    /// The id of the client's node; empty if it gave none.
    pub node_id: &'a str,
    /// The stream, unless the client has gone.
    pub stream: Option<StreamId>,
    /// What the client sees.
    pub view: &'a ViewName,
    /// The type.
    pub type_url: &'a TypeUrl,
    /// The version of the newest rejected response.
    pub version: &'a Version,
    /// The resources that were new to the client in it. Which of them it did not like, only its message
    /// says, or [`NackRecovery::Isolate`](super::NackRecovery::Isolate) finds out.
    pub names: &'a [ResourceName],
    /// Whether these are all.
    pub extent: Extent,
    /// The status code of the error, as the client put it.
    pub code: i32,
    /// The client's message, cut to 4,096 bytes.
    pub message: &'a Arc<str>,
    /// How many responses it has rejected since it last had none to complain about.
    pub count: u64,
    /// When it rejected the first of these.
    pub since: Time,
    /// When it rejected the newest.
    pub last: Time,
}

/// Whether a list is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Extent {
    /// It has all there are.
    All,
    /// There are more than the limit
    /// [`rejected_names`](super::ServerLimits::rejected_names).
    Part,
}

/// All rejections.
#[derive(Debug, Default)]
pub(crate) struct Rejections {
    live: BTreeMap<Slot, Live>,
    gone: BTreeMap<NodeType, Gone>,
    /// The keys of these, in the order in which they left, which is that in which they are forgotten. None is left
    /// behind by who comes back: as many are kept as there are, not as many as left.
    leaving: BTreeMap<u64, NodeType>,
    /// How many have left so far.
    left: u64,
}

type NodeType = (Arc<str>, TypeUrl);

#[derive(Debug)]
struct Live {
    stream: StreamId,
    node_id: Arc<str>,
    type_url: TypeUrl,
    record: Record,
    /// The oldest change that was rejected.
    oldest: u64,
    /// What of it is left.
    held: Held,
}

#[derive(Debug)]
struct Record {
    view: ViewName,
    version: Version,
    names: Box<[ResourceName]>,
    extent: Extent,
    code: i32,
    message: Arc<str>,
    count: u64,
    since: Time,
    last: Time,
}

/// What a client rejected that has gone.
#[derive(Debug)]
struct Gone {
    record: Record,
    /// When it is forgotten.
    until: Time,
    /// How many had left before.
    left: u64,
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

    fn iter(&self) -> impl Iterator<Item = Rejection<'_>> {
        let live = self
            .live
            .values()
            .map(|live| live.record.report(&live.node_id, Some(live.stream), &live.type_url));
        let gone = self.gone.iter().map(|((node, ty), gone)| gone.record.report(node, None, ty));
        live.chain(gone)
    }

    /// A client goes.
    fn leave(&mut self, key: NodeType, record: Record, until: Time) {
        self.come_back(&key);
        let left = self.left;
        self.left += 1;
        self.leaving.insert(left, key.clone());
        self.gone.insert(key, Gone { record, until, left });
    }

    /// It is there again, or forgotten.
    fn come_back(&mut self, key: &NodeType) -> Option<Record> {
        let gone = self.gone.remove(key)?;
        self.leaving.remove(&gone.left);
        Some(gone.record)
    }

    /// When the next one of those who have gone is forgotten.
    fn next_until(&self) -> Option<Time> {
        let (_, key) = self.leaving.first_key_value()?;
        Some(self.gone.get(key)?.until)
    }

    /// Forgets what is to be forgotten by now.
    fn expire(&mut self, now: Time, limit: usize) {
        while self.gone.len() > limit || self.next_until().is_some_and(|until| until <= now) {
            let Some((_, key)) = self.leaving.pop_first() else { return };
            self.gone.remove(&key);
        }
    }
}

impl Record {
    fn report<'a>(
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

impl Server {
    /// What clients have rejected and not accepted since: those there are, then those who have gone not
    /// long ago ([`keep_rejections`](super::ServerLimits::keep_rejections)), by node and type. Costs what
    /// there is to tell.
    pub fn rejections(&self) -> impl Iterator<Item = Rejection<'_>> {
        self.rejections.iter()
    }

    /// A request was taken, and answered something or changed what is subscribed.
    pub(super) fn note_answer(&mut self, id: StreamId, session: Slot, answered: Answered) {
        let oldest = match answered {
            Answered::Nothing => return self.drop_unsubscribed(session),
            Answered::Accepted | Answered::Rejected(_) => {
                let state = self.subscriptions.sessions.at_mut(session);
                state.map_or(NEVER, super::session::Session::note_answered)
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

    /// The client has accepted a response.
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

    /// Nobody has rejected what he no longer subscribes to.
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

    /// The client has gone.
    pub(super) fn keep_rejection(&mut self, session: Slot) {
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

    /// A client that has gone is there again.
    fn come_back(&mut self, key: &NodeType) -> Option<Record> {
        let before = self.rejections.next_until();
        let record = self.rejections.come_back(key);
        self.wake_to_forget(before);
        record
    }

    /// Forgets those who have been gone for long enough, and is woken when the next one has.
    pub(super) fn forget_rejections(&mut self) {
        let (now, limit) = (self.clock.now(), self.config.limits.remembered_rejections);
        self.rejections.expire(now, limit);
        self.wake_to_forget(None);
    }

    fn wake_to_forget(&mut self, before: Option<Time>) {
        let alarm = |at: Option<Time>| at.map(|at| (at, Alarm::ForgetRejections));
        self.alarms.replace(alarm(before), alarm(self.rejections.next_until()));
    }
}
