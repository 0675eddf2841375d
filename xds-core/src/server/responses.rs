//! Selection of the next response of a stream, and notification of its driver.

use alloc::vec::Vec;
use core::num::NonZeroU64;

use super::{
    Server,
    config::{ObserveResponses, OrderingPolicy, Warming},
    event::{Observation, ResponseCause, ServerOutput, ServerTransmit},
    make_before_break::{Dependencies, Next},
    queue::timer_queue::Alarm,
    session::{
        RenderedResponse, SendOrder,
        deferred_removal::Portion,
        response::{draft::Draft, seal},
        session_handle::SessionHandle,
        session_view::SessionView,
        subscriptions::Subscriptions,
    },
    store::revision::Revision,
    stream::{Stream, push_order::Order},
};
use crate::{frame::Frame, id::StreamId, slab::Slot};

impl Server {
    /// Notifies the driver, once, if the session has something to send. Under make before break,
    /// another session of the stream may have it.
    pub(crate) fn notify_if_due(&mut self, session: Slot) {
        match self.subscriptions.sessions.at(session).map(|it| (it.stream, it.send_order)) {
            Some((id, SendOrder::MakeBeforeBreak | SendOrder::MakeBeforeBreakRemovals(_)))
                if self.update_decision(id) =>
            {
                self.notify_writable(id);
            }
            Some((id, SendOrder::Independent | SendOrder::RemovalsLast))
                if self.subscriptions.is_due(session) =>
            {
                let order = self.streams.get_mut(id.0).map(|stream| &mut stream.order);
                if let Some(Order::Arrival(due)) = order
                    && !due.contains(&session)
                {
                    due.push(session);
                }
                self.notify_writable(id);
            }
            _ => {}
        }
        self.held_back.note(session, &self.subscriptions);
    }

    /// Notifies the driver, once, that the stream has something to send.
    pub(crate) fn notify_writable(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id.0)
            && !stream.is_notified
            && !stream.is_busy()
        {
            stream.is_notified = true;
            self.out.push(ServerOutput::Writable(id));
        }
    }

    /// Notifies the driver, once, of everything that became due on a stream.
    pub(crate) fn notify_all_due(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(id.0) else { return };
        let has_custom_messages = stream.custom_message_count() > 0;
        let sessions: Vec<Slot> = stream.sessions.iter().map(|handle| handle.session).collect();
        for session in sessions {
            self.notify_if_due(session);
        }
        if has_custom_messages {
            self.notify_writable(id);
        }
    }

    /// Whether something may be sent on a stream under make before break. Updates the alarms of what
    /// is held back.
    pub(crate) fn update_decision(&mut self, id: StreamId) -> bool {
        let Some(policy) = self.config.ordering.make_before_break() else { return false };
        // The list of a busy stream is applied in part only.
        let stream = self.streams.get_mut(id.0).filter(|stream| !stream.is_busy());
        let Some(stream) = stream else { return false };
        let Some(state) = stream.order.make_before_break() else { return false };
        self.subscriptions.look_up_newest_due(&stream.sessions);
        let decision = state.decide(&stream.sessions, &self.subscriptions, policy);
        let [change_before, request_before] = state.held_since.deadlines(policy.stage_timeout);
        let begins = state.held_since.note(&decision, self.clock.now(), policy.stage_timeout);
        let [change, request] = state.held_since.deadlines(policy.stage_timeout);
        self.stats.note_blocked(change_before.is_some(), change.is_some());
        // An alarm that has fired is not set again for the same change or requests.
        if request != request_before {
            self.alarms.set(Alarm::RequestTimeout(id), request);
        }
        if begins || change.is_none() {
            self.alarms.set(Alarm::StageTimeout(id), change);
        }
        decision.next.is_some()
    }

    /// Notes whether there is another response after the driver polled for one.
    pub(crate) fn note_polled(&mut self, id: StreamId, got_one: bool) {
        let Some(stream) = self.streams.get(id.0) else { return };
        let has_next = match stream.order {
            Order::MakeBeforeBreak(_) => self.update_decision(id) && got_one,
            Order::Arrival(_) | Order::Rank | Order::SingleType => {
                let mut handles = stream.sessions.iter();
                handles.any(|handle| self.subscriptions.is_due(handle.session))
            }
        };
        if !has_next
            && let Some(stream) = self.streams.get_mut(id.0)
            && stream.custom_message_count() == 0
        {
            stream.is_notified = false;
            let (held_back, subscriptions) = (&mut self.held_back, &self.subscriptions);
            stream.sessions.iter().for_each(|handle| held_back.note(handle.session, subscriptions));
        }
    }

    /// Renders the next response of the stream.
    pub(crate) fn render_next(
        &mut self,
        id: StreamId,
        frame: &mut Frame,
    ) -> Option<ServerTransmit> {
        let stream = self.streams.get_mut(id.0).filter(|stream| !stream.is_ending())?;
        if let Some(transmit) = stream.next_custom_message(frame) {
            self.stats.note_response(ResponseCause::CustomMessage);
            self.stats.response_bytes += frame.len() as u64;
            return Some(transmit);
        }
        let (handle, mut rendered, nonce) = self.take_next(id)?;
        let stream = self.streams.get_mut(id.0)?;
        let limit = stream.limits(&self.config.limits).response_bytes;
        stream.nonces = nonce.get();
        self.stats.note_response(rendered.cause);
        let arena = self.subscriptions.store.arena(handle.arena)?;
        let type_url = arena.type_url.clone();
        for (name, bytes) in core::mem::take(&mut rendered.too_long) {
            let type_url = type_url.clone();
            self.out.observe(Observation::ResourceTooLong { stream: id, type_url, name, bytes });
        }
        let transmit = seal(frame, &stream.kind, type_url, nonce, rendered);
        if self.config.observe_responses == ObserveResponses::On {
            let node_id = stream.node().cloned().unwrap_or_default();
            let response = transmit.clone();
            self.out.observe(Observation::Sent { stream: id, node_id, response });
        }
        self.stats.response_bytes += frame.len() as u64;
        self.stats_by_type.note_response(handle.rank, frame.len());

        if frame.body.len() > limit {
            self.out.observe(Observation::Oversize {
                stream: id,
                type_url: transmit.type_url.clone(),
                bytes: frame.body.len(),
            });
        }
        let is_content = transmit.cause != ResponseCause::Heartbeat;
        if is_content
            && self.config.warming == Warming::AfterClusters
            && let Some(session) = self.subscriptions.sessions.at(handle.session)
        {
            let sent = session.newest_cursor_range().unwrap_or_default();
            self.warm(id, handle.session, sent);
        }
        if is_content
            && let Some(stream) = self.streams.get_mut(id.0)
            && let Some(make_before_break) = stream.order.make_before_break()
        {
            let warming = self.config.warming;
            make_before_break.note_sent(handle, &stream.sessions, &self.subscriptions, warming);
        }
        self.await_answer(handle.session);
        Some(transmit)
    }

    /// Makes endpoints due again after clusters were sent or ACKed, for the clusters that changed
    /// between two revisions.
    pub(crate) fn warm(&mut self, id: StreamId, session: Slot, changed: (Revision, Revision)) {
        let Self { subscriptions, config, .. } = self;
        let Some(stream) = self.streams.get(id.0) else { return };
        for waiting in subscriptions.warmed_by(session, &stream.sessions, config.warmed_types) {
            subscriptions.warm(waiting, session, changed, config.warming);
        }
    }

    /// Renders the next response. If a session turns out to have nothing to send, the next session
    /// is tried.
    fn take_next(&mut self, id: StreamId) -> Option<(SessionHandle, RenderedResponse, NonZeroU64)> {
        self.release_dependencies(id);
        let stream = self.streams.get_mut(id.0)?;
        let limit = stream.limits(&self.config.limits).response_bytes;
        let (nonce, now) = (NonZeroU64::MIN.saturating_add(stream.nonces), self.clock.now());
        let (subscriptions, rejections) = (&mut self.subscriptions, &mut self.rejections);
        let mut render = |subscriptions: &mut Subscriptions, next: Next| {
            let mut context = subscriptions.context(next.handle.session)?;
            let rendered = context.render(Draft::new(nonce, limit, now, next.portion));
            if rendered.is_none() {
                rejections.review_isolated(next.handle.session, context);
            }
            Some((next.handle, rendered?, nonce))
        };
        if let Order::Rank | Order::SingleType = stream.order {
            let handles = &stream.sessions;
            let first = handles.iter().find_map(|&handle| {
                let portion = portion_of(handle, handles, subscriptions)?;
                render(subscriptions, Next { handle, portion })
            });
            // The session that a deletion waited for may have had nothing to send.
            let mut rest = handles.iter().map(|&handle| Next::whole(handle));
            return first.or_else(|| rest.find_map(|next| render(subscriptions, next)));
        }
        let tries = stream.sessions.len();
        (0..=tries).find_map(|_| {
            let next = stream.next(subscriptions, &self.config.ordering)?;
            render(subscriptions, next)
        })
    }
}

