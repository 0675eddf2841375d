//! Integration tests of `xds-handle`, in one binary because that builds faster.

mod handle;
mod reviews;
mod rig;
mod status;
mod typed;
mod validated;
