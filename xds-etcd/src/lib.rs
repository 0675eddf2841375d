//! etcd as a source of xDS resources, for any async runtime.
//!
//! - [`EtcdSource`] is the [`Source`](xds_source::Source) of a management server. It reads and
//!   watches the resources below a prefix.
//! - [`EtcdStore`] writes resources: all changes of a call or none, and never over the changes of
//!   another writer.
//! - [`Feedback`] writes which resources clients reject, and why.
//! - [`EtcdRollouts`] stores the state of rollouts, which the servers of a prefix share.
//! - [`Registration`] registers an endpoint of a cluster for as long as the process lives.
//!
//! [`EtcdClient`] is the connection that they share. It speaks the gRPC interface of
//! [etcd v3](https://etcd.io/docs/latest/learning/api/), with messages that are generated from this
//! project's `proto/etcd/`.
//!
//! | file | content |
//! |---|---|
//! | `client/` | connection to a member, authentication, switch to another member |
//! | `range.rs`, `watch.rs` | reads at one revision; conversion of watch responses to transactions |
//! | `layout.rs` | names of keys |
//! | `source.rs` | resources and registrations as objects of a source |
//! | `store.rs` | reading and writing of all resources |
//! | `lease.rs` | keys under a lease that is renewed |
//! | `registration.rs`, `endpoint.rs` | endpoints under leases |
//! | `rollouts/` | state of rollouts, which servers share |
//! | `feedback.rs` | rejections by clients, written to the cluster |
//! | `proto/` | messages |

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

mod client;
mod endpoint;
mod feedback;
mod layout;
mod lease;
mod proto;
mod range;
mod registration;
mod rollouts;
mod source;
mod store;
mod watch;

pub use self::{
    client::{EtcdClient, EtcdError, EtcdOptions, User},
    endpoint::Endpoint,
    feedback::Feedback,
    registration::Registration,
    rollouts::EtcdRollouts,
    source::{EtcdSource, content_of_value},
    store::{Diff, EtcdStore, Prune, Stored, StoredName, TransactionLimits, WriteError},
};
