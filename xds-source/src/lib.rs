//! Sources of the resources of a management server.
//!
//! A source is an external place that stores the resources: a directory, etcd, or Kubernetes. It is
//! listed once, and then watched from the revision of that list. [`Source`] is the contract that
//! every source implements. [`Follower`] is a state machine, without I/O or a clock, that decides
//! when to list, to watch and to wait.
//!
//! | file | content |
//! |---|---|
//! | `contract.rs` | sources, objects, changes and errors |
//! | `follower.rs` | state machine: list, watch, resume, back off |
//! | `feedback.rs` | state machine: which rejection is to be written to the source |
//! | `directory.rs` | directory as a source |
//! | `files.rs`, `notices.rs` | its files as objects, and its noticed changes |
//! | `rollouts/` | places for the state of rollouts, and a directory as one |
//!
//! | feature | adds |
//! |---|---|
//! | `directory` | `DirectorySource`, a directory as a source; `RolloutDirectory`, state of rollouts |
//! | `zoo` | intentional bugs, for tests of the simulation; no program needs it |

#![deny(missing_docs)]
// Code that may panic states why it cannot.
#![cfg_attr(
    not(test),
    warn(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

mod contract;
#[cfg(feature = "directory")]
mod directory;
mod feedback;
#[cfg(feature = "directory")]
mod files;
mod follower;
#[cfg(feature = "directory")]
mod notices;
mod rollouts;
#[cfg(not(feature = "zoo"))]
mod zoo;
#[cfg(feature = "zoo")]
#[doc(hidden)]
pub mod zoo;

pub use contract::{
    Change, Content, Document, List, Object, ObjectChange, ObjectId, Revision, Source, SourceError,
    WatchError,
};
#[cfg(feature = "directory")]
pub use directory::DirectorySource;
pub use feedback::{FeedbackPlan, FeedbackWrite, RejectedBy, Rejection};
#[cfg(feature = "directory")]
pub use files::{FORCE_FILE, Subdirectories, read_directory};
pub use follower::{Follower, FollowerOptions, Step};
#[cfg(feature = "directory")]
pub use rollouts::RolloutDirectory;
pub use rollouts::{
    ContentsManifest, EndedRollout, InvalidEnd, InvalidManifest, MAX_ENDED, ReportedProgress,
    RolloutStore, StoreFuture, StoreNews, StoreWatch, StoredResource, decode_contents,
    encode_contents,
};
