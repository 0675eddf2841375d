//! Objects of the Kubernetes API.
//!
//! | file | content |
//! |---|---|
//! | `names.rs` | labels, annotations, permissions, and names of objects in messages |
//! | `types.rs` | objects, with the fields that are used |
//! | `observed.rs` | object of any kind |
//! | `slice.rs` | endpoints of an EndpointSlice |

mod names;
mod observed;
mod slice;
mod types;

pub use self::names::{
    FORCE_ANNOTATION, PERMISSIONS, Permission, REJECTED_ANNOTATION, RESOURCES_LABEL,
    ROLLOUT_PERMISSIONS, SERVICE_ANNOTATION, VIEW_ANNOTATION,
};
#[cfg(test)]
pub(crate) use self::slice::{SliceEndpoint, SlicePort};
pub(crate) use self::{
    names::{Key, Kind},
    observed::Observed,
    slice::{EndpointState, SERVICE_NAME, Slice, is_tcp},
    types::{ConfigMap, EndpointSlice, KubeLease, Metadata, Service, ServicePort},
};
