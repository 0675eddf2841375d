//! Random steps, configurations and clients of the model.

use core::ops::Range;
use std::sync::Arc;

use proptest::{collection::vec, option, prelude::*};
use xds_core::{
    Malformed,
    references::{Reference, ReferenceExtractor, ReferenceTarget},
    server::{
        MakeBeforeBreakPolicy, Missing, NackRecovery, OrderingPolicy, ServerConfig, ServerLimits,
        SotwResponse, StageTimeoutAction, VersionMode, Warming, Window,
    },
    types,
};

/// Complete responses, the dependent endpoints, complete responses by name, and a custom type.
pub(crate) const TYPES: [&str; 4] = ["cds", "eds", "lds", "own"];
pub(crate) const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Apply(Vec<(usize, usize, Option<u8>)>),
    /// A client lists names: one bit per name, and one for the wildcard.
    List {
        client: usize,
        ty: usize,
        names: u8,
        nonce: Nonce,
    },
    /// The transport of a client takes one response.
    Take {
        client: usize,
    },
    /// A client reads a response and answers it.
    Answer {
        client: usize,
        ty: usize,
    },
    Reconnect {
        client: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nonce {
    Newest,
    Blank,
}

/// Steps of these clients and types. Small ranges find races sooner.
pub(crate) fn op(clients: Range<usize>, types: Range<usize>) -> impl Strategy<Value = Op> {
    let (client, ty) = (clients, types);
    prop_oneof![
        4 => vec((ty.clone(), 0..NAMES.len(), option::weighted(0.7, 0..3u8)), 1..5)
            .prop_map(Op::Apply),
        4 => (client.clone(), ty.clone(), 0..64u8, prop_oneof![
            5 => Just(Nonce::Newest), 1 => Just(Nonce::Blank)
        ]).prop_map(|(client, ty, names, nonce)| Op::List { client, ty, names, nonce }),
        6 => client.clone().prop_map(|client| Op::Take { client }),
        6 => (client.clone(), ty).prop_map(|(client, ty)| Op::Answer { client, ty }),
        1 => client.prop_map(|client| Op::Reconnect { client }),
    ]
}

/// Policies that affect responses, and a limit that splits them.
pub(crate) fn config() -> impl Strategy<Value = (ServerConfig, Split)> {
    let recovery = prop_oneof![
        Just(NackRecovery::ResendBatch),
        Just(NackRecovery::Minimal),
        Just(NackRecovery::Isolate)
    ];
    let window = prop_oneof![2 => Just(1u16), 1 => 2..4u16];
    let missing = prop_oneof![
        2 => Just(Missing::Hold), 1 => Just(Missing::EmptyResponse), 1 => Just(Missing::NotFound)
    ];
    let full = prop_oneof![3 => Just(SotwResponse::Changes), 1 => Just(SotwResponse::AlwaysFull)];
    let versions = prop_oneof![
        3 => Just(VersionMode::Content), 1 => Just(VersionMode::Counter), 1 => Just(VersionMode::Caller),
        1 => Just(VersionMode::Label)
    ];
    let rules = (recovery, window, missing, full, versions);
    let warming = prop_oneof![3 => Just(Warming::AfterClusters), 1 => Just(Warming::Off)];
    let split = prop_oneof![3 => Just(Split::No), 1 => Just(Split::Yes)];
    let ordering = prop_oneof![
        2 => Just(OrderingPolicy::OrderOnly),
        1 => Just(OrderingPolicy::Off),
        3 => gates(),
    ];
    (rules, warming, split, ordering).prop_map(|(rules, warming, split, ordering)| {
        let (recovery, window, missing, full, versions) = rules;
        let mut config = ServerConfig::default();
        config.ordering = ordering;
        config = config.with_every_type(|it| {
            it.nack_recovery = recovery;
            it.window = Window::new(window);
            it.missing = missing;
            it.versions = versions;
        });
        config.type_defaults.others.sotw_response = full;
        config.warming = warming;
        config.version_prefix = "run-".into();
        if split == Split::Yes {
            let mut limits = ServerLimits::default();
            // One or two resources.
            limits.response_bytes = 150;
            config = config.with_limits(limits);
        }
        (config, split)
    })
}

/// Clusters of content `2` reference endpoints of their own name. Clients of the model request
/// these only by chance; otherwise the server waits until its timeout.
#[derive(Debug)]
struct Namesakes;

impl ReferenceExtractor for Namesakes {
    fn references(
        &self,
        type_url: &str,
        resource: &[u8],
        found: &mut dyn FnMut(Reference<'_>),
    ) -> Result<(), Malformed> {
        let text = core::str::from_utf8(resource).unwrap();
        let name = text.strip_suffix("=2").filter(|_| type_url == types::CLUSTER);
        let names = |it| Reference::new(types::CLUSTER_LOAD_ASSIGNMENT, ReferenceTarget::Name(it));
        name.map(names).into_iter().for_each(found);
        Ok(())
    }
}

fn gated(
    on_stage_timeout: StageTimeoutAction,
    references: Option<Arc<dyn ReferenceExtractor>>,
) -> OrderingPolicy {
    let mut gated = MakeBeforeBreakPolicy::default();
    (gated.on_stage_timeout, gated.references) = (on_stage_timeout, references);
    OrderingPolicy::MakeBeforeBreak(gated)
}

/// Make-before-break policies, with and without references.
pub(crate) fn gates() -> impl Strategy<Value = OrderingPolicy> {
    let references = prop_oneof![Just(None), Just(Some(()))];
    let on_stage_timeout =
        prop_oneof![Just(StageTimeoutAction::Hold), Just(StageTimeoutAction::Continue)];
    (on_stage_timeout, references).prop_map(|(on_stage_timeout, references)| {
        let references = references.map(|()| Arc::new(Namesakes) as Arc<dyn ReferenceExtractor>);
        gated(on_stage_timeout, references)
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    No,
    Yes,
}

/// A client's answers to responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    Accepts,
    Rejects,
    /// Accepts every other response.
    Wavers,
}
