//! Who waits until all clients have accepted a change.

use tokio::sync::oneshot;
use xds_core::{
    Time,
    server::{Server, TooManyWaits},
};

use super::inbox::Target;

/// Those who wait, each with what for.
#[derive(Debug, Default)]
pub(crate) struct Waits(Vec<(Target, oneshot::Sender<Result<(), TooManyWaits>>)>);

impl Waits {
    pub(crate) fn add(
        &mut self,
        server: &mut Server,
        target: Target,
        answer: oneshot::Sender<Result<(), TooManyWaits>>,
        now: Time,
    ) {
        self.forget_who_left(server);
        let Target { view, type_url, sequence } = &target;
        match server.tell_when_converged(view, type_url.as_str(), *sequence, now) {
            Ok(sequence) => self.0.push((Target { sequence, ..target }, answer)),
            Err(refused) => {
                let _ = answer.send(Err(refused));
            }
        }
    }

    /// Whoever does not wait any longer makes room.
    fn forget_who_left(&mut self, server: &mut Server) {
        let left: Vec<_> =
            self.0.extract_if(.., |(_, answer)| answer.is_closed()).map(|(it, _)| it).collect();
        for target in left {
            if self.0.iter().all(|(other, _)| *other != target) {
                let Target { view, type_url, sequence } = &target;
                server.stop_waiting(view, type_url.as_str(), *sequence);
            }
        }
    }

    /// All clients have accepted a change: tells everybody who waits for it.
    pub(crate) fn converged(&mut self, target: &Target) {
        for (_, answer) in self.0.extract_if(.., |(waits_for, _)| waits_for == target) {
            let _ = answer.send(Ok(()));
        }
    }

    /// The server ends: that all clients go is not that they have accepted anything.
    pub(crate) fn end(&mut self) {
        self.0.clear();
    }
}
