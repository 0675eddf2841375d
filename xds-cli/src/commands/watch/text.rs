//! Output format `text`: lines for people.

use std::{collections::BTreeSet, fmt::Write as _};

use serde_json::Value as Json;
use xds_core::client::ClientStats;

use super::printer::WatchPrinter;
use crate::{
    args::Subscription,
    facts::summary,
    failure::Failure,
    json_diff::{Difference, differences},
    output::{self, Layout},
    resource_events::{EventKind, ResourceState, WatchEvent},
    resource_types::shown_as_bytes,
    style::Style,
    text::{count, escaped, one_line},
};

#[derive(Debug)]
pub(crate) struct Text {
    style: Style,
    layout: Layout,
}

impl Text {
    pub(crate) fn new(style: Style, layout: Layout) -> Self {
        Self { style, layout }
    }
}

impl WatchPrinter for Text {
    fn begin(
        &mut self,
        server: &str,
        node: &str,
        subscriptions: &BTreeSet<Subscription>,
    ) -> Result<(), Failure> {
        let wanted: Vec<String> = subscriptions.iter().map(|it| escaped(&it.to_string())).collect();
        let (server, node) = (escaped(server), escaped(node));
        let wanted = wanted.join(", ");
        self.print_line(&format!("watching {wanted} on {server} as {node}"))
    }

    fn print(&mut self, event: &WatchEvent) -> Result<(), Failure> {
        self.print_line(&lines(event, self.style))
    }

    fn end(&mut self, stats: &ClientStats) -> Result<(), Failure> {
        self.print_line(&format!(
            "{}, {}, {}",
            count(stats.responses, "response"),
            count(stats.acks, "ACK"),
            count(stats.nacks, "NACK")
        ))
    }
}

impl Text {
    fn print_line(&self, text: &str) -> Result<(), Failure> {
        let line = format!("{}  {text}", self.style.quiet(self.layout.time()));
        output::print(&self.layout.fold(&line))
    }
}

/// Maximum number of changed fields that are listed.
const MOST_FIELDS: usize = 10;
/// Maximum number of characters of a listed field.
const FIELD: usize = 120;
/// Indentation of lines below the resource.
const INDENT: &str = "    ";

/// Formats an event: one line, and one line for each changed field.
fn lines(event: &WatchEvent, style: Style) -> String {
    let name = event.name.as_deref().map_or_else(|| "*".to_owned(), escaped);
    let subject = format!("{} {}", escaped(event.type_name()), style.strong(name));
    match &event.kind {
        EventKind::Changed { old: None, new } => {
            let summary = summary(event.type_url.as_str(), &new.json);
            let summary = summary.map(|it| format!("  {}", escaped(&it))).unwrap_or_default();
            let rest = format!("{}, {} B", escaped(&new.version.to_string()), new.bytes.len());
            let mut out = format!("{} {subject}{summary}  {}", style.good("+"), style.quiet(rest));
            push_marks(&mut out, event, new);
            out
        }
        EventKind::Changed { old: Some(old), new } => {
            let (before, now) = (escaped(old.version.short()), escaped(new.version.short()));
            let mut out = format!("{} {subject}  version {before} → {now}", style.notable("~"));
            push_fields(&mut out, old, new);
            push_marks(&mut out, event, new);
            out
        }
        EventKind::Removed(problem) => {
            format!("{} {subject}  {}", style.bad("-"), escaped(&problem.reason))
        }
        EventKind::Error(problem) => {
            format!("{} {subject}  {}", style.bad("!"), escaped(&problem.reason))
        }
        EventKind::Ambient(Some(problem)) => {
            let reason = escaped(&problem.reason);
            format!("{} {subject}  in use, but has an error: {reason}", style.bad("!"))
        }
        EventKind::Ambient(None) => format!("{} {subject}  error resolved", style.good("!")),
    }
}

/// Appends a line for each part of the resource that is shown as bytes.
fn push_marks(out: &mut String, event: &WatchEvent, new: &ResourceState) {
    for why in shown_as_bytes(event.type_url.as_str(), &new.bytes) {
        let _ = write!(out, "\n{INDENT}shown as bytes: {why}");
    }
}

fn push_fields(out: &mut String, old: &ResourceState, new: &ResourceState) {
    let differences = differences(&old.json, &new.json);
    for difference in differences.iter().take(MOST_FIELDS) {
        let _ = write!(out, "\n{INDENT}{}", one_line(&field(difference), FIELD));
    }
    if let Some(more) = differences.len().checked_sub(MOST_FIELDS).filter(|&more| more > 0) {
        let _ = write!(out, "\n{INDENT}and {more} more");
    }
    if differences.is_empty() {
        let _ = write!(
            out,
            "\n{INDENT}changes only in fields that are not shown: secrets, unknown fields"
        );
    }
}

