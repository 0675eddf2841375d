//! Requests to the API server.
//!
//! | file | content |
//! |---|---|
//! | `options.rs` | choice of a cluster and of its objects |
//! | `client.rs` | reading and watching one kind of object in a namespace, writing |
//! | `error.rs` | failures, with the verb, the resource and the namespace |

mod client;
mod error;
mod options;

pub use self::{client::KubeClient, error::KubeError, options::KubeOptions};
pub(crate) use self::{
    client::{ObjectWatch, Place, Scope, WatchItem},
    error::KubeErrorKind,
};
