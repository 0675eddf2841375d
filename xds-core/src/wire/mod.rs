//! The frame walk: protobuf read where it lies and written straight into the frame.
//!
//! A response of a hundred thousand resources is never decoded. [`walk`] steps over fields,
//! [`response`] and [`request`] know the two messages of the protocol, [`encode`] writes them.

pub(crate) mod encode;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod walk;

pub use walk::Malformed;
