//! Deterministic simulation of xDS in virtual time.
//!
//! A [`World`] contains up to a hundred clients, which use up to four resource types, and up to
//! three servers, either this project's or a [user-defined one](ControlPlane). It also contains the
//! network links between them, the watchers of each client and the resource store of each server.
//! No run waits for real time: the virtual clock jumps to the next event, so a run takes
//! milliseconds and is reproducible. Every decision of a run is drawn from one
//! [tape of choices](tape), which is filled from a seed, a text or a fuzzer's bytes.
//! [Oracles](mod@oracle) check every event against the rules of the protocol. A run that breaks a
//! rule is [shrunk](shrink()) to a minimal run that breaks the same rule.
//!
//! ```text
//!  seed, tape or bytes ─▶ Choices ─▶ Options, and a scenario: storm, or one's own
//!                                        │
//!   Application ◀─ notices ─ Client ◀─ links, faults ─▶ Server or ControlPlane ◀─ changes
//!                              │             │                │
//!                              └────── events, to oracles and the trace ───▶ Outcome
//! ```
//!
//! A [`storm`](storm()) is a generated scenario: applications, operators and the network do
//! anything that the [`Options`] of the run allow. Then all faults are repaired, and the
//! participants must agree within a time limit, stop sending messages, and release all state.
//!
//! ```
//! use xds_sim::{Config, check, storm};
//!
//! let report = check(&Config::default().with_runs(20), storm);
//! assert_eq!(report.runs, 20);
//! ```
//!
//! A user-defined [`Application`] receives the notifications of a client's watches
//! (`examples/watcher.rs`). A user-defined [`ControlPlane`] replaces this project's server
//! (`examples/control_plane.rs`). A user-defined scenario is a function:
//!
//! ```
//! use std::time::Duration;
//! use xds_sim::{Config, World, check, storm::settle};
//!
//! let scenario = |world: &mut World| {
//!     world.watch(0, 0, Some("r0"));
//!     world.advance(Duration::from_secs(60));
//!     world.set(0, "r0", "created late");
//!     settle(world); // and it arrives all the same
//! };
//! check(&Config::default().with_runs(20), scenario);
//! ```
//!
//! With the feature `stack`, the code that ships runs in virtual time instead of the cores alone: the
//! drivers, gRPC channels and services, REST, files, and programs that use them
//! (`examples/stack_app.rs`). The module `stack` describes it:
//!
#![cfg_attr(feature = "stack", doc = "```")]
#![cfg_attr(not(feature = "stack"), doc = "```ignore")]
//! use xds_core::{client::Notice, types::CLUSTER};
//! use xds_sim::{Toy, app};
//!
//! app(|client| async move {
//!     let mut watch = client.watch_untyped(CLUSTER, "web");
//!     loop {
//!         let notice = watch.next().await.expect("the client lives").expect("a valid watch");
//!         // Errors are reported while the server is away.
//!         if let Notice::Changed(Ok(_)) = notice {
//!             return;
//!         }
//!     }
//! })
//! .with_resource(CLUSTER, "web", Toy::bytes("web", "content"))
//! .check(0..20);
//! ```
//!
//! Resources contain a text. They are encoded as a [`Toy`] under the type URL of clusters,
//! endpoints, listeners or routes; applications read the text with [`Toy::text_of`]. Clients reject
//! a resource whose text begins with `bad`.
//!
//! Further rules are checked by a user-defined [`Oracle`](oracle::Oracle)
//! ([`Config::with_oracle`]). [`sometimes`] and [`Config::with_situation`] require that the runs
//! reach a given situation.
//!
//! [`check`](check()) reads `XDS_SIM_SEED`, `XDS_SIM_RUNS` and `XDS_SIM_TAPE` from the environment,
//! which select runs, `XDS_SIM_TWICE=1`, which compares two runs of each seed, and `XDS_SIM_HTML`, the
//! directory for the timeline of a failed run.
//!
//! `docs/SIMULATION.md` in the repository describes the command line and how to read and reproduce
//! a failure.
//!
//! [`script`] runs protocol scenarios that are written as text files with the expected output. They
//! use a [`Pair`](script::pair::Pair): one client, one server and the link between them.

#![deny(missing_docs)]

pub mod check;
pub mod effects;
pub mod options;
pub mod oracle;
#[cfg(feature = "replicas")]
pub mod replicas;
pub mod rollouts;
pub mod script;
pub mod situations;
#[cfg(feature = "stack")]
pub mod stack;
pub mod status_text;
pub mod storm;
pub mod tape;
mod toy;
pub mod trace;
pub mod wire_text;
pub mod world;

#[cfg(feature = "stack")]
pub use stack::{app, server_app};

pub use check::{
    Config, Failure, Outcome, Summary, check,
    exhaust::exhaust,
    record_seed, record_tape, replay, run_seed,
    shrink::{self, shrink},
};
pub use effects::{Effect, Effects};
pub use options::Options;
pub use situations::{Situation, Situations};
pub use storm::storm;
pub use tape::Tape;
pub use toy::{Toy, ToyType};
pub use world::{Application, ControlPlane, Reply, World, actor::sometimes};
