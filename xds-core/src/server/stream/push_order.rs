//! Order in which the sessions of a stream send.

use alloc::{boxed::Box, vec::Vec};

use super::held_since::HeldSince;
use crate::{
    server::{
        config::OrderingPolicy,
        event::StreamKind,
        make_before_break::{self, MakeBeforeBreak},
        session::SendOrder,
    },
    slab::Slot,
};

/// Order in which the types of a stream are sent.
#[derive(Debug)]
pub(crate) enum Order {
    /// Order in which the sessions became due. Other sessions may be due too.
    Arrival(Vec<Slot>),
    /// Order of make before break, and its reverse for deletions, without waiting for ACKs.
    // M144, M145, IS17, S0.166
    Rank,
    /// Order of make before break, where each step waits for the client's ACKs.
    // M146
    MakeBeforeBreak(Box<StepByStep>),
    /// Single type.
    SingleType,
}

/// Make before break of a stream, and since when it holds something back.
#[derive(Debug)]
pub(crate) struct StepByStep {
    pub(crate) make_before_break: MakeBeforeBreak,
    pub(crate) held_since: HeldSince,
}

impl Order {
    pub(crate) fn of(policy: &OrderingPolicy, kind: &StreamKind) -> Self {
        match (policy, kind) {
            (_, StreamKind::Single { .. } | StreamKind::Fetch { .. }) => Self::SingleType,
            (OrderingPolicy::OrderOnly, _) => Self::Rank,
            (OrderingPolicy::Off, _) => Self::Arrival(Vec::new()),
            (OrderingPolicy::MakeBeforeBreak(policy), _) => {
                let make_before_break = MakeBeforeBreak::new(policy.on_stage_timeout);
                let held_since = HeldSince::default();
                Self::MakeBeforeBreak(Box::new(StepByStep { make_before_break, held_since }))
            }
        }
    }

    /// Staging of a session whose type has this rank.
    pub(crate) fn send_order(&self, rank: u8) -> SendOrder {
        let is_referred_to = !make_before_break::may_refer_to(rank).is_empty();
        match self {
            Self::Rank if is_referred_to => SendOrder::RemovalsLast,
            Self::Arrival(_) | Self::Rank | Self::SingleType => SendOrder::Independent,
            Self::MakeBeforeBreak(state) if is_referred_to => {
                SendOrder::MakeBeforeBreakRemovals(state.make_before_break.on_stage_timeout())
            }
            Self::MakeBeforeBreak(_) => SendOrder::MakeBeforeBreak,
        }
    }

    pub(crate) fn make_before_break(&mut self) -> Option<&mut MakeBeforeBreak> {
        match self {
            Self::Arrival(_) | Self::Rank | Self::SingleType => None,
            Self::MakeBeforeBreak(state) => Some(&mut state.make_before_break),
        }
    }

    pub(crate) fn held_since(&mut self) -> Option<&mut HeldSince> {
        match self {
            Self::Arrival(_) | Self::Rank | Self::SingleType => None,
            Self::MakeBeforeBreak(state) => Some(&mut state.held_since),
        }
    }
}
