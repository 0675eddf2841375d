//! Requirements for the resources of a source, and the outcome of a change.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use tokio::sync::{oneshot, watch};
use xds_core::{
    guards::{Guards, RefusedChange},
    references::Consistency,
    rollout::RolloutId,
    server::Applied,
};

use super::{
    metrics::SourceMetrics,
    refused::Refused,
    rollouts::FollowedRollouts,
    selection::{FollowedViews, MovedClients},
    sources::{ChangedResources, FileError, Owners},
};
use crate::{diagnostic::Diagnostic, resource_types::Validation};

/// Outcome of reading the source, or of applying a change to the server.
///
/// A reload with errors is sent before the change is applied. The change is applied once the
/// receiver has dropped the reload.
#[derive(Debug, Default)]
pub(crate) struct Reload {
    /// New errors.
    pub(crate) errors: Vec<FileError>,
    /// Files that are valid again.
    pub(crate) repaired: Vec<PathBuf>,
    /// New dangling references, and rules and views without effect.
    pub(crate) findings: Vec<Diagnostic>,
    /// Refused change of the files, if it was not reported before.
    pub(crate) refused: Option<Refused>,
    /// Reason why the change would have been refused if it had not been forced.
    pub(crate) forced: Option<RefusedChange>,
    /// Number of resources that the server has now.
    pub(crate) resources: usize,
    /// Result of applying the change, if there was one.
    pub(crate) applied: Option<Applied>,
    /// Number of the rollout of the change, if it is rolled out.
    pub(crate) rollout: Option<RolloutId>,
    /// Resources that the change concerns, if there was one.
    pub(crate) changes: ChangedResources,
    /// Set if the server has become ready, or if it waits for other files than before.
    pub(crate) readiness: Option<ReadinessChange>,
    /// Set if the file of views has changed.
    pub(crate) views: Option<ViewsChange>,
    pub(super) _reported: Option<oneshot::Sender<()>>,
}

/// Readiness of the server. A server becomes ready once every file has been valid, and stays ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadinessChange {
    /// Clients wait until these files, or the source, have been valid once.
    Waiting(Vec<PathBuf>),
    /// Requests of clients are answered from now on.
    Ready,
}

/// Change of the file of views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ViewsChange {
    /// The file has these errors. The last valid one stays in use.
    Invalid(Vec<Diagnostic>),
    /// The file is valid, and the resources of its views are rejected. The last one stays in use.
    Rejected,
    /// The file is in use, and the clients have the views that it selects.
    Used(MovedClients),
}

/// Requirements for the resources of a source.
#[derive(Debug)]
pub(crate) struct FollowOptions {
    /// Check that finds dangling references.
    pub(crate) consistency: Consistency<'static>,
    /// Rules for each change.
    pub(crate) guards: Guards,
    /// Whether a resource that proxies would reject makes its file broken.
    pub(crate) validation: Validation,
    /// Receiver of what is written to the source, if it is.
    pub(crate) feedback: Option<watch::Sender<FeedbackState>>,
    /// Views of the clients. Without them, all clients have the default view.
    pub(crate) views: Option<FollowedViews>,
    /// Rollouts of changes. Without them, all clients get a change at once.
    pub(crate) rollouts: Option<FollowedRollouts>,
    pub(crate) metrics: Arc<SourceMetrics>,
}

/// State that is written to a source.
#[derive(Debug, Default)]
pub(crate) struct FeedbackState {
    /// Objects that define the served resources.
    pub(crate) owners: Owners,
    /// Refused change.
    pub(crate) refused: Option<Refused>,
    /// Objects whose newest content is invalid, with their errors.
    pub(crate) invalid: BTreeMap<PathBuf, String>,
}

impl Reload {
    pub(super) fn has_changes(&self) -> bool {
        let is_wrong = !self.errors.is_empty() || !self.findings.is_empty();
        let is_wrong = is_wrong || !self.repaired.is_empty() || self.refused.is_some();
        let is_changed = self.applied.is_some() || self.readiness.is_some();
        let is_changed = is_changed || self.forced.is_some() || self.rollout.is_some();
        is_wrong || is_changed || self.views.is_some()
    }
}
