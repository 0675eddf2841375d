//! Integration tests of `xds-core`, in one binary because that builds faster. Those of the server are in `server`, which takes as
//! long to compile as these.

mod client_contract;
mod client_files;
mod client_fleet;
mod client_globs;
mod client_late_drain;
mod client_misuse;
mod client_model;
mod client_regressions;
mod client_static;
mod client_status;
mod client_support;
mod client_types;
mod client_v2_api;
mod rollouts;
mod services;
mod xdstp;
