//! Resources of objects, as pure functions.
//!
//! | file | content |
//! |---|---|
//! | `service.rs` | resources of a Service for gRPC clients |
//! | `endpoints.rs` | endpoints of a port of a Service, from its EndpointSlices |
//! | `config_map.rs` | documents in a ConfigMap |
//! | `messages.rs` | the messages of the resources, with the fields that are set |

mod config_map;
mod endpoints;
mod messages;
mod service;

pub(crate) use self::{
    config_map::{config_map, keys_without_resources},
    service::service,
};
