//! Encoding of resources and response bodies.

pub(crate) mod body;
pub(crate) mod resource_message;
