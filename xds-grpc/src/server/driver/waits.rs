//! Calls that wait until all clients have accepted a change.

use std::collections::BTreeMap;

use tokio::sync::oneshot;
use xds_core::{
    Time,
    server::{Server, TooManyWaits},
};

use super::inbox::ConvergenceTarget;

type Reply = oneshot::Sender<Result<(), TooManyWaits>>;

/// Waiting calls by the change that they wait for.
#[derive(Debug, Default)]
pub(crate) struct ConvergenceWaits {
    /// Never iterated in an order that matters.
    replies: BTreeMap<ConvergenceTarget, Vec<Reply>>,
    count: usize,
    /// Number of waiting calls at which cancelled ones are removed.
    sweep_at: usize,
}

/// Number of waiting calls up to which cancelled ones are not removed.
const MIN_SWEEP: usize = 16;

impl ConvergenceWaits {
    pub(crate) fn add(
        &mut self,
        server: &mut Server,
        target: ConvergenceTarget,
        reply: Reply,
        now: Time,
    ) {
        if self.count >= self.sweep_at.max(MIN_SWEEP) {
            self.remove_cancelled(server);
        }
        let request = |server: &mut Server| {
            server.notify_when_converged(
                &target.view,
                target.type_url.as_str(),
                target.sequence,
                now,
            )
        };
        let requested = request(server).or_else(|_| {
            // Cancelled calls count towards the limit.
            self.remove_cancelled(server);
            request(server)
        });
        match requested {
            Ok(sequence) => {
                self.replies
                    .entry(ConvergenceTarget { sequence, ..target })
                    .or_default()
                    .push(reply);
                self.count += 1;
            }
            Err(refused) => {
                let _ = reply.send(Err(refused));
            }
        }
    }

    /// Removes cancelled calls. Takes linear time, so it runs only when the number of calls has
    /// doubled.
    fn remove_cancelled(&mut self, server: &mut Server) {
        self.replies.retain(|ConvergenceTarget { view, type_url, sequence }, replies| {
            replies.retain(|reply| !reply.is_closed());
            if replies.is_empty() {
                server.cancel_convergence_wait(view, type_url.as_str(), *sequence);
            }
            !replies.is_empty()
        });
        self.count = self.replies.values().map(Vec::len).sum();
        self.sweep_at = self.count.saturating_mul(2);
    }

    /// Completes the calls that wait for a change that all clients have accepted.
    pub(crate) fn converged(&mut self, target: &ConvergenceTarget) {
        let replies = self.replies.remove(target).unwrap_or_default();
        self.count -= replies.len();
        for reply in replies {
            let _ = reply.send(Ok(()));
        }
    }

    /// Cancels all calls at the end of the server. The end of all streams does not mean acceptance.
    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }
}
