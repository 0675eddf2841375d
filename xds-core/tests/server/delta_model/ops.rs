//! Random steps, configurations and clients of the model.

use proptest::{collection::vec, prelude::*};
use xds_core::server::{Admission, NackRecovery, OrderingPolicy, ServerConfig, Window};

use crate::support::model::ops::gates;

pub(super) const TYPES: [&str; 2] = ["cds", "eds"];
pub(super) const NAMES: [&str; 4] = ["a", "b", "c", "*"];
pub(super) const VIEWS: [&str; 2] = ["one", "two"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Habit {
    Accepts,
    Rejects,
    /// Rejects every other response.
    Wavers,
}

pub(super) const HABITS: [Habit; 3] = [Habit::Accepts, Habit::Rejects, Habit::Wavers];

#[derive(Clone, Debug)]
pub(super) enum Op {
    Apply(usize, Vec<(usize, usize, Option<u8>)>),
    /// Names to subscribe and unsubscribe, as bits; with the newest nonce or without one.
    Change {
        client: usize,
        ty: usize,
        add: u8,
        drop: u8,
        answers: bool,
    },
    Take {
        client: usize,
    },
    Answer {
        client: usize,
        ty: usize,
    },
    Reconnect {
        client: usize,
        states_versions: bool,
    },
    Move {
        client: usize,
        view: usize,
    },
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let client = || 0..HABITS.len();
    let ty = || 0..TYPES.len();
    // Clients start in the first view.
    let view = || prop_oneof![3 => Just(0usize), 1 => Just(1)];
    let change = (ty(), 0..3usize, proptest::option::weighted(0.7, 0..3u8));
    let bits = || prop_oneof![3 => Just(0u8), 2 => 0..16u8, 1 => Just(8u8)];
    prop_oneof![
        4 => (view(), vec(change, 1..4)).prop_map(|(view, changes)| Op::Apply(view, changes)),
        4 => (client(), ty(), bits(), bits(), any::<bool>()).prop_map(
            |(client, ty, add, drop, answers)| Op::Change { client, ty, add, drop, answers }
        ),
        4 => client().prop_map(|client| Op::Take { client }),
        3 => (client(), ty()).prop_map(|(client, ty)| Op::Answer { client, ty }),
        1 => (client(), any::<bool>())
            .prop_map(|(client, states_versions)| Op::Reconnect { client, states_versions }),
        1 => (client(), view()).prop_map(|(client, view)| Op::Move { client, view }),
    ]
}

pub(super) fn config() -> impl Strategy<Value = ServerConfig> {
    // A response has room for one resource, rarely for two.
    let limits = prop_oneof![Just(4 << 20), Just(8), Just(90)];
    let recovery = prop_oneof![
        Just(NackRecovery::ResendBatch),
        Just(NackRecovery::Minimal),
        Just(NackRecovery::Isolate)
    ];
    let window = prop_oneof![2 => Just(1u16), 1 => 2..4u16];
    let deletions = prop_oneof![Just(10_000), Just(1usize)];
    let ordering = prop_oneof![
        2 => Just(OrderingPolicy::OrderOnly),
        1 => Just(OrderingPolicy::Off),
        2 => gates(),
    ];
    let limits = (limits, deletions);
    (limits, recovery, window, ordering).prop_map(|(limits, recovery, window, ordering)| {
        let (response, deletions) = limits;
        let mut config = ServerConfig::default().with_every_type(|it| {
            it.nack_recovery = recovery;
            it.window = Window::new(window);
        });
        config.ordering = ordering;
        config.admission = Admission::ByApplication;
        config.limits.response_bytes = response;
        config.limits.deletions_per_type = deletions;
        config
    })
}
