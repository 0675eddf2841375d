//! Rollout under way on a server.

use alloc::{collections::BTreeMap, vec::Vec};

use super::{candidate::CandidateViews, clients::Side, machine::Rollout};
use crate::{
    id::StreamId,
    server::{Server, TransactionError},
    text::{Nonce, TypeUrl},
    time::Time,
};

/// Rollout under way on a server.
#[derive(Debug)]
pub(super) struct ActiveRollout {
    pub(super) rollout: Rollout,
    pub(super) views: CandidateViews,
    pub(super) error: Option<TransactionError>,
    /// Numbers of the nonces that were unanswered when a client moved to the candidate, by type: an
    /// answer to one of them or to an earlier one says nothing of the candidate.
    pub(super) before: BTreeMap<StreamId, Vec<(TypeUrl, u64)>>,
}

impl ActiveRollout {
    /// Moves a client to the views of a side.
    pub(super) fn move_client(
        &mut self,
        server: &mut Server,
        stream: StreamId,
        side: Side,
        now: Time,
    ) {
        // A client without a view gets one from `assign`.
        let Some(view) = server.view_of(stream).cloned() else { return };
        let stable = self.views.stable(&view).clone();
        let view = match side {
            Side::Stable => stable,
            Side::Candidate => {
                self.before.insert(stream, server.unanswered(stream).collect());
                self.views.candidate(server, &stable, now)
            }
        };
        server.assign(stream, &view, now);
        if side == Side::Candidate && server.lag_of(stream).is_none() {
            self.rollout.acknowledged(stream, now);
        }
    }

    /// Applies the change to the stable views.
    pub(super) fn apply(&mut self, server: &mut Server, now: Time) {
        for transaction in self.views.change() {
            if let Err(error) = server.apply(transaction.clone(), now) {
                self.error.get_or_insert(error);
            }
        }
    }

    /// Whether a response was sent before the client moved to the candidate.
    pub(super) fn is_of_earlier(
        &self,
        stream: StreamId,
        type_url: &TypeUrl,
        nonce: &Nonce,
    ) -> bool {
        let number = nonce.as_str().parse::<u64>().ok();
        let mut before = self.before.get(&stream).into_iter().flatten();
        before.any(|(it, last)| it == type_url && number.is_some_and(|number| number <= *last))
    }
}
