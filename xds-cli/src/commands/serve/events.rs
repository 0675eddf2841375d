//! Events of `xds serve`.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use xds_core::{
    guards::RefusedChange,
    rollout::{RolloutId, RolloutProgress},
    server::Applied,
};
use xds_tokio::server::BoundAddress;

use super::load_reports::ReportedLoad;
use crate::{
    args::SourceAddress,
    diagnostic::Diagnostic,
    directory::{ChangedResources, FileError, MovedClients, Refused},
    failure::Failure,
    server_table::RowChanges,
};

#[derive(Clone, Copy, Debug)]
pub(crate) enum ServeEvent<'a> {
    /// The server listens. This is always the first event. Requests are answered if `is_ready`.
    Serving {
        directory: &'a Path,
        listen: &'a BoundAddress,
        /// Address of REST-JSON.
        rest: Option<&'a BoundAddress>,
        /// Address of client status discovery.
        csds: Option<&'a BoundAddress>,
        /// Address of metrics.
        metrics: Option<SocketAddr>,
        /// Directory of exported files.
        export: Option<&'a Path>,
        resources: usize,
        is_ready: bool,
    },
    /// The server answers no requests until these files have been valid once.
    NotReady { files: &'a [PathBuf] },
    /// All files have been valid once: the server answers requests.
    Ready { resources: usize },
    /// A file is broken; its last valid state stays in use.
    FileError(&'a FileError),
    /// A file is valid again after its errors were reported, or the source can be read again.
    Repaired(&'a Path),
    /// A client has reported the load of a cluster.
    LoadReport(&'a ReportedLoad),
    /// A resource that is about to be served has a dangling reference, or a rule or a view has no
    /// effect.
    Finding(&'a Diagnostic),
    /// The file of views or of the policy is invalid; the last valid one stays in use, if there is one.
    InvalidSettings(&'a [Diagnostic]),
    /// The resources of the views are rejected; the last views stay in use.
    ViewsRejected,
    /// The file of views has changed, and is in use.
    ViewsUsed(MovedClients),
    /// Guards refuse the change of the files; the last state stays served.
    Refused { refused: &'a Refused, source: &'a SourceAddress, resources: usize },
    /// A change that guards refuse is served, because it was forced.
    Forced(&'a RefusedChange),
    /// The files changed, and the change is served.
    Reloaded { resources: usize, applied: Applied, changes: &'a ChangedResources },
    /// The files changed, and the change is rolled out.
    RolloutBegins { rollout: RolloutId, changes: &'a ChangedResources },
    /// A rollout has progressed or ended.
    Rollout(&'a RolloutProgress),
    /// The state of a subscription changed.
    Status(&'a RowChanges),
}

/// Output format of events.
pub(super) trait ServePrinter {
    fn print(&mut self, event: ServeEvent<'_>) -> Result<(), Failure>;
}
