//! Implementations of the commands.

pub(crate) mod check;
pub(crate) mod compat;
pub(crate) mod demo;
pub(crate) mod get;
pub(crate) mod route;
pub(crate) mod serve;
pub(crate) mod sim;
pub(crate) mod watch;
