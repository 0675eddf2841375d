//! Integration tests of `xds-format`, in one binary because that builds faster.

#![cfg(feature = "envoy")]

mod accept;
mod all_errors;
mod any;
mod check;
mod common;
mod compat;
mod cross_version;
mod deprecated;
mod errors;
mod messages;
mod print;
mod robust;
mod round_trip;
mod schema;
mod secrecy;
mod spellings;
mod validate;
