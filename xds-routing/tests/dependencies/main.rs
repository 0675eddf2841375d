//! What a listener leads to, followed through a client core and a server core.

#[path = "../support/mod.rs"]
mod support;

mod aggregates;
mod changes;
mod follow;
#[cfg(feature = "handle")]
mod handle;
mod resources;
mod rig;
mod subscriptions;
mod swap;
mod trouble;
