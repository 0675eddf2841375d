//! Progress of rollouts: to the printer, the metrics and the place of the state.

use core::time::Duration;
use std::sync::Arc;

use tokio::{
    sync::mpsc,
    task::AbortHandle,
    time::{sleep, timeout},
};
use xds_core::rollout::{RolloutPhase, RolloutProgress};
use xds_source::RolloutStore;
use xds_tokio::server::RolloutHandle;

use super::{RolloutCounts, RolloutSettings, metric, progress_json};

/// Least time between two reports of one rollout.
const PAUSE: Duration = Duration::from_millis(100);

/// Receiver of the progress of all rollouts of a server.
#[derive(Debug)]
pub(crate) struct RolloutObserver {
    progress: mpsc::Receiver<RolloutProgress>,
    counts: Arc<RolloutCounts>,
    store: Arc<dyn RolloutStore>,
}

/// Time for the last write when the server ends.
const LEAVE: Duration = Duration::from_millis(500);

impl RolloutObserver {
    /// Observes the rollouts that a sender passes on.
    pub(crate) fn start(
        settings: Arc<RolloutSettings>,
        store: Arc<dyn RolloutStore>,
    ) -> (mpsc::UnboundedSender<RolloutHandle>, Self) {
        let (started, mut rollouts) = mpsc::unbounded_channel();
        let (sender, progress) = mpsc::channel(1);
        let counts = Arc::<RolloutCounts>::default();
        let observer = Self { progress, counts: Arc::clone(&counts), store: Arc::clone(&store) };
        tokio::spawn(async move {
            while let Some(rollout) = rollouts.recv().await {
                let observing = observe(rollout, &settings, &store, &counts);
                tokio::spawn(observing.run(sender.clone()));
            }
        });
        (started, observer)
    }

    /// Returns the progress and the counts, for metrics.
    pub(crate) fn counts(&self) -> &Arc<RolloutCounts> {
        &self.counts
    }

    /// Lets the other servers know that this one ends.
    pub(crate) async fn leave(&self) {
        // Otherwise they learn it later.
        let _ = timeout(LEAVE, self.store.leave()).await;
    }

    /// Waits for the next progress of any rollout. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<RolloutProgress> {
        self.progress.recv().await
    }
}

/// Observation of one rollout.
struct RolloutObservation {
    rollout: RolloutHandle,
    has_metrics: bool,
    store: Arc<dyn RolloutStore>,
    counts: Arc<RolloutCounts>,
    metrics: Vec<AbortHandle>,
}

fn observe(
    rollout: RolloutHandle,
    settings: &RolloutSettings,
    store: &Arc<dyn RolloutStore>,
    counts: &Arc<RolloutCounts>,
) -> RolloutObservation {
    let metrics = settings
        .metrics
        .iter()
        .map(|it| tokio::spawn(metric::observe(it.clone(), rollout.clone())).abort_handle());
    let metrics: Vec<_> = metrics.collect();
    let (store, counts) = (Arc::clone(store), Arc::clone(counts));
    RolloutObservation { rollout, has_metrics: !metrics.is_empty(), store, counts, metrics }
}

impl RolloutObservation {
    async fn run(mut self, sender: mpsc::Sender<RolloutProgress>) {
        while let Some(progress) = self.rollout.next().await {
            if progress.phase == RolloutPhase::Judging && !self.has_metrics {
                continue;
            }
            self.counts.note(&progress);
            let text = progress_json(&progress).to_string();
            if let Err(why) = self.store.report_progress(&text).await {
                tracing::warn!(%why, "cannot report the progress of the rollout");
            }
            if sender.send(progress).await.is_err() {
                return;
            }
            sleep(PAUSE).await;
        }
    }
}

impl Drop for RolloutObservation {
    fn drop(&mut self) {
        self.metrics.iter().for_each(AbortHandle::abort);
    }
}
