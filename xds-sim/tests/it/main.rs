//! Integration tests of `xds-sim`, in one binary because that builds faster.

mod endings;
mod exhaustive;
mod generated;
mod meta;
mod pictures;
mod regressions;
mod storms;
mod transports;
mod users;
mod variants;
