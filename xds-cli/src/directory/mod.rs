//! Resources in the files of a directory, or in another source.
//!
//! | file | contents |
//! |---|---|
//! | `parse.rs` | parsing of one file into resources |
//! | `sources/` | the newest and the last valid state of each file, and the resources of each view |
//! | `rejected.rs` | states that are rejected although each file is valid |
//! | `findings.rs` | findings about valid resources |
//! | `places.rs` | lines and columns of these findings |
//! | `origin.rs` | reading the source and waiting for its changes |
//! | `files.rs` | directory with resource files, and its subdirectories as views |
//! | `remote.rs` | reading a source in another process, and waiting for its changes |
//! | `confirm.rs` | confirmation that the server is up to date with a remote source |
//! | `follow.rs` | the task that applies the changes to a management server |
//! | `examine.rs` | decision whether a state can be served |
//! | `reload.rs` | requirements for the resources, and the outcome of a change |
//! | `selection.rs` | the file of views, and the views of the connected clients |
//! | `metrics.rs` | counters of the source |
//!
//! Reading and watching files is done by `xds-fs`.

#[cfg(any(feature = "etcd", feature = "kube"))]
mod confirm;
mod examine;
mod files;
mod findings;
mod follow;
mod metrics;
mod origin;
mod parse;
mod places;
mod rejected;
mod reload;
#[cfg(any(feature = "etcd", feature = "kube"))]
mod remote;
mod selection;
mod sources;

#[cfg(feature = "etcd")]
pub(crate) use self::parse::parse_value;
#[cfg(any(feature = "etcd", feature = "kube"))]
pub(crate) use self::remote::Remote;
pub(crate) use self::{
    files::{Subdirectories, read_directory},
    findings::findings,
    follow::FollowedSource,
    metrics::SourceMetrics,
    origin::SourceReader,
    parse::{Key, MOST_ERRORS, Problems, parse as parse_file},
    rejected::{MaxRemoval, Rejected, Removal},
    reload::{DanglingReferences, FollowOptions, ReadinessChange, Reload, ViewsChange},
    selection::{FollowedViews, MovedClients, ViewSelection},
    sources::{ChangedResources, FileError, Sources},
};
#[cfg(any(feature = "etcd", feature = "kube"))]
pub(crate) use self::{findings::has_word, sources::Owners};
