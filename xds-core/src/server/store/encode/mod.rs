//! Encoding of resources.

pub(crate) mod body;
pub(crate) mod resource_message;
