//! Events as JSON objects.

use serde_json::{Value as Json, json};

use super::{EventKind, Problem, Version, WatchEvent};
use crate::resource_types::shown_as_bytes;

/// Formats an event as an object, without the time.
pub(crate) fn object(event: &WatchEvent) -> Json {
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
        EventKind::Removed(problem) => failed("removed", event, Some(problem)),
        EventKind::Ambient(problem) => failed("ambient", event, problem.as_ref()),
        EventKind::Error(problem) => failed("error", event, Some(problem)),
    }
}

fn failed(what: &str, event: &WatchEvent, problem: Option<&Problem>) -> Json {
    let error = problem.map(|problem| &problem.text);
    let mut object =
        json!({ "event": what, "type": event.type_name(), "name": event.name, "error": error });
    if let Some(place) = problem.and_then(|problem| problem.place.as_ref()) {
        place.add_to(&mut object);
    }
    object
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use xds_core::types;

    use super::{super::ResourceState, *};

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
