//! Form of the texts on standard error.

use core::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use serde_json::json;

use crate::text::timestamp;

/// Form of the texts on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line: `timestamp` (RFC 3339, UTC), `level`, `message` and other fields.
    Json,
}

/// Whether the log format is [`LogFormat::Json`].
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Selects [`LogFormat::Json`].
pub(super) fn use_json() {
    IS_JSON.store(true, Ordering::Relaxed);
}

/// Severity of a text that is printed outside the log.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Severity {
    Warning,
    Error,
}

/// Returns a text as a line of the log if the format is [`LogFormat::Json`], otherwise `None`.
pub(super) fn json_line(severity: Severity, text: &str) -> Option<String> {
    let level = match severity {
        // Lines about the input begin with their severity.
        Severity::Warning if !text.starts_with("error") => "WARN",
        Severity::Warning | Severity::Error => "ERROR",
    };
    let line = || json!({ "timestamp": timestamp(), "level": level, "message": text.trim_end() });
    IS_JSON.load(Ordering::Relaxed).then(|| line().to_string())
}
