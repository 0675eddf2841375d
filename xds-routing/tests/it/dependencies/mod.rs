//! Dependency manager on a client core that is connected to a server core.

mod aggregates;
mod changes;
mod follow;
#[cfg(feature = "handle")]
mod handle;
pub(crate) mod resources;
pub(crate) mod rig;
mod subscriptions;
mod swap;
mod trouble;
