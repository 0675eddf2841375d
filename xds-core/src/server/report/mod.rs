//! Reports on clients and views: CSDS, contents, convergence, rejections.

pub(crate) mod contents;
pub(crate) mod convergence;
pub(crate) mod csds;
pub(crate) mod rejections;
