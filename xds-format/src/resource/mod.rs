//! Resources: the parsed content of a file, resource names, and the check that bytes decode.

pub(crate) mod check;
pub(crate) mod document;
pub(crate) mod name;
