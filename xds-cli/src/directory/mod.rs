//! Resources in the files of a directory.
//!
//! | file | what it does |
//! |---|---|
//! | `parse.rs` | one file into its resources |
//! | `sources.rs` | what each file last said, and what it last said that was good |
//! | `refused.rs` | what is not served though each file is good by itself |
//! | `findings.rs` | what is wrong with resources that are good by themselves |
//! | `follow.rs` | all of it in a loop, into a management server |
//!
//! Reading and watching files is in `xds-fs`.

mod findings;
mod follow;
mod parse;
mod refused;
mod sources;

pub(crate) use self::{
    findings::{FileFinding, findings},
    follow::{Dangling, Demands, Followed, ReadyNews, Reload},
    parse::Key,
    refused::{MaxRemoval, Refused, Removal},
    sources::{FileError, Sources},
};
