//! Integration tests of `xds-rest`, in one binary because that builds faster.

mod client;
mod gateway;
mod poller;
mod sources;
mod support;
