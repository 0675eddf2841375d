//! Who waits until all clients have accepted a change.

use std::collections::HashMap;

use tokio::sync::oneshot;
use xds_core::{
    Time,
    server::{Server, TooManyWaits},
};

use super::inbox::Target;

type Answer = oneshot::Sender<Result<(), TooManyWaits>>;

/// Those who wait, by what for.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// Only ever looked up: its order shows nowhere.
    answers: HashMap<Target, Vec<Answer>>,
    count: usize,
    /// How many there may be before it is looked who has left.
    sweep_at: usize,
}

/// How many wait without a look at who has left.
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
            // Whoever does not wait any longer makes room.
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

    /// Costs how many wait, which is why it is not done before these are twice as many as the last time.
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

    /// All clients have accepted a change: tells everybody who waits for it.
    pub(crate) fn converged(&mut self, target: &Target) {
        let answers = self.answers.remove(target).unwrap_or_default();
        self.count -= answers.len();
        for answer in answers {
            let _ = answer.send(Ok(()));
        }
    }

    /// The server ends: that all clients go is not that they have accepted anything.
    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }
}
