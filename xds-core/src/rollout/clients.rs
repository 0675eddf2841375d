//! Connected clients with the side that they see, and their progress.

use alloc::{collections::BTreeMap, sync::Arc};

use super::halt::HaltingClient;
use crate::id::StreamId;

/// Views that a client sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Stable views.
    Stable,
    /// Candidate views.
    Candidate,
}

/// Progress of a client with the side that it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientProgress {
    Pending,
    Acknowledged,
    Rejected,
}

#[derive(Clone, Debug)]
struct RolloutClient {
    node_id: Arc<str>,
    /// First step whose cohort has the client.
    first_step: Option<usize>,
    side: Side,
    progress: ClientProgress,
}

/// Connected clients, and the numbers of those that see the candidate.
#[derive(Clone, Debug, Default)]
pub(super) struct RolloutClients {
    clients: BTreeMap<StreamId, RolloutClient>,
    pub(super) members: u32,
    pub(super) acknowledged: u32,
}

/// Returns the side of a client that is in the cohorts from `first_step` on, while those up to
/// `served` see the candidate.
fn side_of(first_step: Option<usize>, served: Option<usize>) -> Side {
    match (first_step, served) {
        (Some(first), Some(served)) if first <= served => Side::Candidate,
        _ => Side::Stable,
    }
}

impl RolloutClients {
    /// Adds a client, and returns the side that it sees.
    pub(super) fn insert(
        &mut self,
        stream: StreamId,
        node_id: Arc<str>,
        first_step: Option<usize>,
        served: Option<usize>,
    ) -> Side {
        self.remove(stream);
        let side = side_of(first_step, served);
        let progress = ClientProgress::Pending;
        self.members += u32::from(side == Side::Candidate);
        self.clients.insert(stream, RolloutClient { node_id, first_step, side, progress });
        side
    }

    pub(super) fn remove(&mut self, stream: StreamId) {
        self.set_progress(stream, ClientProgress::Pending);
        if let Some(client) = self.clients.remove(&stream) {
            self.members -= u32::from(client.side == Side::Candidate);
        }
    }

    /// Sets the progress of a client. Without effect if it does not see the candidate.
    pub(super) fn set_progress(&mut self, stream: StreamId, progress: ClientProgress) {
        let Some(client) = self.clients.get_mut(&stream) else { return };
        if client.side == Side::Stable {
            return;
        }
        let before = core::mem::replace(&mut client.progress, progress);
        self.acknowledged -= u32::from(before == ClientProgress::Acknowledged);
        self.acknowledged += u32::from(progress == ClientProgress::Acknowledged);
    }

    /// Gives each client the side that it sees while the cohorts up to `served` see the candidate.
    pub(super) fn serve(&mut self, served: Option<usize>, mut moved: impl FnMut(StreamId, Side)) {
        for (&stream, client) in &mut self.clients {
            let side = side_of(client.first_step, served);
            if side == client.side {
                continue;
            }
            self.acknowledged -= u32::from(client.progress == ClientProgress::Acknowledged);
            match side {
                Side::Candidate => self.members += 1,
                Side::Stable => self.members -= 1,
            }
            (client.side, client.progress) = (side, ClientProgress::Pending);
            moved(stream, side);
        }
    }

    pub(super) fn side(&self, stream: StreamId) -> Option<Side> {
        self.clients.get(&stream).map(|client| client.side)
    }

    /// Returns the clients of the cohort.
    pub(super) fn members(&self) -> impl Iterator<Item = StreamId> {
        let of_cohort = self.clients.iter().filter(|(_, it)| it.side == Side::Candidate);
        of_cohort.map(|(&stream, _)| stream)
    }

    pub(super) fn node_id(&self, stream: StreamId) -> Arc<str> {
        self.clients.get(&stream).map(|client| client.node_id.clone()).unwrap_or_default()
    }

    /// Returns the clients of the cohort that have not acknowledged.
    pub(super) fn lagging(&self) -> impl Iterator<Item = HaltingClient> {
        let of_cohort = self.clients.iter().filter(|(_, it)| it.side == Side::Candidate);
        of_cohort.filter_map(|(&stream, client)| {
            let reason = match client.progress {
                ClientProgress::Pending => "not acknowledged",
                ClientProgress::Rejected => "rejected",
                ClientProgress::Acknowledged => return None,
            };
            let (node_id, reason) = (client.node_id.clone(), reason.into());
            Some(HaltingClient {
                stream,
                node_id,
                type_url: None,
                names: Default::default(),
                reason,
            })
        })
    }
}
