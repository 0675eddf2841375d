//! Worlds of rollouts: replicas that share one rollout, and clients that connect to any of them.
//!
//! The source is simulated: it delivers changes and states with a delay, and stores states by
//! compare-and-set. Servers, rollouts and clients are the code that ships. A run makes random
//! operations, repairs everything, and requires that all agree.
//!
//! | rule | meaning |
//! |---|---|
//! | cohort only | A client observes a candidate only if its cohort was reached, or the change completed. A halted rollout touches nobody else. |
//! | equal to before | After a rollback, the views of a replica are equal to what they were before. |
//! | forward only | In one rollout, a client of a replica moves to the candidate at most once, and back only at its end. |
//! | same side | The side of a client is that of its node and the step, also after it has connected again. |
//! | rolls back at once | After the rejection of a client, no client of that replica sees the candidate. |
//! | blames its own change | A rollout is not halted by the rejection of a response from before it. |
//! | applied for all | A change that is applied during a rollout is in all views, and a completed rollout keeps it. |
//! | never less than a guard allows | No view has less than the guard of the source requires. |
//! | every rollout ends | Once everything is repaired and nobody gives commands, no rollout is under way unless it waits for a command. |
//! | convergence | In the end, replicas and clients have the change that completed last. |
//!
//! ```
//! let summary = xds_sim::rollouts::check(0..20);
//! assert_eq!(summary.runs, 20);
//! ```

mod check;
mod clients;
mod oracle;
mod storm;
mod world;

pub use self::check::{RolloutOutcome, RolloutSummary, check, replay, run_seed, shrink};
