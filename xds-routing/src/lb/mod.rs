//! LB policies as state machines. They track their children with their states, and choose a child
//! for each call. Their owner creates the children and evaluates the pickers.
//!
//! Most channels should use [`Router`](crate::router::Router) instead, which needs no LB policies
//! for routes.
// X46

mod children;
mod config;
mod routing;
mod tree;
mod weighted_target;

pub use self::{
    children::{ChildChange, ConnectivityState},
    config::{InvalidPolicy, LeafPolicyConfig, PolicyConfig, PolicyRegistry},
    routing::{NoPolicyRoute, PolicyRoute, RoutedPick, RoutingConfig, XdsRouting},
    tree::{LeafChange, LeafId, PolicyTree, TreePick},
    weighted_target::{Pick, Target, WeightedTarget},
};
