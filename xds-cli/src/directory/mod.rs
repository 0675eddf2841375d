//! Resources in the files of a directory.
//!
//! | file | what it does |
//! |---|---|
//! | `files.rs` | reads the files there are at this moment |
//! | `parse.rs` | one file into its resources |
//! | `sources.rs` | what each file last said, and what it last said that was good |
//! | `findings.rs` | what is wrong with resources that are good by themselves |
//! | `watcher.rs`, `links.rs` | tell when something happened to the directory, or to what it links to |
//! | `follow.rs` | all of it in a loop, into a management server |

mod files;
mod findings;
mod follow;
mod links;
mod parse;
mod sources;
mod watcher;

pub(crate) use self::{
    files::{File, list},
    findings::{FileFinding, findings},
    follow::{Followed, Reload},
    parse::Key,
    sources::{FileError, Sources},
};
