//! Resources in the files of a directory.
//!
//! | file | contents |
//! |---|---|
//! | `parse.rs` | parsing of one file into resources |
//! | `sources.rs` | the newest and the last valid state of each file |
//! | `rejected.rs` | states that are rejected although each file is valid |
//! | `findings.rs` | findings about valid resources |
//! | `places.rs` | lines and columns of these findings |
//! | `follow.rs` | the task that applies changes of the files to a management server |
//!
//! Reading and watching files is done by `xds-fs`.

mod findings;
mod follow;
mod parse;
mod places;
mod rejected;
mod sources;

pub(crate) use self::{
    findings::findings,
    follow::{DanglingReferences, FollowOptions, FollowedDirectory, ReadinessChange, Reload},
    parse::{Key, MOST_ERRORS, Problems, parse as parse_file},
    rejected::{MaxRemoval, Rejected, Removal},
    sources::{ChangedResources, FileError, Sources},
};
