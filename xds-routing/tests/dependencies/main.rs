//! Dependency manager on a client core that is connected to a server core.

#[path = "../support/mod.rs"]
mod support;

mod aggregates;
#[cfg(feature = "handle")]
#[path = "../support/behind_handle.rs"]
#[allow(dead_code, reason = "some of it is for who has timers")]
mod behind_handle;
mod changes;
mod follow;
#[cfg(feature = "handle")]
mod handle;
#[path = "../support/network.rs"]
mod network;
mod resources;
mod rig;
mod subscriptions;
mod swap;
mod trouble;
