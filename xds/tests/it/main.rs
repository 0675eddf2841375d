//! Integration tests of `xds`, in one binary because that builds faster.
#![cfg(all(feature = "client", feature = "server", feature = "tokio"))]

mod client_and_server;
mod lifecycle;
mod names;
mod support;
mod watch_events;
