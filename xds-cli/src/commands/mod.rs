//! Implementations of the commands.

pub(crate) mod check;
pub(crate) mod compat;
pub(crate) mod convert;
pub(crate) mod demo;
#[cfg(feature = "etcd")]
pub(crate) mod etcd;
pub(crate) mod get;
#[cfg(feature = "kube")]
pub(crate) mod kube;
pub(crate) mod load;
pub(crate) mod rollout;
pub(crate) mod route;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod sim;
pub(crate) mod status;
pub(crate) mod watch;
