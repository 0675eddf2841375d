//! Tracking of unused views, and since when they are unused.
// M221

use alloc::vec::Vec;

use super::Store;
use crate::{
    slab::{Key, Slot},
    text::ViewName,
    time::Time,
};

/// Idle timer of a view, with the times at which it fires before and after a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleTimer {
    pub(crate) view: Key,
    pub(crate) before: Option<Time>,
    pub(crate) after: Option<Time>,
}

impl Store {
    /// Records that a view may have become used or unused.
    pub(crate) fn note_view(&mut self, slot: Slot) {
        if let Some(key) = self.views.key(slot) {
            let ends = self.views.at(slot).and_then(|view| view.idle_at);
            self.noted_views.push((key, ends));
        }
    }

    /// Returns the idle timers of views that have become used or unused since the last call. Timers of
    /// views that are unused from now on fire at `at`.
    pub(crate) fn take_idle_timers(&mut self, at: Option<Time>) -> Vec<IdleTimer> {
        let mut timers = Vec::new();
        for (view, ended) in core::mem::take(&mut self.noted_views) {
            let Some(state) = self.views.get_mut(view) else {
                timers.push(IdleTimer { view, before: ended, after: None });
                continue;
            };
            let is_kept = view.slot() == self.default_view || state.is_used();
            let before = state.idle_at;
            state.idle_at = if is_kept { None } else { before.or(at) };
            timers.push(IdleTimer { view, before, after: state.idle_at });
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