/// Part of a session's due resources that may be sent now. Deletions are sent after all additions
/// that can be sent, and after deletions of types that may refer to the deleted resources. Nothing
/// waits for an ACK.
fn portion_of(
    handle: SessionHandle,
    handles: &[SessionHandle],
    subscriptions: &Subscriptions,
) -> Option<Portion> {
    let SessionView { session, arena, .. } = SessionView::of(handle.session, subscriptions)?;
    if !session.has_removals(arena) {
        return Some(Portion::Everything);
    }
    let may_refer_to = Dependencies::of(usize::from(handle.rank)).before_deletions;
    let has_additions =
        |other| SessionView::of(other, subscriptions).is_some_and(|it| it.has_additions());
    let goes_first = |other: &SessionHandle| {
        let may_refer = may_refer_to.contains(&usize::from(other.rank));
        other.session != handle.session
            && subscriptions.is_due(other.session)
            && (may_refer || has_additions(other.session))
    };
    if !handles.iter().any(goes_first) {
        return Some(Portion::Everything);
    }
    let has_more = session.has_additions(arena) || session.has_unchanged(arena);
    has_more.then_some(Portion::Additions)
}

impl Stream {
    /// Returns the session that sends next, if any.
    fn next(&mut self, subscriptions: &Subscriptions, policy: &OrderingPolicy) -> Option<Next> {
        match &mut self.order {
            Order::MakeBeforeBreak(state) => {
                state.decide(&self.sessions, subscriptions, policy.make_before_break()?).next
            }
            Order::Arrival(due) => {
                let at = due.iter().position(|&session| subscriptions.is_due(session));
                let first = at.and_then(|at| due.get(at)).copied();
                #[expect(clippy::disallowed_methods, reason = "`at` is a position in the list")]
                due.drain(..at.map_or(due.len(), |at| at + 1));
                let is_next = |handle: &&SessionHandle| match first {
                    Some(session) => handle.session == session,
                    None => subscriptions.is_due(handle.session),
                };
                self.sessions.iter().find(is_next).copied().map(Next::whole)
            }
            Order::Rank | Order::SingleType => None,
        }
    }
}

impl Next {
    fn whole(handle: SessionHandle) -> Self {
        Self { handle, portion: Portion::Everything }
    }
}
