//! Integration tests of `xds-fs`, in one binary because that builds faster.

mod changes;
mod client;
mod contents;
mod export;
mod support;
