//! Kubernetes as a source of xDS resources, on tokio.
//!
//! - [`KubeSource`] reads and watches resources in `ConfigMaps`, and makes those that gRPC clients
//!   need to reach Services without a proxy: the [`Source`](xds_source::Source) of a management
//!   server.
//! - [`Feedback`] writes rejections by clients to the objects whose resources they reject.
//! - [`KubeRollouts`] is the state of rollouts that the servers of a cluster share.
//! - [`KubeClient`] is the connection to the API server, made from a kubeconfig or from the service
//!   account of a Pod.
//!
//! | file | content |
//! |---|---|
//! | `objects/` | objects of the API, labels, annotations and names |
//! | `translate/` | resources of objects, as pure functions |
//! | `state.rs` | objects that are known, and what changes with an event; no I/O |
//! | `api/` | requests to the API server |
//! | `scopes.rs` | kinds of objects in namespaces: how far each is known, and whether it is denied; no I/O |
//! | `source.rs` | listing and watching all kinds |
//! | `feedback.rs` | rejections as Events and as an annotation |
//! | `rollouts/` | state of rollouts in Leases and ConfigMaps, which servers share |

#![deny(missing_docs)]
// What may panic has to state why it cannot.
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

mod api;
mod feedback;
mod objects;
mod rollouts;
mod scopes;
mod source;
mod state;
mod translate;

pub use self::{
    api::{KubeClient, KubeError, KubeOptions},
    feedback::Feedback,
    objects::{
        FORCE_ANNOTATION, PERMISSIONS, Permission, REJECTED_ANNOTATION, RESOURCES_LABEL,
        ROLLOUT_PERMISSIONS, SERVICE_ANNOTATION, VIEW_ANNOTATION,
    },
    rollouts::KubeRollouts,
    source::KubeSource,
};
pub use xds_source::{RejectedBy, Rejection};
