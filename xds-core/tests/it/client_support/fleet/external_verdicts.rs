//! Types with an external verdict, here given at once and equal to the validation of other types.
//! Nothing else may differ.

use proptest::{prelude::*, test_runner::TestCaseError};
use xds_core::{
    TypeUrl, UpdateId,
    client::{ClientStats, ResourceType, Update, VerdictSource},
};

use super::{super::verdict_on, World, situations::Situation};

/// A resource type that accepts everything and defers to an external verdict.
#[derive(Debug)]
pub struct Deferring(pub TypeUrl);

impl ResourceType for Deferring {
    fn type_url(&self) -> &TypeUrl {
        &self.0
    }

    fn verdict_source(&self) -> VerdictSource {
        VerdictSource::External
    }
}

impl World {
    pub fn judge(&mut self, id: UpdateId, update: &Update) -> Result<(), TestCaseError> {
        let rejected: Vec<_> = update
            .resources
            .iter()
            .filter_map(|it| Some((it.name.clone(), verdict_on(&it.bytes).err()?)))
            .collect();
        let is_awaited = self.client.is_verdict_pending(id);
        self.reached.note(Situation::VerdictFromOutside, is_awaited && !rejected.is_empty());
        let settled = self.client.submit_verdict(id, rejected, self.now);
        prop_assert_eq!(settled.is_ok(), is_awaited, "{:?} of {:?}", settled, update);
        Ok(())
    }

    /// Takes all outputs before a server sends, so that the next output is the verdict request.
    /// Returns the index of the peer if its stream still exists.
    pub fn clear_the_way(&mut self, at: usize) -> Result<Option<usize>, TestCaseError> {
        if self.setup.verdict != VerdictSource::External {
            return Ok(Some(at));
        }
        let channel = self.peers[at].channel;
        while self.take_output()? {}
        Ok(self.peers.iter().position(|peer| peer.channel == channel))
    }

    /// Gives the pending external verdict on a response.
    pub fn hear_verdicts(&mut self, before: ClientStats) -> Result<(), TestCaseError> {
        let is_answered = |now: ClientStats| now.acks + now.nacks > before.acks + before.nacks;
        while self.setup.verdict == VerdictSource::External
            && !is_answered(self.client.stats())
            && self.take_output()?
        {}
        Ok(())
    }
}
