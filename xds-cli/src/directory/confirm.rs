//! Confirmation that a server is up to date with its source.

use std::sync::Arc;

use tokio::{
    sync::Notify,
    time::{Duration, Instant, sleep, timeout},
};
use xds_core::server::ServerEvent;
use xds_source::{Revision, Source};
use xds_tokio::ServerHandle;

/// Time limit of one attempt. It is below the time for which streams wait.
const ATTEMPT: Duration = Duration::from_secs(2);
/// Time between two attempts.
const RETRY: Duration = Duration::from_millis(250);
/// Time between two requests for the progress of the watch.
const PROGRESS: Duration = Duration::from_millis(50);
/// Time after which the watch is not asked for its progress any more.
const CATCH_UP: Duration = Duration::from_secs(5);

/// Answers the server's requests for a confirmation until it ends.
pub(super) async fn confirm<S: Source>(
    source: Arc<S>,
    server: ServerHandle,
    reachable: Arc<Notify>,
) {
    let mut events = server.events();
    while let Some(event) = events.next().await {
        if event != ServerEvent::ConfirmSource {
            continue;
        }
        let revision = loop {
            match timeout(ATTEMPT, source.newest_revision()).await {
                Ok(Ok(revision)) => break revision,
                Ok(Err(why)) => tracing::debug!(%why, "cannot confirm the revision of the source"),
                Err(_) => tracing::debug!("the source does not confirm its revision in time"),
            }
            if server.source_confirmation_failed().await.is_err() {
                return;
            }
            sleep(RETRY).await;
        };
        if server.source_confirmed(revision.map(|it| it.0)).await.is_err() {
            return;
        }
        // The follower may be waiting after a failure.
        reachable.notify_one();
        // A source that cannot tell its revision is taken at what was read of it.
        if let Some(revision) = revision
            && !catch_up(&*source, &server, revision).await
        {
            return;
        }
    }
}

/// Asks the watch for its progress until the server has reached a revision: changes of other keys
/// have revisions too, and are not reported otherwise. Returns whether the server still runs.
async fn catch_up<S: Source>(source: &S, server: &ServerHandle, revision: Revision) -> bool {
    let until = Instant::now() + CATCH_UP;
    while Instant::now() < until {
        let Ok(status) = server.source_status().await else { return false };
        if status.revision.unwrap_or_default() >= revision.0 || status.is_confirming {
            return true;
        }
        source.report_progress();
        sleep(PROGRESS).await;
    }
    true
}
