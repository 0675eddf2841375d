//! Requests to the API server.
//!
//! | file | content |
//! |---|---|
//! | `options.rs` | choice of a cluster and of its objects |
//! | `client.rs` | reading and watching one kind of object in a namespace, writing |
//! | `scope_watch.rs` | watch of one kind of object in a namespace, also while it is denied |
//! | `token_file.rs` | token of the account in a file |
//! | `error.rs` | failures, with the verb, the resource and the namespace |

mod client;
mod error;
mod options;
mod scope_watch;
mod token_file;

pub use self::{client::KubeClient, error::KubeError, options::KubeOptions};
pub(crate) use self::{
    client::{ObjectWatch, Place, Scope, WatchItem},
    error::KubeErrorKind,
    scope_watch::ScopeWatch,
};
