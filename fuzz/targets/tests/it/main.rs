//! Integration tests of `xds-fuzz-targets`, in one binary because that builds faster.

mod corpus;
mod mutations;
mod seeds;
