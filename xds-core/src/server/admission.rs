//! Admission of clients, and views: assigning a view to a stream, refusing a client, layers of a view,
//! and dropping a view.

use alloc::sync::Arc;

use super::{
    Server,
    config::PerClientLimits,
    event::{CloseReason, ServerEvent, StatusCode},
    queue::timer_queue::Alarm,
    session::session_handle::SessionHandle,
    store::layers::LayersError,
    stream::EndReason,
};
use crate::{
    id::StreamId,
    slab::{Key, Slot},
    text::ViewName,
    time::Time,
};

/// Policy for dropping a view that has clients.
// M213
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropView {
    /// The view stays unchanged until its last client disconnects or moves.
    #[default]
    Freeze,
    /// The resources are removed at once; subscriptions stay.
    RemoveAll,
    /// The streams of its clients are closed with `UNAVAILABLE`.
    CloseStreams,
}

impl Server {
    /// Assigns a view to a client. The view may have no resources yet.
    ///
    /// This answers [`ServerEvent::Authorize`], and later moves the client to another view. If the
    /// view does not exist and the number of views is at its limit, the stream is closed
    /// ([`CloseReason::TooManyViews`]).
    ///
    /// Returns whether the client has the view: `false` if the stream has ended, or if this closes
    /// it.
    ///
    /// A moved client is sent the difference on the same stream. An incremental client gets new and
    /// changed resources, and removals of those that the new view lacks. A state-of-the-world client
    /// gets all listeners or clusters if any of them differs, also identical ones, so that those that
    /// the new view lacks are removed. Responses with endpoints or routes cannot remove any, so it
    /// keeps those that the new view lacks.
    // M223
    pub fn assign(&mut self, stream: StreamId, view: &ViewName, now: Time) -> bool {
        self.clock.advance(now);
        let Some(state) = self.streams.get_mut(stream.0) else {
            self.stats.ignored_events += 1;
            return false;
        };
        let store = &mut self.subscriptions.store;
        let limit = self.config.limits.views;
        let may_be_made = store.find_view(view).is_some() || store.views() < limit;
        let Some(view) = may_be_made.then(|| store.open_view(view)).flatten() else {
            self.close(stream, CloseReason::TooManyViews { limit });
            return false;
        };
        if state.view == Some(view) {
            return true;
        }
        store.join_view(view);
        self.finish_request(stream);
        let Some(state) = self.streams.get_mut(stream.0) else {
            // The request exceeded a limit.
            self.subscriptions.store.leave_view(view);
            self.watch_views();
            return false;
        };
        let before = state.view.replace(view);
        if before.is_none() {
            if let Err(reason) = self.join_node(stream) {
                self.close(stream, reason);
                return false;
            }
            self.cancel_end(stream, EndReason::NoDecision);
        }
        self.move_sessions(stream, before, view, now);
        self.take_held(stream);
        self.enforce_total_names();
        self.is_open(stream)
    }

    /// Moves the sessions of a stream to another view, and releases the one that it leaves.
    fn move_sessions(&mut self, stream: StreamId, from: Option<Slot>, to: Slot, now: Time) {
        let Some(state) = self.streams.get_mut(stream.0) else { return };
        let before = state.sessions.clone();
        for handle in &mut state.sessions {
            self.subscriptions.move_to_view(handle, to, &self.config, now);
        }
        let after = state.sessions.clone();
        if let Some(make_before_break) = state.order.make_before_break() {
            make_before_break.reset(&after, &self.subscriptions);
        }
        // Held-back changes start their wait anew in the new view.
        self.cancel_stage_timeout(stream);
        self.notify_wanted();
        if let Some(from) = from {
            self.subscriptions.store.leave_view(from);
        }
        self.watch_views();
        for SessionHandle { session, .. } in &after {
            let left = self.leave_waits(*session);
            self.hold_first_response(*session);
            self.clear_rejections(*session);
            self.note_progress(*session, 0);
            // Not earlier: the new view may concern the same waits.
            self.end_waits(left);
            self.notify_if_due(*session);
        }
        for handle in before.iter().chain(&after) {
            self.update_heartbeat_alarm(handle.arena);
        }
    }

