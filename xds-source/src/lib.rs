//! Sources of the resources of a management server.
//!
//! A source is a place where somebody else keeps the resources: a directory, etcd, Kubernetes. It is
//! read as a whole once, and then watched from that revision. [`Source`] is the contract, and
//! [`Follower`] decides when to read, to watch and to wait, without input, output or a clock.
//!
//! | file | content |
//! |---|---|
//! | `contract.rs` | sources, objects, changes and errors |
//! | `follower.rs` | state machine: list, watch, resume, back off |
//! | `feedback.rs` | state machine: which rejection by clients is to be written to the source |

#![deny(missing_docs)]

mod contract;
mod feedback;
mod follower;
#[cfg(not(feature = "zoo"))]
mod zoo;
#[cfg(feature = "zoo")]
#[doc(hidden)]
pub mod zoo;

pub use contract::{
    Change, Content, Document, List, Object, ObjectChange, ObjectId, Revision, Source, SourceError,
    WatchError,
};
pub use feedback::{FeedbackPlan, FeedbackWrite, Rejection};
pub use follower::{Follower, FollowerOptions, Step};
