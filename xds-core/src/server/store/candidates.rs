//! Views that the cohort of a rollout sees in place of another one.
//!
//! A candidate is a view of its own for the streams that see it. In reports to the application its
//! clients are clients of the stable view, so each arena of a candidate has one of the stable view,
//! even if that is empty.

use alloc::vec::Vec;

use super::{Store, arena::ResourceEntry, on_demand::OnDemandState};
use crate::{
    slab::Slot,
    text::{ResourceName, TypeUrl, ViewName},
};

impl Store {
    /// Opens a view as the candidate of a stable one, which is kept meanwhile. Returns whether there
    /// is room for the views.
    #[must_use]
    pub(crate) fn open_candidate(
        &mut self,
        candidate: &ViewName,
        stable: &ViewName,
        limit: usize,
    ) -> bool {
        let new = [candidate, stable].iter().filter(|it| self.find_view(it).is_none()).count();
        if self.views.len() + new > limit {
            return false;
        }
        let Some(stable) = self.open_view(stable) else { return false };
        let Some(candidate) = self.open_view(candidate) else { return false };
        if let Some(view) = self.views.at_mut(candidate) {
            view.stands_for = Some(stable);
        }
        if let Some(view) = self.views.at_mut(stable) {
            view.candidates.push(candidate);
        }
        self.note_view(stable);
        true
    }

    /// Makes a candidate an ordinary view.
    pub(crate) fn close_candidate(&mut self, candidate: Slot) {
        let Some(view) = self.views.at_mut(candidate) else { return };
        let Some(stable) = view.stands_for.take() else { return };
        self.update_retention(candidate);
        let Some(view) = self.views.at_mut(stable) else { return };
        view.candidates.retain(|it| *it != candidate);
        for arena in self.arenas_of(stable) {
            self.release_arena(arena);
        }
        self.update_retention(stable);
    }

    /// Returns the view that the application knows: the stable one of a candidate, and the view
    /// itself otherwise.
    pub(crate) fn stable_view(&self, view: Slot) -> Slot {
        self.views.at(view).and_then(|it| it.stands_for).unwrap_or(view)
    }

    fn candidates_of(&self, view: Slot) -> &[Slot] {
        self.views.at(view).map(|it| &*it.candidates).unwrap_or_default()
    }

    /// Returns the stable view of a view, and then its candidates.
    pub(crate) fn cohort_views(&self, view: Slot) -> impl Iterator<Item = Slot> + '_ {
        let stable = self.stable_view(view);
        core::iter::once(stable).chain(self.candidates_of(stable).iter().copied())
    }

    /// Returns the entries of a name in the views that other cohorts see in place of a view.
    pub(crate) fn in_other_cohorts<'s>(
        &'s self,
        view: Slot,
        type_url: &'s TypeUrl,
        name: &'s ResourceName,
    ) -> impl Iterator<Item = &'s ResourceEntry> {
        let others = self.cohort_views(view).filter(move |it| *it != view);
        others.filter_map(|it| self.entry(it, type_url.as_str(), name.as_str()))
    }

    /// Returns the arena of a type in a view, and those in its candidates.
    pub(crate) fn arenas_of_type(&self, view: &ViewName, type_url: &str) -> Vec<Slot> {
        let Some(slot) = self.find_view(view) else { return Vec::new() };
        let views = core::iter::once(slot).chain(self.candidates_of(slot).iter().copied());
        views.filter_map(|it| self.find_arena(it, type_url)).collect()
    }

    /// Returns the arenas whose reports include the clients of an arena: itself, those of its
    /// layers, and those of the stable views of all of them.
    pub(crate) fn reporting_arenas(&self, slot: Slot) -> Vec<Slot> {
        let mut arenas = self.with_layers(slot);
        let stable = |&slot: &Slot| {
            let arena = self.arenas.at(slot)?;
            let stable = self.views.at(arena.view)?.stands_for?;
            self.find_arena(stable, arena.type_url.as_str())
        };
        let stable: Vec<_> = arenas.iter().filter_map(stable).collect();
        arenas.extend(stable);
        arenas
    }

    /// Whether the arena of a type in a candidate needs that of the stable view.
    pub(crate) fn is_for_candidate(&self, view: Slot, type_url: &str) -> bool {
        self.candidates_of(view).iter().any(|&it| self.find_arena(it, type_url).is_some())
    }

    /// Records in the views of the other cohorts that a name was wanted in this one, and is not any
    /// more: a resource there was set on request too, and is wanted while a client requests it.
    pub(crate) fn note_released_in(&mut self, view: Slot, type_url: &TypeUrl, name: &ResourceName) {
        let others: Vec<_> = self.cohort_views(view).filter(|it| *it != view).collect();
        for other in others {
            let arena = self.find_arena(other, type_url.as_str());
            let Some(arena) = arena.and_then(|it| self.arenas.at_mut(it)) else { continue };
            let entry = arena.find(name.as_str()).and_then(|it| arena.at_mut(it));
            let Some(entry) = entry.filter(|it| it.is_held()) else { continue };
            entry.on_demand_state = match entry.subscribers.is_empty() {
                true => OnDemandState::Released,
                false => OnDemandState::Provided,
            };
        }
    }
}
