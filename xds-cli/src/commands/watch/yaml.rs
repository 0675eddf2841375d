//! Output format `yaml`: each changed resource as a document, other events as comments.

use xds_format::{PrintOptions, to_yaml};

use super::printer::WatchPrinter;
use crate::{
    failure::Failure,
    output,
    resource_events::{EventKind, WatchEvent},
    resource_types::shown_as_bytes,
    schema::schema,
    text::{escaped, timestamp},
};

#[derive(Debug)]
pub(crate) struct Yaml;

impl WatchPrinter for Yaml {
    fn print(&mut self, event: &WatchEvent) -> Result<(), Failure> {
        output::print(&document(event, &timestamp()))
    }
}

fn document(event: &WatchEvent, time: &str) -> String {
    // A name may contain a line break, which must not end the comment.
    let name = event.name.as_deref().map_or_else(|| "*".to_owned(), escaped);
    let subject = format!("{} {name}", escaped(event.type_name()));
    match &event.kind {
        EventKind::Changed { old, new } => {
            let what = if old.is_some() { "changed" } else { "added" };
            let options = PrintOptions::default();
            let yaml = to_yaml(schema(), event.type_url.as_str(), &new.bytes, &options)
                .unwrap_or_else(|error| format!("# cannot print: {error}\n"));
            let marks: String = shown_as_bytes(event.type_url.as_str(), &new.bytes)
                .iter()
                .map(|why| format!("# shown as bytes: {why}\n"))
                .collect();
            let version = escaped(&new.version.to_string());
            format!("---\n# {time} {what} {subject}, {version}\n{marks}{yaml}")
        }
        EventKind::Removed(problem) => {
            format!("# {time} removed {subject}: {}", escaped(&problem.reason))
        }
        EventKind::Ambient(Some(problem)) => {
            format!("# {time} in use with an error {subject}: {}", escaped(&problem.reason))
        }
        EventKind::Ambient(None) => format!("# {time} error resolved {subject}"),
        EventKind::Error(problem) => {
            format!("# {time} missing {subject}: {}", escaped(&problem.reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use xds_core::types;

    use super::*;
    use crate::resource_events::ResourceState;

    fn shown(name: Option<&str>, kind: EventKind) -> String {
        let name = name.map(str::to_owned);
        document(
            &WatchEvent { type_url: types::CLUSTER.into(), name, kind },
            "2026-01-02T12:00:00.000000Z",
        )
    }

    #[test]
    fn resource_is_a_yaml_document_with_a_comment() {
        // Cluster { name: "a" }
        let bytes = Bytes::from_static(b"\x0a\x01a");
        let new = ResourceState { version: "7".into(), bytes, json: Arc::default() };
        let old = Some(new.clone());
        let document =
            "version 7\n\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: a\n";
        assert_eq!(
            shown(Some("a"), EventKind::Changed { old: None, new: new.clone() }),
            format!("---\n# 2026-01-02T12:00:00.000000Z added cds a, {document}")
        );
        assert_eq!(
            shown(Some("a"), EventKind::Changed { old, new }),
            format!("---\n# 2026-01-02T12:00:00.000000Z changed cds a, {document}")
        );
    }

    #[test]
    fn any_of_an_unknown_type_is_marked() {
        // Cluster { name: "a", transport_socket { name: "t", typed_config { type_url: "t/a.B\n", value: "v" } } }
        let bytes =
            Bytes::from_static(b"\x0a\x01a\xc2\x01\x10\x0a\x01t\x1a\x0b\x0a\x06t/a.B\n\x12\x01v");
        let new = ResourceState { version: "7".into(), bytes, json: Arc::default() };
        assert_eq!(
            shown(Some("a"), EventKind::Changed { old: None, new }),
            "---\n# 2026-01-02T12:00:00.000000Z added cds a, version 7\n\
             # shown as bytes: transport_socket.typed_config: an `Any` cannot be written as JSON or YAML: the type \
             `t/a.B\\n` is not in the schema\n\
             \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: a\ntransport_socket:\n  name: t\n  \
             typed_config:\n    \"@type\": \"t/a.B\\n\"\n    \"[unknown type]\": dg==\n"
        );
    }

    #[test]
    fn other_events_are_yaml_comments() {
        assert_eq!(
            shown(Some("a\nb: c"), EventKind::Removed("x\ny".to_owned().into())),
            "# 2026-01-02T12:00:00.000000Z removed cds a\\nb: c: x\\ny"
        );
        assert_eq!(
            shown(None, EventKind::Ambient(Some("away".to_owned().into()))),
            "# 2026-01-02T12:00:00.000000Z in use with an error cds *: away"
        );
    }
}
