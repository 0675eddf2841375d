//! Which views nobody sees, and since when (M221).

use alloc::vec::Vec;

use super::Store;
use crate::{
    slab::{Key, Slot},
    text::ViewName,
    time::Time,
};

/// A view to be looked at, or not any more, at this time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Watch {
    Begins(Time, Key),
    Ends(Time, Key),
}

impl Store {
    /// Who sees the view may have changed.
    pub(crate) fn note_view(&mut self, slot: Slot) {
        if let Some(key) = self.views.key(slot) {
            let ends = self.views.at(slot).and_then(|view| view.idle_at);
            self.noted.push((key, ends));
        }
    }

    /// What follows for the views of which that may have changed; those seen by nobody from now on are to
    /// be looked at when `at` has come.
    pub(crate) fn watches(&mut self, at: Option<Time>) -> Vec<Watch> {
        let mut watches = Vec::new();
        for (key, ended) in core::mem::take(&mut self.noted) {
            let is_default = key.slot() == self.default_view;
            match (self.views.get_mut(key), at) {
                (None, _) => watches.extend(ended.map(|at| Watch::Ends(at, key))),
                (Some(view), _) if is_default || view.is_seen() => {
                    watches.extend(view.idle_at.take().map(|at| Watch::Ends(at, key)));
                }
                (Some(view), Some(at)) if view.idle_at.is_none() => {
                    view.idle_at = Some(at);
                    watches.push(Watch::Begins(at, key));
                }
                (Some(_), _) => {}
            }
        }
        watches
    }

    /// The time of a view that nobody has seen is over.
    pub(crate) fn end_idle(&mut self, key: Key) -> Option<ViewName> {
        let view = self.views.get_mut(key)?;
        view.idle_at = None;
        Some(view.name.clone())
    }
}
