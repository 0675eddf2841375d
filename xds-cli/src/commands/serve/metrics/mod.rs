//! `--metrics`: metrics and readiness over HTTP.
//!
//! | file | contents |
//! |---|---|
//! | `http.rs` | the HTTP server |
//! | `text.rs` | the metrics in Prometheus' text format |

mod http;
mod text;

use std::sync::Arc;

use xds_tokio::{
    ManagementServer,
    credentials::ServerCredentials,
    server::{LoadCollector, ServerEnded},
};

pub(super) use self::http::{MetricsListener, bind, serve};
use super::{table::awaited, write_failures::WriteFailures};
use crate::{args::SourceAddress, directory::SourceMetrics, rollouts::RolloutCounts};

/// Server and source whose metrics are reported.
#[derive(Debug)]
pub(super) struct Reporter {
    pub(super) server: Arc<ManagementServer>,
    pub(super) address: SourceAddress,
    pub(super) source: Arc<SourceMetrics>,
    /// Rollouts, if changes are rolled out.
    pub(super) rollouts: Option<Arc<RolloutCounts>>,
    /// Load reports of clients, if they are requested.
    pub(super) loads: Option<LoadCollector>,
    /// Credentials of the listeners, if they use TLS.
    pub(super) credentials: Option<ServerCredentials>,
    pub(super) failures: Arc<WriteFailures>,
}

impl Reporter {
    /// Whether new clients are served.
    fn is_ready(&self) -> bool {
        self.server.is_serving()
    }

    /// Returns the reason why new clients are not served, for people.
    async fn reason(&self) -> String {
        let report = self.server.handle().source_report().await;
        match report {
            Ok(source) if source.is_stale => {
                let seconds = source.unreachable_for.unwrap_or_default().as_secs();
                format!("the source has been unreachable for {seconds} s (--max-staleness)")
            }
            // The files come first: they are also the reason why their state is refused.
            Ok(source) => match (self.source.waiting(), source.refused) {
                (files, Some(refused)) if files.is_empty() => refused.to_string(),
                (files, None) if files.is_empty() => "the server shuts down".to_owned(),
                (files, _) => awaited(&files, &self.address),
            },
            Err(ended) => ended.to_string(),
        }
    }

    /// Returns the metrics in Prometheus' text format.
    async fn metrics(&self) -> Result<String, ServerEnded> {
        let handle = self.server.handle();
        let mut out = text::MetricsText::default();
        let stats = handle.stats().await?;
        out.server(&stats, self.is_ready());
        out.closed_streams(&stats.closed);
        out.transport(&handle.transport_stats());
        if let Some(credentials) = &self.credentials {
            out.expiries(credentials.expiries());
        }
        out.write_failures(&self.failures);
        out.source(&handle.source_report().await?, &self.source);
        if let Some(rollouts) = &self.rollouts {
            out.rollouts(&rollouts.read(), self.source.is_rollout_failing());
        }
        if let Some(loads) = &self.loads {
            out.loads(loads);
        }
        Ok(out.finish())
    }
}
