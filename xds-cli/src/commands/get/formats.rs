//! Output formats of fetched resources.

use std::{collections::BTreeSet, fmt::Write as _, io};

use clap::ColorChoice;
use serde_json::{Value as Json, json};
use xds_format::{PrintOptions, to_text, to_yaml};

use super::fetch::Fetched;
use crate::{
    args::{GetOutput, Subscription},
    facts::summary,
    failure::Failure,
    output::{self, Layout},
    resource_events::{EventKind, ResourceState, WatchEvent, object},
    resource_types::shown_as_bytes,
    schema::schema,
    style::Style,
    text::{escaped, one_line},
};

/// Fetched resources to print, each once.
#[derive(Debug)]
pub(super) struct Selection<'f> {
    resources: Vec<(&'f WatchEvent, &'f ResourceState)>,
    problems: Vec<&'f WatchEvent>,
    /// Whether one resource was asked for by name, so that no list is printed.
    is_one: bool,
}

impl<'f> Selection<'f> {
    pub(super) fn of(subscriptions: &[Subscription], fetched: &'f [Fetched]) -> Self {
        let is_one = matches!(subscriptions, [one] if one.name.is_some() && one.glob().is_none());
        let mut seen = BTreeSet::new();
        let resources = fetched.iter().flat_map(|it| &it.resources).filter_map(|event| {
            let EventKind::Changed { new, .. } = &event.kind else { return None };
            seen.insert((&event.type_url, &event.name)).then_some((event, new))
        });
        let resources = resources.collect();
        Self { resources, problems: fetched.iter().flat_map(|it| &it.problems).collect(), is_one }
    }

    /// Prints the resources. If there is none because of a problem, only NDJSON prints something.
    pub(super) fn print(&self, format: GetOutput, color: ColorChoice) -> Result<(), Failure> {
        if format == GetOutput::Ndjson {
            let resources = self.resources.iter().map(|(event, _)| *event);
            let mut events = resources.chain(self.problems.iter().copied());
            return events.try_for_each(|event| output::print(&output::event_line(object(event))));
        }
        if self.resources.is_empty() && !self.problems.is_empty() {
            return Ok(());
        }
        let text = match format {
            GetOutput::Yaml => self.yaml(),
            GetOutput::Json => format!("{:#}", self.json()),
            GetOutput::Textproto => self.textproto(),
            GetOutput::Table => {
                let table = self.table(Style::of(color, &io::stdout()));
                Layout::of_stdout().fold(&table).into_owned()
            }
            GetOutput::Names | GetOutput::Ndjson => self.names(),
        };
        if text.is_empty() { Ok(()) } else { output::print(&text) }
    }

    fn yaml(&self) -> String {
        if self.resources.is_empty() {
            return "resources: []\n".to_owned();
        }
        let documents = self.resources.iter().map(|(event, state)| {
            let type_url = event.type_url.as_str();
            let marks = marks(event, state);
            let yaml = to_yaml(schema(), type_url, &state.bytes, &PrintOptions::default())
                .unwrap_or_else(|error| format!("# cannot print: {error}\n"));
            format!("{marks}{yaml}")
        });
        documents.collect::<Vec<_>>().join("---\n")
    }

    fn json(&self) -> Json {
        match &*self.resources {
            [(_, state)] if self.is_one => (*state.json).clone(),
            resources => {
                let list: Vec<Json> =
                    resources.iter().map(|(_, state)| (*state.json).clone()).collect();
                json!({ "resources": list })
            }
        }
    }

    fn textproto(&self) -> String {
        if let ([(event, state)], true) = (&*self.resources, self.is_one) {
            return proto_text(event, state);
        }
        let mut out = format!("{PROTO_MESSAGE}envoy.service.discovery.v3.DiscoveryResponse\n");
        for (event, state) in &self.resources {
            let text = proto_text(event, state);
            let (comments, fields): (Vec<_>, Vec<_>) =
                text.lines().partition(|line| line.starts_with('#'));
            // A resource of a type that the schema lacks is already printed as an `Any`.
            let is_any = comments.iter().any(|line| line.ends_with(ANY));
            comments
                .into_iter()
                .filter(|line| !line.starts_with(PROTO_MESSAGE))
                .for_each(|line| push_line(&mut out, line));
            push_line(&mut out, "resources {");
            let indent = if is_any { "  " } else { "    " };
            if !is_any {
                push_line(&mut out, &format!("  [{}] {{", event.type_url.as_str()));
            }
            fields.into_iter().for_each(|line| push_line(&mut out, &format!("{indent}{line}")));
            if !is_any {
                push_line(&mut out, "  }");
            }
            push_line(&mut out, "}");
        }
        out
    }

    fn names(&self) -> String {
        let mut out = String::new();
        for (event, _) in &self.resources {
            let (type_name, name) = labels(event);
            push_line(&mut out, &format!("{type_name}:{name}"));
        }
        out
    }

    fn table(&self, style: Style) -> String {
        let header = ["TYPE", "NAME", "VERSION", "BYTES", "SUMMARY"].map(str::to_owned);
        let rows = self.resources.iter().map(|(event, state)| {
            let (type_name, name) = labels(event);
            let summary = summary(event.type_url.as_str(), &state.json).unwrap_or_default();
            let version = one_line(state.version.short(), MOST_VERSION);
            [type_name, name, version, state.bytes.len().to_string(), escaped(&summary)]
        });
        let rows: Vec<_> = [header].into_iter().chain(rows).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let [types, names, versions, sizes] = [0, 1, 2, 3].map(|it| width(it).unwrap_or_default());
        let mut out = String::new();
        for (at, [type_name, name, version, size, summary]) in rows.iter().enumerate() {
            let line = format!(
                "{type_name:types$}  {name:names$}  {version:versions$}  {size:>sizes$}  {summary}"
            );
            let line = line.trim_end();
            match at {
                0 => push_line(&mut out, &style.quiet(line).to_string()),
                _ => push_line(&mut out, line),
            }
        }
        out
    }
}

