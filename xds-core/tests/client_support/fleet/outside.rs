//! Types on which somebody outside has the last word: here one who speaks at once, and says what validation
//! says of other types. Nothing else may differ.

use proptest::{prelude::*, test_runner::TestCaseError};
use xds_core::{
    TypeUrl, UpdateId,
    client::{ClientStats, ResourceType, Update, Verdict},
};

use super::{super::verdict_on, World, reach::Situation};

/// Takes everything, and leaves the verdict to others.
#[derive(Debug)]
pub struct Deferring(pub TypeUrl);

impl ResourceType for Deferring {
    fn type_url(&self) -> &TypeUrl {
        &self.0
    }

    fn verdict(&self) -> Verdict {
        Verdict::External
    }
}

impl World {
    pub fn judge(&mut self, id: UpdateId, update: &Update) -> Result<(), TestCaseError> {
        let rejected: Vec<_> = update
            .resources
            .iter()
            .filter_map(|it| Some((it.name.clone(), verdict_on(&it.bytes).err()?)))
            .collect();
        let is_awaited = self.client.awaits(id);
        self.reached.note(Situation::VerdictFromOutside, is_awaited && !rejected.is_empty());
        let settled = self.client.settle(id, rejected, self.now);
        prop_assert_eq!(settled.is_ok(), is_awaited, "{:?} of {:?}", settled, update);
        Ok(())
    }

    /// Before a server speaks everything is taken that there is to take, so that a verdict is what comes
    /// next. Where its peer is then, if its stream is still there.
    pub fn clear_the_way(&mut self, at: usize) -> Result<Option<usize>, TestCaseError> {
        if self.setup.verdict != Verdict::External {
            return Ok(Some(at));
        }
        let channel = self.peers[at].channel;
        while self.take_output()? {}
        Ok(self.peers.iter().position(|peer| peer.channel == channel))
    }

    /// Whoever has the last word on the response says it.
    pub fn hear_verdicts(&mut self, before: ClientStats) -> Result<(), TestCaseError> {
        let is_answered = |now: ClientStats| now.acks + now.nacks > before.acks + before.nacks;
        while self.setup.verdict == Verdict::External
            && !is_answered(self.client.stats())
            && self.take_output()?
        {}
        Ok(())
    }
}
