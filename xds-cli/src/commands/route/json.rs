//! Access to the fields of a resource.

use serde_json::Value as Json;

pub(super) fn text<'j>(json: &'j Json, pointer: &str) -> Option<&'j str> {
    json.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

/// Returns an integer. Canonical JSON has integers of 64 bits as texts.
pub(super) fn number(json: &Json, pointer: &str) -> Option<u64> {
    let value = json.pointer(pointer)?;
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

pub(super) fn is_true(json: &Json, pointer: &str) -> bool {
    json.pointer(pointer).and_then(Json::as_bool).unwrap_or_default()
}

pub(super) fn list<'j>(json: &'j Json, pointer: &str) -> &'j [Json] {
    json.pointer(pointer).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default()
}
