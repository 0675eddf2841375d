//! Tracking of unused views, and since when they are unused.
// M221

use alloc::vec::Vec;

use super::Store;
use crate::{
    slab::{Key, Slot},
    text::ViewName,
    time::Time,
};

/// Start or end of the idle timer of a view, which fires at this time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum IdleTimer {
    Start(Time, Key),
    Stop(Time, Key),
}

impl Store {
    /// Records that a view may have become used or unused.
    pub(crate) fn note_view(&mut self, slot: Slot) {
        if let Some(key) = self.views.key(slot) {
            let ends = self.views.at(slot).and_then(|view| view.idle_at);
            self.noted_views.push((key, ends));
        }
    }

    /// Returns the idle timers to start and to stop since the last call. Timers of views that are
    /// unused from now on fire at `at`.
    pub(crate) fn take_idle_timers(&mut self, at: Option<Time>) -> Vec<IdleTimer> {
        let mut timers = Vec::new();
        for (key, ended) in core::mem::take(&mut self.noted_views) {
            let is_default = key.slot() == self.default_view;
            match (self.views.get_mut(key), at) {
                (None, _) => timers.extend(ended.map(|at| IdleTimer::Stop(at, key))),
                (Some(view), _) if is_default || view.is_used() => {
                    timers.extend(view.idle_at.take().map(|at| IdleTimer::Stop(at, key)));
                }
                (Some(view), Some(at)) if view.idle_at.is_none() => {
                    view.idle_at = Some(at);
                    timers.push(IdleTimer::Start(at, key));
                }
                (Some(_), _) => {}
            }
        }
        timers
    }

    /// Ends the idle timer of a view. Returns the view's name, if the view still exists.
    pub(crate) fn end_idle(&mut self, key: Key) -> Option<ViewName> {
        let view = self.views.get_mut(key)?;
        view.idle_at = None;
        Some(view.name.clone())
    }
}
