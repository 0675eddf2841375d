//! Output format `ndjson`: one JSON object per line and event.

use serde_json::{Value as Json, json};

use super::events::{EventKind, Version, WatchEvent, WatchPrinter};
use crate::{failure::Failure, output, resource_types::shown_as_bytes};

#[derive(Debug)]
pub(crate) struct WatchNdjson;

impl WatchPrinter for WatchNdjson {
    fn print(&mut self, event: &WatchEvent) -> Result<(), Failure> {
        output::print(&object(event).to_string())
    }
}

fn object(event: &WatchEvent) -> Json {
    let (type_name, name) = (event.type_name(), &event.name);
    match &event.kind {
        EventKind::Changed { new, .. } => {
            let mut object = json!({
                "event": "changed",
                "type": type_name,
                "name": name,
                "version": new.version.stated(),
                "resource": *new.json,
            });
            if new.version == Version::Static {
                object["static"] = true.into();
            }
            let marks = shown_as_bytes(event.type_url.as_str(), &new.bytes);
            if !marks.is_empty() {
                object["shown_as_bytes"] = marks.into();
            }
            object
        }
        EventKind::Removed(problem) => {
            json!({ "event": "removed", "type": type_name, "name": name, "error": problem.text })
        }
        EventKind::Ambient(problem) => {
            let error = problem.as_ref().map(|problem| &problem.text);
            json!({ "event": "ambient", "type": type_name, "name": name, "error": error })
        }
        EventKind::Error(problem) => {
            json!({ "event": "error", "type": type_name, "name": name, "error": problem.text })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use xds_core::types;

    use super::{super::events::ResourceState, *};

    #[test]
    fn events_are_one_line_json_objects() {
        let shown = |name: Option<&str>, kind| {
            let name = name.map(str::to_owned);
            object(&WatchEvent { type_url: types::CLUSTER.into(), name, kind }).to_string()
        };
        let json = Arc::new(json!({ "name": "a" }));
        let new = ResourceState { version: "7".into(), bytes: Bytes::new(), json };
        assert_eq!(
            shown(Some("a"), EventKind::Changed { old: None, new }),
            r#"{"event":"changed","type":"cds","name":"a","version":"7","resource":{"name":"a"}}"#
        );
        // Cluster { name: "a", metadata { typed_filter_metadata { key: "k" value { type_url: "x" } } } }
        let bytes = Bytes::from_static(b"\x0a\x01a\xca\x01\x0a\x12\x08\x0a\x01k\x12\x03\x0a\x01x");
        let json = Arc::new(json!({ "name": "a" }));
        let new = ResourceState { version: "7".into(), bytes, json };
        assert_eq!(
            shown(Some("a"), EventKind::Changed { old: None, new }),
            r#"{"event":"changed","type":"cds","name":"a","version":"7","resource":{"name":"a"},"shown_as_bytes":["metadata.typed_filter_metadata[\"k\"]: an `Any` cannot be written as JSON or YAML: `x` is not a type URL"]}"#
        );
        assert_eq!(
            shown(Some("a"), EventKind::Removed("gone\n".to_owned().into())),
            r#"{"event":"removed","type":"cds","name":"a","error":"gone\n"}"#
        );
        assert_eq!(
            shown(Some("a"), EventKind::Ambient(None)),
            r#"{"event":"ambient","type":"cds","name":"a","error":null}"#
        );
        assert_eq!(
            shown(None, EventKind::Error("refused".to_owned().into())),
            r#"{"event":"error","type":"cds","name":null,"error":"refused"}"#
        );
    }
}
