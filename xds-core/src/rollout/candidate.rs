//! Candidate views: copies of stable views with a change.

use alloc::{format, string::String, vec::Vec};

use super::state::RolloutId;
use crate::{
    server::{DropView, Server, Transaction, TransactionError},
    text::ViewName,
    time::Time,
    zoo::{self, Bug},
};

/// Candidate views of one rollout, and the stable views in whose place clients see them.
#[derive(Clone, Debug)]
pub(super) struct CandidateViews {
    id: RolloutId,
    change: Vec<Transaction>,
    /// Stable views and their candidates: those that the change concerns, then those with layers.
    views: Vec<(ViewName, ViewName)>,
    /// Number of views that the change concerns.
    concerned: usize,
}

/// Adds a newer transaction to a change, if the change concerns its view.
pub(super) fn update(change: &mut Vec<Transaction>, newer: &Transaction) {
    let at = change.iter().rposition(|it| it.view() == newer.view());
    if let Some(at) = at {
        #[expect(clippy::disallowed_methods, reason = "`at` is a position in the list")]
        let last = change.remove(at);
        change.extend(last.followed_by(newer.clone()));
    }
}

impl CandidateViews {
    /// Creates the candidates of a change.
    pub(super) fn new(
        server: &mut Server,
        id: RolloutId,
        change: Vec<Transaction>,
        now: Time,
    ) -> Result<Self, TransactionError> {
        let mut views = Self { id, change, views: Vec::new(), concerned: 0 };
        for transaction in views.change.clone() {
            // Views with layers are refused here.
            server.prepare_preview(&transaction)?;
            if views.candidate_of(transaction.view()).is_none() {
                views.add(server, transaction.view());
            }
        }
        views.concerned = views.views.len();
        if let Err(error) = views.fill(server, now) {
            views.drop_all(server, now);
            return Err(error);
        }
        Ok(views)
    }

    /// Returns the change.
    pub(super) fn change(&self) -> &[Transaction] {
        &self.change
    }

    /// Whether a view is a candidate.
    pub(super) fn has(&self, view: &ViewName) -> bool {
        self.views.iter().any(|(_, candidate)| candidate == view)
    }

    /// Copies the stable views, and applies the change to the copies.
    pub(super) fn fill(&self, server: &mut Server, now: Time) -> Result<(), TransactionError> {
        for (stable, candidate) in self.views.iter().take(self.concerned) {
            server.copy_to_view(stable, candidate, now)?;
        }
        for transaction in &self.change {
            if let Some(candidate) = self.candidate_of(transaction.view()) {
                server.apply(transaction.for_view(candidate), now)?;
            }
        }
        Ok(())
    }

    /// Applies a transaction to the candidate of its view too, if there is one. It is part of the
    /// change from now on.
    pub(super) fn apply(&mut self, server: &mut Server, transaction: &Transaction, now: Time) {
        if let Some(candidate) = self.candidate_of(transaction.view()) {
            // The stable view has it, so it is valid. Without room for a copy, the cohort gets it at
            // the end.
            let _ = server.apply(transaction.for_view(candidate), now);
            if !zoo::is(Bug::CompletedChangeIsOlder) {
                update(&mut self.change, transaction);
            }
        }
    }

    /// Returns the view that a client of the cohort sees in place of a stable one. A view with
    /// layers gets a candidate when it is first used.
    pub(super) fn candidate(
        &mut self,
        server: &mut Server,
        stable: &ViewName,
        now: Time,
    ) -> ViewName {
        if let Some(candidate) = self.candidate_of(stable) {
            return candidate.clone();
        }
        let layers = server.layers_of(stable);
        let replaced: Vec<_> =
            layers.iter().map(|it| self.candidate_of(it).unwrap_or(it).clone()).collect();
        if replaced == layers {
            return stable.clone();
        }
        let candidate = self.add(server, stable);
        // The views are new, and no candidate of a layer has layers. Without room for another view,
        // the client sees the stable one.
        match server.set_layers(&candidate, &replaced, now) {
            Ok(()) => candidate,
            Err(_) => {
                self.views.pop();
                stable.clone()
            }
        }
    }

    /// Returns the stable view of a candidate; other views are returned unchanged.
    pub(super) fn stable<'v>(&'v self, view: &'v ViewName) -> &'v ViewName {
        let found = self.views.iter().find(|(_, candidate)| candidate == view);
        found.map_or(view, |(stable, _)| stable)
    }

    /// Drops all candidates, those with layers first.
    pub(super) fn drop_all(&self, server: &mut Server, now: Time) {
        for (_, candidate) in self.views.iter().rev() {
            server.drop_view(candidate, DropView::Freeze, now);
        }
    }

    fn candidate_of(&self, stable: &ViewName) -> Option<&ViewName> {
        self.views.iter().find(|(it, _)| it == stable).map(|(_, candidate)| candidate)
    }

    /// Adds a candidate with a name that no view has.
    fn add(&mut self, server: &Server, stable: &ViewName) -> ViewName {
        let existing = server.views();
        let mut name: String = format!("{stable}#rollout-{}", self.id.0);
        while existing.iter().any(|it| it.as_str() == name) {
            name.push('#');
        }
        let candidate = ViewName::from(name.as_str());
        self.views.push((stable.clone(), candidate.clone()));
        candidate
    }
}
