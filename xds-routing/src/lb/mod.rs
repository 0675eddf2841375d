//! LB policies as state machines: they know which children there are and how each is, and say who gets a
//! call. What a child is, and what its picker does, is up to whoever drives them.
//!
//! [`Router`](crate::router::Router) needs none of this, and is what is recommended (X46).

mod children;
mod config;
mod routing;
mod tree;
mod weighted_target;

pub use self::{
    children::{ChildChange, ConnectivityState},
    config::{InvalidPolicy, LeafConfig, PolicyConfig, PolicyRegistry},
    routing::{NoPolicyRoute, PolicyRoute, RoutedPick, RoutingConfig, XdsRouting},
    tree::{LeafChange, LeafId, PolicyTree, TreePick},
    weighted_target::{Pick, Target, WeightedTarget},
};
