//! Rollouts that stop themselves: a change is served to a few clients first, then to more, and is
//! rolled back if they do not accept it.
//!
//! [`Rollout`] is a pure state machine. [`ServerRollouts`] drives a [`Server`](crate::Server) with
//! it: clients of the cohort see candidate views, which are copies with the change.
//!
//! This module is experimental. `xds serve` continues rollouts after a restart, and shares them
//! between replicas that follow one etcd prefix or Kubernetes cluster.
//!
//! ```text
//! Starting ─▶ Deploying ─▶ Soaking ─▶ Judging ──┬─▶ next step: Deploying
//!                  │          │          │      └─▶ Completed
//!                  └──────────┴──────────┴─▶ Halted (hold) or RolledBack
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `policy.rs`, `share.rs` | steps, cohorts, conditions and reactions, and their validation |
//! | `table.rs` | phases and transitions as a table |
//! | `machine.rs` | inputs and polls |
//! | `conditions.rs` | which transition is due |
//! | `shared.rs`, `state.rs` | the stored state, and agreement of replicas |
//! | `clients.rs`, `halt.rs` | sides and progress of clients; reasons of halts |
//! | `server.rs`, `events.rs` | rollouts on a server |
//! | `active.rs`, `candidate.rs`, `observations.rs` | the one under way, its views, and what clients do |
//!
//! A side is a function of a client's node and the step, so that a client that reconnects or moves to
//! another replica sees the same side. `docs/design/rollouts.md` in the repository states the
//! invariants, and what a rollout cannot know.

mod active;
mod candidate;
mod clients;
mod conditions;
mod events;
mod halt;
mod machine;
mod observations;
mod policy;
mod server;
mod share;
mod shared;
mod state;
mod table;

pub use self::{
    clients::Side,
    events::{NodeDetail, RolloutEvent, StartError},
    halt::{HaltCause, HaltReason, HaltingClient, HaltingClients},
    machine::{
        CommandError, MetricVerdict, Rollout, RolloutCommand, RolloutOutput, RolloutProgress,
    },
    policy::{
        Cohort, HaltConditions, LONGEST_WAIT, MOST_STEPS, OnHalt, OnNewer, PolicyError,
        RolloutPolicy, RolloutStep,
    },
    server::ServerRollouts,
    share::{InvalidShare, Share},
    shared::{CohortReport, InvalidReport, PeerNews, STORE_RETRY, Sharing, StoreResult},
    state::{InvalidState, RolloutId, RolloutState, StoredPhase},
    table::{Action, RolloutPhase, Trigger, transitions_as_markdown},
};
