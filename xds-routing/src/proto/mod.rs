//! Protobuf messages of the resources, with the fields that routing reads.
//!
//! Field numbers and types are those of the Envoy v3 API. Unknown fields are ignored when a message
//! is decoded, and remain in the resource's bytes. Messages that the xDS transport also uses, such
//! as [`Locality`](xds_core::proto::Locality), and the well-known types come from `xds-core`.
//!
//! `cargo xtask gen` generates `generated/` from the `.proto` files in the repository's `proto/`
//! folder.

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

pub use generated::{envoy, xds};
