//! Resources in the files of a directory, or in another source.
//!
//! | file | contents |
//! |---|---|
//! | `parse.rs` | parsing of one file into resources |
//! | `sources.rs` | the newest and the last valid state of each file |
//! | `rejected.rs` | states that are rejected although each file is valid |
//! | `findings.rs` | findings about valid resources |
//! | `places.rs` | lines and columns of these findings |
//! | `origin.rs` | reading the source and waiting for its changes |
//! | `remote.rs` | the same for a source in another process |
//! | `confirm.rs` | confirmation that the server is up to date with such a source |
//! | `follow.rs` | the task that applies the changes to a management server |
//!
//! Reading and watching files is done by `xds-fs`.

#[cfg(any(feature = "etcd", feature = "kube"))]
mod confirm;
mod findings;
mod follow;
mod origin;
mod parse;
mod places;
mod rejected;
#[cfg(any(feature = "etcd", feature = "kube"))]
mod remote;
mod sources;

#[cfg(feature = "etcd")]
pub(crate) use self::parse::parse_value;
#[cfg(any(feature = "etcd", feature = "kube"))]
pub(crate) use self::remote::Remote;
pub(crate) use self::{
    findings::findings,
    follow::{DanglingReferences, FollowOptions, FollowedSource, ReadinessChange, Reload},
    origin::SourceReader,
    parse::{Key, MOST_ERRORS, Problems, parse as parse_file},
    rejected::{MaxRemoval, Rejected, Removal},
    sources::{ChangedResources, FileError, Sources},
};
#[cfg(feature = "kube")]
pub(crate) use self::{findings::has_word, sources::Owners};
