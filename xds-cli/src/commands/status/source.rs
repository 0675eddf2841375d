//! State of the source of a management server.

use core::time::Duration;

use serde_json::{Value as Json, json};
use xds_tokio::server::SourceReport;

use crate::text::escaped;

/// Describes a source that cannot be reached, or whose newest state is refused; `None` for others.
pub(super) fn problem(source: &SourceReport) -> Option<String> {
    let unreachable = source.unreachable_for.map(|time| {
        let seconds = Duration::from_secs(time.as_secs());
        let refused = if source.is_stale { ", new clients are refused" } else { "" };
        format!("source unreachable for {seconds:?}{refused}")
    });
    let refused = source.refused.as_ref().map(|it| escaped(it));
    let problems: Vec<_> = unreachable.into_iter().chain(refused).collect();
    (!problems.is_empty()).then(|| problems.join("; "))
}

/// Formats the state as an object.
pub(super) fn object(source: &SourceReport) -> Json {
    let unreachable = source.unreachable_for.map(|it| it.as_millis().min(u64::MAX.into()) as u64);
    json!({
        "revision": source.revision,
        "unreachable_ms": unreachable,
        "stale": source.is_stale,
        "refused": source.refused.as_deref(),
    })
}
