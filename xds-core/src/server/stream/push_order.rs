//! Order in which the sessions of a stream send.

use alloc::{boxed::Box, collections::VecDeque};

use crate::{
    server::{
        config::OrderingPolicy,
        event::Via,
        make_before_break::{self, Gate},
        session::Staging,
    },
    slab::Slot,
};

/// Order in which the types of a stream are sent.
#[derive(Debug)]
pub(crate) enum Order {
    /// Order in which the sessions became due. Other sessions may be due too.
    Arrival(VecDeque<Slot>),
    /// Order of make before break, and its reverse for deletions, without waiting for ACKs.
    // M144, M145, IS17, S0.166
    Rank,
    /// Order of make before break, where each step waits for the client's ACKs.
    // M146
    Gated(Box<Gate>),
    /// Single type.
    Alone,
}

impl Order {
    pub(crate) fn of(policy: &OrderingPolicy, via: &Via) -> Self {
        match (policy, via) {
            (_, Via::Single { .. } | Via::Fetch { .. }) => Self::Alone,
            (OrderingPolicy::OrderOnly, _) => Self::Rank,
            (OrderingPolicy::Off, _) => Self::Arrival(VecDeque::new()),
            (OrderingPolicy::AckGated(policy), _) => {
                Self::Gated(Box::new(Gate::new(policy.on_stuck)))
            }
        }
    }

    /// Staging of a session whose type has this rank.
    pub(crate) fn staging(&self, rank: u8) -> Staging {
        let is_referred_to = !make_before_break::may_refer_to(rank).is_empty();
        match self {
            Self::Rank if is_referred_to => Staging::Reversed,
            Self::Arrival(_) | Self::Rank | Self::Alone => Staging::Free,
            Self::Gated(gate) if is_referred_to => Staging::Lingering(gate.on_stuck()),
            Self::Gated(_) => Staging::Staged,
        }
    }

    pub(crate) fn gate(&mut self) -> Option<&mut Gate> {
        match self {
            Self::Arrival(_) | Self::Rank | Self::Alone => None,
            Self::Gated(gate) => Some(gate),
        }
    }
}
