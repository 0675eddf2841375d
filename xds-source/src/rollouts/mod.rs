//! Stores for the state of rollouts.
//!
//! | file | content |
//! |---|---|
//! | `store.rs` | contract of such a place |
//! | `contents.rs` | the resources at one number, as bytes |
//! | `directory.rs` | directory of one server |

mod contents;
#[cfg(feature = "directory")]
mod directory;
mod store;

#[cfg(feature = "directory")]
pub use self::directory::RolloutDirectory;
pub use self::{
    contents::{
        ContentsManifest, InvalidManifest, StoredResource, decode_contents, encode_contents,
    },
    store::{
        EndedRollout, InvalidEnd, MAX_ENDED, ReportedProgress, RolloutStore, StoreFuture,
        StoreNews, StoreWatch,
    },
};
