//! Calls that wait until all clients have accepted a change.

use std::collections::HashMap;

use tokio::sync::oneshot;
use xds_core::{
    Time,
    server::{Server, TooManyWaits},
};

use super::inbox::Target;

type Answer = oneshot::Sender<Result<(), TooManyWaits>>;

/// Waiting calls by the change that they wait for.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// Never iterated in an order that matters.
    answers: HashMap<Target, Vec<Answer>>,
    count: usize,
    /// Number of waiting calls at which cancelled ones are removed.
    sweep_at: usize,
}

/// Number of waiting calls up to which cancelled ones are not removed.
const FEW: usize = 16;

impl Waits {
    pub(crate) fn add(&mut self, server: &mut Server, target: Target, answer: Answer, now: Time) {
        if self.count >= self.sweep_at.max(FEW) {
            self.forget_who_left(server);
        }
        let ask = |server: &mut Server| {
            server.tell_when_converged(&target.view, target.type_url.as_str(), target.sequence, now)
        };
        let asked = ask(server).or_else(|_| {
            // Cancelled calls count towards the limit.
            self.forget_who_left(server);
            ask(server)
        });
        match asked {
            Ok(sequence) => {
                self.answers.entry(Target { sequence, ..target }).or_default().push(answer);
                self.count += 1;
            }
            Err(refused) => {
                let _ = answer.send(Err(refused));
            }
        }
    }

    /// Removes cancelled calls. Takes linear time, so it runs only when the number of calls has
    /// doubled.
    fn forget_who_left(&mut self, server: &mut Server) {
        self.answers.retain(|Target { view, type_url, sequence }, answers| {
            answers.retain(|answer| !answer.is_closed());
            if answers.is_empty() {
                server.stop_waiting(view, type_url.as_str(), *sequence);
            }
            !answers.is_empty()
        });
        self.count = self.answers.values().map(Vec::len).sum();
        self.sweep_at = self.count.saturating_mul(2);
    }

    /// Completes the calls that wait for a change that all clients have accepted.
    pub(crate) fn converged(&mut self, target: &Target) {
        let answers = self.answers.remove(target).unwrap_or_default();
        self.count -= answers.len();
        for answer in answers {
            let _ = answer.send(Ok(()));
        }
    }

    /// Cancels all calls at the end of the server. The end of all streams does not mean acceptance.
    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }
}
