//! Deterministic simulation of xDS in virtual time.
//!
//! A [`World`] is some clients and servers, and the links, watchers and stores between and behind them: up to a
//! hundred clients, of up to four types from up to three servers, which are ours or [one's own](ControlPlane). Nothing
//! in it waits: time jumps from one thing that is due to the next, so a run is over in milliseconds and is the same
//! every time. All that could go one way or another is asked of one
//! [tape of choices](tape), which a seed, a text or a fuzzer's bytes fill; [oracles](mod@oracle) judge
//! everything that happens; and a run in which a rule is broken is made [smaller](shrink()) until little is
//! left of it but the fault.
//!
//! ```text
//!  seed, tape or bytes ─▶ Choices ─▶ Options, and a scenario: storm, or one's own
//!                                        │
//!   Application ◀─ notices ─ Client ◀─ links, faults ─▶ Server or ControlPlane ◀─ changes
//!                              │             │                │
//!                              └────── events, to oracles and the trace ───▶ Outcome
//! ```
//!
//! A [`storm`](storm()) needs no author: applications, operators and the network do whatever the
//! [`Options`] of the run allow, everything is put right, and all have to agree within a bound, fall silent,
//! and leave nothing behind.
//!
//! ```
//! use xds_sim::{Config, check, storm};
//!
//! let report = check(&Config::default().with_runs(20), storm);
//! assert_eq!(report.runs, 20);
//! ```
//!
//! An [`Application`] of one's own hears what the watches of a client are told
//! (`examples/watcher.rs`), a [`ControlPlane`] of one's own takes the place of our server
//! (`examples/control_plane.rs`), and a scenario of one's own is a function:
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
//! What resources say is a text, encoded as a [`Toy`] under the type URL of clusters, endpoints, listeners or routes: an
//! application reads it with [`Toy::text_of`]. A text that begins with `bad` is invalid to all clients.
//!
//! What else has to hold is said by an [`Oracle`](oracle::Oracle) of one's own
//! ([`Config::with_oracle`]), and what runs have to come to by [`sometimes`] and [`Config::with_situation`].
//!
//! [`check`](check()) takes `XDS_SIM_SEED`, `XDS_SIM_RUNS` and `XDS_SIM_TAPE` from the environment.
//!
//! `docs/SIMULATION.md` in the repository tells how to make runs from the command line, read a failure and have it again.
//!
//! [`script`] runs protocol scenarios written as text, whose printed answers are the expectation, on a
//! [`Pair`](script::pair::Pair): one client, one server and the link between them.

#![deny(missing_docs)]

pub mod check;
pub mod effects;
mod exhaust;
pub mod options;
pub mod oracle;
mod run;
pub mod script;
pub mod shrink;
pub mod situations;
pub mod status_text;
pub mod storm;
pub mod tape;
mod toy;
pub mod trace;
pub mod wire_text;
mod within;
pub mod world;

pub use check::{
    Config, Failure, Outcome, Report, check, record_seed, record_tape, replay, run_seed,
};
pub use effects::{Effects, Kind};
pub use exhaust::exhaust;
pub use options::Options;
pub use shrink::shrink;
pub use situations::{Situation, Situations};
pub use storm::storm;
pub use tape::Tape;
pub use toy::{Toy, ToyType};
pub use within::sometimes;
pub use world::{Application, ControlPlane, Reply, World};
