//! Integration tests of `xds-routing`, in one binary because that builds faster.

mod balancer;
#[cfg(feature = "handle")]
mod behind_handle;
mod bootstrap;
mod client;
mod dependencies;
mod explain;
mod lb_config;
mod lb_routing;
mod lb_tree;
mod matching;
mod network;
mod rbac;
mod reference;
mod router;
mod service_config;
mod serving;
mod sessions;
mod support;
mod validation;
mod warming;
mod weighted_target;
