//! Result of one expected route.

use serde_json::Value as Json;

/// Compared property: its name, the expected and the actual value.
pub(super) type FieldDifference = (&'static str, Json, Json);

/// Result of one row.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) name: String,
    pub(super) differences: Vec<FieldDifference>,
}