/// Formats a field. An added or removed list is shown as its number of elements.
fn field(difference: &Difference<'_>) -> String {
    match (difference.old, difference.new) {
        (None, Some(Json::Array(list))) if list.len() > 1 => {
            format!("+ {}: {}", difference.path, count(list.len() as u64, "element"))
        }
        (Some(Json::Array(list)), None) if list.len() > 1 => {
            format!("- {}: {}", difference.path, count(list.len() as u64, "element"))
        }
        _ => difference.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use serde_json::json;
    use xds_core::types;

    use super::*;
    use crate::resource_events::Version;

    fn shown(name: Option<&str>, kind: EventKind) -> String {
        let name = name.map(str::to_owned);
        lines(&WatchEvent { type_url: types::CLUSTER.into(), name, kind }, Style::PLAIN)
    }

    fn state(version: &str, json: Json) -> ResourceState {
        ResourceState {
            version: version.into(),
            bytes: Bytes::from_static(b"abc"),
            json: Arc::new(json),
        }
    }

    #[test]
    fn changed_resource_shows_its_changed_fields() {
        let new = state("2", json!({ "name": "a", "lb_policy": "RING_HASH", "hosts": [1, 2] }));
        assert_eq!(
            shown(Some("a"), EventKind::Changed { old: None, new: new.clone() }),
            "+ cds a  STATIC, RING_HASH  version 2, 3 B"
        );
        let old = Some(state("1", json!({ "name": "a", "hosts": [1] })));
        assert_eq!(
            shown(Some("a"), EventKind::Changed { old, new: new.clone() }),
            format!(
                "~ cds a  version 1 → 2\n{INDENT}+ lb_policy: \"RING_HASH\"\n{INDENT}+ hosts[1]: 2"
            )
        );
        assert!(
            shown(Some("a"), EventKind::Changed { old: Some(new.clone()), new })
                .ends_with("changes only in fields that are not shown: secrets, unknown fields")
        );
    }

    #[test]
    fn any_of_an_unknown_type_is_marked() {
        // Cluster { name: "a", metadata { typed_filter_metadata { key: "k" value { value: "x" } } } }
        let bytes = Bytes::from_static(b"\x0a\x01a\xca\x01\x0a\x12\x08\x0a\x01k\x12\x03\x12\x01x");
        let new = ResourceState { bytes, ..state("2", json!({ "name": "a" })) };
        let mark = format!(
            "\n{INDENT}shown as bytes: metadata.typed_filter_metadata[\"k\"]: an `Any` cannot be written as JSON or YAML: \
             it has a value but no type URL"
        );
        let old = Some(state("1", json!({ "name": "b" })));
        for old in [None, old] {
            let shown = shown(Some("a"), EventKind::Changed { old, new: new.clone() });
            assert!(shown.ends_with(&mark), "{shown}");
        }
    }

    #[test]
    fn static_resource_is_shown_as_static() {
        let new = |version| ResourceState { version, ..state("", json!({ "name": "a" })) };
        let added = |version| shown(Some("a"), EventKind::Changed { old: None, new: new(version) });
        assert_eq!(added(Version::Static), "+ cds a  STATIC, ROUND_ROBIN  static, 3 B");
        assert_eq!(added(Version::Unstated), "+ cds a  STATIC, ROUND_ROBIN  no version, 3 B");
        let changed =
            EventKind::Changed { old: Some(new(Version::Unstated)), new: state("2", json!({})) };
        assert!(shown(Some("a"), changed).starts_with("~ cds a  version none → 2\n"));
    }

    #[test]
    fn long_field_lists_are_abbreviated() {
        let object =
            |value: u32| Json::Object((0..30).map(|at| (format!("f{at}"), json!(value))).collect());
        let shown = shown(
            Some("a"),
            EventKind::Changed { old: Some(state("1", object(1))), new: state("2", object(2)) },
        );
        assert_eq!(shown.lines().count(), 1 + MOST_FIELDS + 1);
        assert!(shown.ends_with("and 20 more"), "{shown}");
    }

    #[test]
    fn control_characters_of_a_peer_are_escaped() {
        let shown = shown(Some("a\x1b[2J"), EventKind::Removed("gone\r\n".to_owned().into()));
        assert_eq!(shown, "- cds a\\u{1b}[2J  gone\\r\\n");
    }
}
