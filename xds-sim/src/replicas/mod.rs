//! Worlds of replicas: several servers that follow one source, and clients that move between them.
//!
//! ```text
//!            source: atomic changes with revisions, compaction
//!              │ list, watch, confirmation; lag, partition
//!   ┌──────────┼──────────┐
//!   ▼          ▼          ▼
//! Follower   Follower   Follower      of `xds-source`
//! Server     Server     Server        restarts
//!   ▲          ▲          ▲
//!   └───────┬──┴──────────┘  any replica, on each new stream
//!        Client, Client, ...          lost connections, restarts
//! ```
//!
//! The source is simulated. Followers, servers and clients are the code that ships. A run draws its
//! [`ReplicaOptions`], makes random operations, repairs everything, and requires that all agree.
//!
//! | rule | meaning |
//! |---|---|
//! | never older | A client observes states of each resource in the order of the source's history, at whatever replica. |
//! | stated versions | A stream that was not confirmed shows nothing older than what its versions state. |
//! | confirmed | While the source is reachable, no stream is answered without a confirmation. |
//! | whole | A replica that answers has exactly the state of the source at the revision that it has reached. |
//! | not sent again | A client whose versions are current is sent nothing. |
//! | convergence | Once everything is repaired, clients and replicas have the state of the source. |
//!
//! A removal that the source did not make breaks the rule "never older", because no revision at or
//! after the last observed one lacks the resource.
//!
//! ```
//! use xds_sim::replicas::check::check;
//!
//! let summary = check(0..20, None);
//! assert_eq!(summary.runs, 20);
//! ```

pub mod bug;
pub mod check;
mod client;
mod drive;
mod link;
mod options;
mod oracle;
mod replica;
mod rules;
mod situations;
mod source;
mod storm;
mod world;

pub use self::{
    bug::ReplicaBug,
    options::ReplicaOptions,
    situations::{ReplicaSituation, ReplicaSituations},
};
