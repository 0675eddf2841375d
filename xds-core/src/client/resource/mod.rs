//! Encoded resources: their names, their wrapper message and fields of API version 2.

pub(crate) mod canonical_name;
pub(crate) mod name;
pub(crate) mod unwrap;
pub(crate) mod v2_fields;
