//! Reports on clients and views: client status (CSDS), contents, convergence and rejections.

pub(crate) mod contents;
pub(crate) mod convergence;
pub(crate) mod csds;
pub(crate) mod rejections;
