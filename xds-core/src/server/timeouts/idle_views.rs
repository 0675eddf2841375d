//! Removal of views that have had no client for a time.
// M221

use crate::{
    server::{
        Server, admission::DropView, event::ServerEvent, queue::timer_queue::Alarm,
        store::idle_views::IdleTimer,
    },
    slab::Key,
};

impl Server {
    /// Sets and cancels the alarms of idle views. Call it whenever the clients of a view may have
    /// changed.
    pub(crate) fn watch_views(&mut self) {
        let at = self.config.idle_view_timeout.map(|after| self.clock.now().after(after));
        for IdleTimer { view, before, after } in self.subscriptions.store.take_idle_timers(at) {
            let alarm = |at| (at, Alarm::ViewIdle(view));
            self.alarms.replace(before.map(alarm), after.map(alarm));
        }
    }

    /// Drops a view that is still idle when its alarm is due.
    pub(crate) fn drop_idle_view(&mut self, view: Key) {
        let Some(name) = self.subscriptions.store.end_idle(view) else { return };
        self.drop_view(&name, DropView::Freeze, self.clock.now());
        self.out.event(ServerEvent::ViewDropped(name));
    }
}