    /// Sets the limits of one client, replacing those of [`ServerLimits`](super::ServerLimits).
    /// Returns whether the client has them: `false` if the stream has ended, or if this closes it.
    ///
    /// With [`Admission::ByApplication`](super::Admission::ByApplication), call it before [`assign`](Self::assign):
    /// requests wait until then. It may be called again at any time. Limits apply to what the
    /// client already has when it next requests more. A stream that has a view and whose node
    /// exceeds the new limit of streams is closed at once ([`CloseReason::TooManyStreamsOfNode`]).
    ///
    /// ```
    /// use xds_core::{
    ///     StreamId, Time,
    ///     server::{PerClientLimits, Server, ServerLimits},
    /// };
    ///
    /// /// Limits clients outside of the mesh.
    /// fn let_in(server: &mut Server, guest: StreamId, now: Time) {
    ///     let mut limits = PerClientLimits::from(&ServerLimits::default());
    ///     limits.names_per_stream = 100;
    ///     limits.types_per_stream = 4;
    ///     server.limit_client(guest, limits, now);
    ///     server.assign(guest, &"guests".into(), now);
    /// }
    /// ```
    pub fn limit_client(&mut self, stream: StreamId, limits: PerClientLimits, now: Time) -> bool {
        self.clock.advance(now);
        let Some(state) = self.streams.get_mut(stream.0) else {
            self.stats.ignored_events += 1;
            return false;
        };
        let is_own = limits != PerClientLimits::from(&self.config.limits);
        state.set_own_limits(is_own.then_some(limits));
        let limit = limits.streams_per_node;
        // A stream without a view is not counted yet.
        let has_view = state.view.is_some();
        if has_view && self.nodes.streams_of(&self.node_key(stream)) > limit {
            self.close(stream, CloseReason::TooManyStreamsOfNode { limit });
            return false;
        }
        true
    }

    /// Ends a stream with a status chosen by the application, to refuse a client. Returns whether
    /// the stream was open.
    // M10-M12, M236, M237
    pub fn refuse(
        &mut self,
        stream: StreamId,
        code: StatusCode,
        message: impl Into<Arc<str>>,
        now: Time,
    ) -> bool {
        self.clock.advance(now);
        let is_open = self.is_open(stream);
        if is_open {
            self.close(
                stream,
                CloseReason::Refused { code: code.of_error(), message: message.into() },
            );
        } else {
            self.stats.ignored_events += 1;
        }
        is_open
    }

    /// Returns whether a stream has not ended.
    fn is_open(&self, stream: StreamId) -> bool {
        self.streams.get(stream.0).is_some()
    }

    /// Drops a view with its resources or its layers. The default view is emptied instead of
    /// dropped.
    ///
    /// The clients of a layered view count as clients of its layers.
    // M213
    pub fn drop_view(&mut self, view: &ViewName, policy: DropView, now: Time) {
        self.clock.advance(now);
        let Some(slot) = self.subscriptions.store.find_view(view) else { return };
        match policy {
            DropView::Freeze => {
                if self.subscriptions.store.drop_view_when_unused(slot) {
                    return;
                }
            }
            DropView::RemoveAll => {}
            DropView::CloseStreams => {
                for stream in self.select_streams(|_, stream| stream.view == Some(slot)) {
                    self.close(stream, CloseReason::ViewDropped);
                }
            }
        }
        match self.subscriptions.store.view(slot).is_some_and(|it| !it.layers.is_empty()) {
            // Removing all layers cannot fail.
            true => drop(self.set_layers(view, &[], now)),
            false => {
                let change_set = self.subscriptions.store.empty_view(slot, &self.config);
                self.fan_out(change_set);
            }
        }
        self.watch_views();
    }

    /// Sets the layers of a view, topmost first. Each name has the resource, or error, of the
    /// topmost layer that has one. Thus many clients can each have a few resources of their own
    /// over shared ones, which are stored once.
    ///
    /// A layered view has no resources of its own and accepts no transactions; change its layers,
    /// which are ordinary views. Its clients are sent what a change of a layer, or of the list of
    /// layers, changes *for them*. A view without layers is an ordinary view again, and empty.
    ///
    /// A layered view keeps state for each type while a client subscribes to the type there.
    /// Payloads are shared with the layers. A change of a layer takes one step for each such state;
    /// the first subscription of a type takes time proportional to its resources.
    ///
    /// # Errors
    ///
    /// Returns an error, and changes nothing, if the view has resources of its own, a layer has
    /// layers itself or occurs twice, or there are too many views.
    // M222, M224
    pub fn set_layers(
        &mut self,
        view: &ViewName,
        layers: &[ViewName],
        now: Time,
    ) -> Result<(), LayersError> {
        self.clock.advance(now);
        let change_set = self.subscriptions.store.set_layers(view, layers, &self.config)?;
        self.fan_out(change_set);
        self.review_layers();
        self.watch_views();
        Ok(())
    }

    /// Sets and cancels the alarms of idle views. Call it whenever the clients of a view may have
    /// changed.
    pub(crate) fn watch_views(&mut self) {
        let at = self.config.idle_view_timeout.map(|after| self.clock.now().after(after));
        for (view, is_unused) in self.subscriptions.store.take_noted_views() {
            let alarm = Alarm::ViewIdle(view);
            if !is_unused {
                self.alarms.cancel(alarm);
            } else if !self.alarms.is_set(alarm) {
                self.alarms.set(alarm, at);
            }
        }
    }

    /// Drops a view that is still idle when its alarm is due.
    pub(crate) fn drop_idle_view(&mut self, view: Key) {
        let Some(name) = self.subscriptions.store.view(view.slot()).map(|view| view.name.clone())
        else {
            return;
        };
        self.drop_view(&name, DropView::Freeze, self.clock.now());
        self.out.event(ServerEvent::ViewDropped(name));
    }
}
