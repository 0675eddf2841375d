//! Kubernetes as a source of xDS resources, on tokio.
//!
//! - [`KubeSource`] is the [`Source`](xds_source::Source) of a management server. It reads and
//!   watches resources in `ConfigMaps`, and generates the resources with which gRPC clients reach
//!   Services without a proxy.
//! - [`Feedback`] writes rejections by clients to the objects whose resources they reject.
//! - [`KubeRollouts`] stores the state of rollouts, which the servers of a cluster share.
//! - [`KubeClient`] is the connection to the API server, configured by a kubeconfig or the service
//!   account of a Pod.
//!
//! | file | content |
//! |---|---|
//! | `objects/` | objects of the API, labels, annotations and names |
//! | `translate/` | conversion of objects to resources, as pure functions |
//! | `state.rs` | known objects, and the effect of events on them; no I/O |
//! | `api/` | requests to the API server |
//! | `scopes.rs` | positions and denials of each kind of object in each namespace; no I/O |
//! | `source.rs` | listing and watching all kinds |
//! | `feedback.rs` | rejections as Events and as an annotation |
//! | `rollouts/` | state of rollouts in Leases and ConfigMaps, which servers share |

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
