//! State of the source of a management server.

use core::time::Duration;

use serde_json::{Value as Json, json};
use xds_tokio::server::SourceReport;

/// Describes a source that cannot be reached; `None` while it can.
pub(super) fn unreachable(source: &SourceReport) -> Option<String> {
    let seconds = Duration::from_secs(source.unreachable_for?.as_secs());
    let refused = if source.is_stale { ", new clients are refused" } else { "" };
    Some(format!("source unreachable for {seconds:?}{refused}"))
}

/// Formats the state as an object.
pub(super) fn object(source: &SourceReport) -> Json {
    let unreachable = source.unreachable_for.map(|it| it.as_millis().min(u64::MAX.into()) as u64);
    json!({
        "revision": source.revision,
        "unreachable_ms": unreachable,
        "stale": source.is_stale,
    })
}
