//! The frame walk: protobuf read where it lies and written straight into the frame.
//!
//! A response of a hundred thousand resources is never decoded. [`walk`] steps over fields,
//! [`response`], [`delta_response`] and [`request`] know the messages of the protocol, [`resource`] and
//! [`resource_error`] what lies in them, and [`encode`] writes them.

pub(crate) mod delta_response;
pub(crate) mod encode;
pub(crate) mod request;
pub(crate) mod resource;
pub(crate) mod resource_error;
pub(crate) mod response;
pub(crate) mod walk;

pub use walk::Malformed;
