//! Reading and writing of the protocol's messages in place, without decoding them into structs.
//!
//! A response with a hundred thousand resources is never decoded as a whole. [`walk`] steps over
//! fields; [`response`], [`delta_response`] and [`request`] read the messages of the protocol;
//! [`name_lists`] reads the names of a request in parts; [`resource`] and [`resource_error`] read
//! the parts of responses; and [`encode`] writes them.

pub(crate) mod delta_response;
pub(crate) mod encode;
pub(crate) mod name_lists;
pub(crate) mod request;
mod request_fields;
pub(crate) mod resource;
pub(crate) mod resource_error;
pub(crate) mod response;
pub(crate) mod walk;

pub use walk::Malformed;
