//! Candidate views: copies of stable views with a change.

use alloc::{format, string::String, vec::Vec};

use super::state::RolloutId;
use crate::{
    server::{Applied, Server, Transaction, TransactionError},
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
        for transaction in &change {
            // Views with layers are refused here.
            server.prepare_preview(transaction)?;
        }
        let mut views = Self { id, change, views: Vec::new() };
        match views.fill(server, now) {
            Ok(()) => Ok(views),
            Err(error) => {
                views.drop_all(server, now);
                Err(error)
            }
        }
    }

    /// Returns the change.
    pub(super) fn change(&self) -> &[Transaction] {
        &self.change
    }

    /// Copies the stable views, and applies the change to the copies.
    fn fill(&mut self, server: &mut Server, now: Time) -> Result<(), TransactionError> {
        for transaction in self.change.clone() {
            let stable = transaction.view();
            let candidate = match self.candidate_of(stable) {
                Some(candidate) => candidate.clone(),
                None => {
                    let candidate = self.add(server, stable)?;
                    server.copy_to_view(stable, &candidate, now)?;
                    candidate
                }
            };
            server.apply(transaction.for_view(&candidate), now)?;
        }
        Ok(())
    }

    /// Applies a transaction to the candidate of its view too, if there is one, and returns the result
    /// there. The transaction is part of the change from now on.
    pub(super) fn apply(
        &mut self,
        server: &mut Server,
        transaction: &Transaction,
        now: Time,
    ) -> Option<Applied> {
        let candidate = self.candidate_of(transaction.view())?;
        // The stable view has it, so it is valid. Without room for a copy, the cohort gets it at the
        // end.
        let applied = server.apply(transaction.for_view(candidate), now);
        if !zoo::is(Bug::CompletedChangeIsOlder) {
            update(&mut self.change, transaction);
        }
        applied.ok()
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
        // Without room for another view, the client sees the stable one.
        let Ok(candidate) = self.add(server, stable) else { return stable.clone() };
        // It cannot fail: the view is new, and no candidate of a layer has layers.
        let _ = server.set_layers(&candidate, &replaced, now);
        candidate
    }

    /// Returns the stable view of a candidate; other views are returned unchanged.
    pub(super) fn stable<'v>(&'v self, view: &'v ViewName) -> &'v ViewName {
        let found = self.views.iter().find(|(_, candidate)| candidate == view);
        found.map_or(view, |(stable, _)| stable)
    }

    /// Drops all candidates, those with layers first.
    pub(super) fn drop_all(&self, server: &mut Server, now: Time) {
        for (_, candidate) in self.views.iter().rev() {
            server.drop_candidate(candidate, now);
        }
    }

    fn candidate_of(&self, stable: &ViewName) -> Option<&ViewName> {
        self.views.iter().find(|(it, _)| it == stable).map(|(_, candidate)| candidate)
    }

    /// Opens a candidate with a name that no view has.
    fn add(
        &mut self,
        server: &mut Server,
        stable: &ViewName,
    ) -> Result<ViewName, TransactionError> {
        let existing = server.views();
        let mut name: String = format!("{stable}#rollout-{}", self.id.0);
        while existing.iter().any(|it| it.as_str() == name) {
            name.push('#');
        }
        let candidate = ViewName::from(name.as_str());
        server.open_candidate(&candidate, stable)?;
        self.views.push((stable.clone(), candidate.clone()));
        Ok(candidate)
    }
}
