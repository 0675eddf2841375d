//! Resources in the files of a directory, or in another source.
//!
//! | file | contents |
//! |---|---|
//! | `parse.rs` | parsing of one file into resources |
//! | `sources/` | the newest and the last valid state of each file, and the resources of each view |
//! | `refused.rs` | changes that guards refuse although each file is valid |
//! | `findings.rs` | findings about valid resources |
//! | `places.rs` | lines and columns of these findings |
//! | `reader.rs` | reading the source and waiting for its changes |
//! | `confirm.rs` | confirmation that the server is up to date with a source that replicas share |
//! | `follow.rs` | the task that applies the changes to a management server |
//! | `examine.rs` | decision whether a state can be served |
//! | `guarded.rs` | judgement of a change by the guards |
//! | `rollouts.rs` | rollouts that the servers of a source, or an earlier process, have agreed on |
//! | `rolled_out.rs` | changes that are rolled out |
//! | `reload.rs` | requirements for the resources, and the outcome of a change |
//! | `selection.rs` | the file of views, and the views of the connected clients |
//! | `metrics.rs` | counters of the source |
//!
//! Sources are those of `xds-source`, `xds-etcd` and `xds-kube`.

mod confirm;
mod examine;
mod findings;
mod follow;
mod guarded;
#[cfg(test)]
mod memory_source;
mod metrics;
mod parse;
mod places;
mod reader;
mod refused;
mod reload;
mod rolled_out;
mod rollouts;
#[cfg(test)]
mod rollouts_world;
mod selection;
mod sources;

#[cfg(feature = "etcd")]
pub(crate) use self::parse::parse_value;
pub(crate) use self::{
    findings::findings,
    follow::FollowedSource,
    guarded::guards_without_effect,
    metrics::SourceMetrics,
    parse::{Key, MOST_ERRORS, Problems, parse as parse_file},
    reader::SourceReader,
    refused::Refused,
    reload::{FollowOptions, ReadinessChange, Reload, ViewsChange},
    rollouts::{FollowedRollouts, KnownRollouts},
    selection::{FollowedViews, MovedClients, ViewSelection},
    sources::{ChangedResources, FileError, Sources},
};
#[cfg(any(feature = "etcd", feature = "kube"))]
pub(crate) use self::{findings::has_word, reload::FeedbackState, sources::Owners};
