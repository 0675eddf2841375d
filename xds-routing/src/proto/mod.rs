//! The wire schema of the resources, as far as routing reads it.
//!
//! Field numbers and types are those of the Envoy v3 API; what a message here does not know is passed
//! over when it is decoded, and stays in the resource's bytes. Messages that the transport speaks of as
//! well, such as [`Locality`](xds_core::proto::Locality) and the well-known types, are the core's.
//!
//! `generated/` is written by `cargo xtask gen` from the `.proto` files in the repository's `proto/`
//! folder, as that of the core is.

#[rustfmt::skip]
#[allow(
    deprecated,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::use_self
)]
mod generated;

pub use generated::envoy;
