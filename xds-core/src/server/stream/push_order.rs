//! Order in which the sessions of a stream send.

use alloc::{boxed::Box, vec::Vec};

use crate::{
    server::{
        config::OrderingPolicy,
        event::StreamKind,
        make_before_break::{Dependencies, MakeBeforeBreak},
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
    MakeBeforeBreak(Box<MakeBeforeBreak>),
    /// Single type.
    SingleType,
}

impl Order {
    pub(crate) fn of(policy: &OrderingPolicy, kind: &StreamKind) -> Self {
        match (policy, kind) {
            (_, StreamKind::Single { .. } | StreamKind::Fetch { .. }) => Self::SingleType,
            (OrderingPolicy::OrderOnly, _) => Self::Rank,
            (OrderingPolicy::Off, _) => Self::Arrival(Vec::new()),
            (OrderingPolicy::MakeBeforeBreak(_), _) => Self::MakeBeforeBreak(Box::default()),
        }
    }

    /// Staging of a session whose type has this rank.
    pub(crate) fn send_order(&self, rank: u8, policy: &OrderingPolicy) -> SendOrder {
        let is_referred_to = !Dependencies::of(usize::from(rank)).before_deletions.is_empty();
        match (self, policy.make_before_break()) {
            (Self::Rank, _) if is_referred_to => SendOrder::RemovalsLast,
            (Self::MakeBeforeBreak(_), Some(policy)) if is_referred_to => {
                SendOrder::MakeBeforeBreakRemovals(policy.on_stage_timeout)
            }
            (Self::MakeBeforeBreak(_), _) => SendOrder::MakeBeforeBreak,
            (Self::Arrival(_) | Self::Rank | Self::SingleType, _) => SendOrder::Independent,
        }
    }

    pub(crate) fn make_before_break(&mut self) -> Option<&mut MakeBeforeBreak> {
        match self {
            Self::Arrival(_) | Self::Rank | Self::SingleType => None,
            Self::MakeBeforeBreak(state) => Some(state),
        }
    }
}
