//! Rare situations that walks have to reach, so that the rules about them are tested.

use std::collections::{BTreeMap, BTreeSet};

use xds_core::ChannelId;

use super::{
    exchange::Place,
    oracle::{EntryContent, ResponseContent},
};

/// A rare situation of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Situation {
    GoodBesideBad,
    RemovalBesideBad,
    NackThenNewStreamThenAck,
    HeartbeatRenews,
    HeartbeatOfAnotherVersion,
    ErrorReported,
    Expiry,
    NotReceivedInTime,
    TimerWhileReadingIsHeld,
    FallbackWhileAnAnswerIsPending,
    PreferredServerReturns,
    TroubleStands,
    TurnedToTheNext,
    VersionStatedAgain,
    IdleClose,
    VerdictFromOutside,
}

impl Situation {
    pub const ALL: [Self; 16] = [
        Self::GoodBesideBad,
        Self::RemovalBesideBad,
        Self::NackThenNewStreamThenAck,
        Self::HeartbeatRenews,
        Self::HeartbeatOfAnotherVersion,
        Self::ErrorReported,
        Self::Expiry,
        Self::NotReceivedInTime,
        Self::TimerWhileReadingIsHeld,
        Self::FallbackWhileAnAnswerIsPending,
        Self::PreferredServerReturns,
        Self::TroubleStands,
        Self::TurnedToTheNext,
        Self::VersionStatedAgain,
        Self::IdleClose,
        Self::VerdictFromOutside,
    ];
}

/// Situations that a walk has reached.
#[derive(Debug, Default)]
pub struct Reached {
    pub situations: BTreeSet<Situation>,
    /// Stream of the last rejected response.
    rejected: BTreeMap<(Place, usize), ChannelId>,
}

impl Reached {
    pub fn note(&mut self, situation: Situation, is_reached: bool) {
        if is_reached {
            self.situations.insert(situation);
        }
    }

    pub fn note_response(
        &mut self,
        (place, channel): (Place, ChannelId),
        said: &ResponseContent,
        is_rejected: bool,
    ) {
        let has = |is: fn(&EntryContent) -> bool| said.words.values().any(is);
        let is_bad = has(|it| matches!(it, EntryContent::Resource { is_acceptable: false, .. }));
        let is_good = has(|it| matches!(it, EntryContent::Resource { is_acceptable: true, .. }));
        let is_removed = has(|it| matches!(it, EntryContent::Removed));
        self.note(Situation::GoodBesideBad, is_good && is_bad);
        self.note(Situation::RemovalBesideBad, is_removed && is_bad);
        let renews = has(|it| matches!(it, EntryContent::Heartbeat { is_in_use: true, .. }));
        let is_odd = has(|it| matches!(it, EntryContent::Heartbeat { is_in_use: false, .. }));
        self.note(Situation::HeartbeatRenews, renews);
        self.note(Situation::HeartbeatOfAnotherVersion, is_odd);
        self.note(Situation::ErrorReported, has(|it| matches!(it, EntryContent::Report(_))));
        let rejected = match is_rejected {
            true => self.rejected.insert((place, said.kind), channel).filter(|_| false),
            false => self.rejected.remove(&(place, said.kind)),
        };
        let is_new_stream = rejected.is_some_and(|before| before != channel);
        self.note(Situation::NackThenNewStreamThenAck, is_new_stream);
    }
}