/// Maximum length of a version in the table.
const MOST_VERSION: usize = 12;
/// Beginning of the comment that states the message of a protobuf text file.
const PROTO_MESSAGE: &str = "# proto-message: ";
const ANY: &str = " google.protobuf.Any";

fn proto_text(event: &WatchEvent, state: &ResourceState) -> String {
    let type_url = event.type_url.as_str();
    to_text(schema(), type_url, &state.bytes, &PrintOptions::default())
        .unwrap_or_else(|error| format!("# cannot print: {error}\n"))
}

/// Comments about the parts of a resource that are printed as bytes.
fn marks(event: &WatchEvent, state: &ResourceState) -> String {
    let marks = shown_as_bytes(event.type_url.as_str(), &state.bytes);
    marks.iter().fold(String::new(), |mut out, why| {
        let _ = writeln!(out, "# shown as bytes: {why}");
        out
    })
}

/// Returns the type and the name for one line of text.
fn labels(event: &WatchEvent) -> (String, String) {
    (escaped(event.type_name()), escaped(event.name.as_deref().unwrap_or_default()))
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use xds_core::{TypeUrl, types};
    use xds_format::{Format, parse};

    use super::*;

    fn fetched(resources: &[(&str, &str, &'static [u8])]) -> Fetched {
        let resources = resources.iter().map(|&(type_url, name, bytes)| {
            let json = Arc::new(json!({ "name": name }));
            let new = ResourceState { version: "7".into(), bytes: Bytes::from_static(bytes), json };
            let kind = EventKind::Changed { old: None, new };
            WatchEvent { type_url: TypeUrl::from(type_url), name: Some(name.to_owned()), kind }
        });
        Fetched { resources: resources.collect(), ..Fetched::default() }
    }

    fn subscriptions(texts: &[&str]) -> Vec<Subscription> {
        texts.iter().map(|it| it.parse().unwrap()).collect()
    }

    /// Cluster { name: "a" }, Cluster { name: "b" }
    const TWO: [(&str, &str, &[u8]); 2] =
        [(types::CLUSTER, "a", b"\x0a\x01a"), (types::CLUSTER, "b", b"\x0a\x01b")];

    #[test]
    fn lists_can_be_parsed_again() {
        let two = [fetched(&TWO)];
        let selection = Selection::of(&subscriptions(&["cds"]), &two);
        for (format, text) in
            [(Format::Yaml, selection.yaml()), (Format::Text, selection.textproto())]
        {
            let parsed = parse(schema(), "it", format, text.as_bytes()).unwrap();
            let names: Vec<_> = parsed.resources.iter().map(|it| it.name.as_str()).collect();
            assert_eq!(names, ["a", "b"], "{text}");
        }
        assert_eq!(selection.json(), json!({ "resources": [{ "name": "a" }, { "name": "b" }] }));
        assert_eq!(selection.names(), "cds:a\ncds:b\n");
    }

    #[test]
    fn empty_type_is_an_empty_list() {
        let none = [fetched(&[])];
        let selection = Selection::of(&subscriptions(&["cds"]), &none);
        assert_eq!(selection.yaml(), "resources: []\n");
        assert_eq!(selection.json(), json!({ "resources": [] }));
        assert_eq!(selection.names(), "");
        let header = "# proto-message: envoy.service.discovery.v3.DiscoveryResponse\n";
        assert_eq!(selection.textproto(), header);
    }

    #[test]
    fn named_resource_is_printed_without_a_list() {
        let one = [fetched(&TWO[..1])];
        let selection = Selection::of(&subscriptions(&["cds:a"]), &one);
        assert_eq!(selection.json(), json!({ "name": "a" }));
        assert!(selection.textproto().starts_with("# proto-message: envoy.config.cluster.v3"));
        let list = Selection::of(&subscriptions(&["cds:*"]), &one);
        assert_eq!(list.json(), json!({ "resources": [{ "name": "a" }] }));
    }

    #[test]
    fn resource_of_two_subscriptions_is_printed_once() {
        let both = [fetched(&TWO), fetched(&TWO[..1])];
        let selection = Selection::of(&subscriptions(&["cds", "cds:a"]), &both);
        assert_eq!(selection.names(), "cds:a\ncds:b\n");
    }

    #[test]
    fn type_that_the_schema_lacks_is_printed_as_an_any() {
        let custom = [fetched(&[("type.googleapis.com/a.B", "x", b"\x0a\x01x")])];
        let selection = Selection::of(&subscriptions(&["type.googleapis.com/a.B"]), &custom);
        let text = selection.textproto();
        assert!(text.contains("resources {\n  type_url: \"type.googleapis.com/a.B\"\n"), "{text}");
        assert!(selection.yaml().starts_with("# shown as bytes: "), "{}", selection.yaml());
    }

    #[test]
    fn table_aligns_its_columns_and_keeps_names_whole() {
        let name = "n".repeat(100);
        let list = [fetched(&[TWO[0], (types::CLUSTER, &name, b"\x0a\x01b")])];
        let table = Selection::of(&subscriptions(&["cds"]), &list).table(Style::PLAIN);
        let expected = format!(
            "TYPE  {:100}  VERSION  BYTES  SUMMARY\n\
             cds   {:100}  7            3  STATIC, ROUND_ROBIN\n\
             cds   {name}  7            3  STATIC, ROUND_ROBIN\n",
            "NAME", "a"
        );
        assert_eq!(table, expected);
    }
}
