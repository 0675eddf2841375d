//! Output formats `json`, `ndjson` and `yaml`.

use serde_json::{Value as Json, json};
use xds_format::json_to_yaml;
use xds_tokio::server::SourceReport;

use super::{source, table};
use crate::{
    client_status::{ClientReport, ResourceRow, StatusReport},
    output::event_line,
    text::escaped,
};

/// Formats a report as one document.
pub(super) fn json(report: &StatusReport) -> String {
    let client = |client: &ClientReport| {
        let resources: Vec<_> = client.rows.iter().map(object).collect();
        json!({ "node": client.node, "scope": client.scope, "resources": resources })
    };
    let clients: Vec<_> = report.clients.iter().map(client).collect();
    let mut document = json!({ "clients": clients });
    if let Some(source) = &report.source {
        document["source"] = source::object(source);
    }
    format!("{document:#}\n")
}

/// Formats a report as one object per resource, after one for the source, if it is reported.
pub(super) fn ndjson(report: &StatusReport) -> String {
    let source = report.source.as_ref().map(source_event);
    let resources = rows(report).map(|(client, row)| event(client, row));
    source.into_iter().chain(resources).map(|event| event_line(event) + "\n").collect()
}

/// Returns the event `source`.
pub(super) fn source_event(source: &SourceReport) -> Json {
    let mut event = source::object(source);
    event["event"] = "source".into();
    event
}

/// Formats a report as one document per resource.
pub(super) fn yaml(report: &StatusReport) -> String {
    rows(report).map(|(client, row)| document(client, row)).collect()
}

fn rows(report: &StatusReport) -> impl Iterator<Item = (&ClientReport, &ResourceRow)> {
    report.clients.iter().flat_map(|client| client.rows.iter().map(move |row| (client, row)))
}

fn object(row: &ResourceRow) -> Json {
    let error = row.error.as_ref().map(
        |error| json!({ "details": error.details, "version": error.version, "time": error.time }),
    );
    json!({
        "type": row.type_name(),
        "name": row.name,
        "version": row.version,
        "last_updated": row.last_updated,
        "status": row.status.name(),
        "error": error,
        "resource": row.content.as_ref().map(|content| &content.json),
    })
}

/// Returns the event `resource`.
pub(super) fn event(client: &ClientReport, row: &ResourceRow) -> Json {
    let mut event = json!({ "event": "resource", "node": client.node, "scope": client.scope });
    let members = object(row);
    if let (Json::Object(event), Json::Object(members)) = (&mut event, members) {
        event.extend(members);
    }
    event
}

/// Returns the document of a resource. Its state is in comments.
pub(super) fn document(client: &ClientReport, row: &ResourceRow) -> String {
    let mut out = format!("---\n# {}\n# {}\n", table::heading(client), state(row));
    if let Some(error) = &row.error {
        out += &format!("# {}\n", table::reason(error));
    }
    match &row.content {
        Some(content) => out += &json_to_yaml(&content.json),
        None => out += "# the contents are not reported\n",
    }
    out
}

/// Describes the state of a resource on one line.
pub(super) fn state(row: &ResourceRow) -> String {
    let mut out =
        format!("{} {} {}", escaped(row.type_name()), escaped(&row.name), row.status.name());
    if !row.version.is_empty() {
        out += &format!(" version {}", escaped(&row.version));
    }
    if let Some(time) = &row.last_updated {
        out += &format!(" updated {}", escaped(time));
    }
    out
}

#[cfg(test)]
mod tests {
    use xds_core::types;

    use super::*;
    use crate::client_status::{
        Content, ResourceStatus, UpdateError,
        tests::{client, row},
    };

    fn report() -> StatusReport {
        let cluster = json!({ "@type": types::CLUSTER, "name": "a" });
        let error = UpdateError { details: "bad\nline".into(), version: "8".into(), time: None };
        let a = ResourceRow {
            content: Some(Content::of_json(&cluster)),
            status: ResourceStatus::Nacked,
            error: Some(error),
            ..row(types::CLUSTER, "a", "7")
        };
        let b = ResourceRow {
            status: ResourceStatus::Requested,
            last_updated: None,
            ..row(types::CLUSTER, "b\n", "")
        };
        StatusReport { clients: vec![client("n", vec![a, b])], ..StatusReport::default() }
    }

    #[test]
    fn json_document_has_the_resources_of_each_client() {
        let document: Json = serde_json::from_str(&json(&report())).unwrap();
        assert_eq!(
            document,
            json!({ "clients": [{ "node": "n", "scope": "", "resources": [
                {
                    "type": "cds", "name": "a", "version": "7",
                    "last_updated": "2026-01-02T03:04:05.678Z", "status": "NACKED",
                    "error": { "details": "bad\nline", "version": "8", "time": null },
                    "resource": { "@type": types::CLUSTER, "name": "a" },
                },
                {
                    "type": "cds", "name": "b\n", "version": "", "last_updated": null,
                    "status": "REQUESTED", "error": null, "resource": null,
                },
            ] }] })
        );
    }

    #[test]
    fn ndjson_has_one_object_per_resource() {
        let text = ndjson(&report());
        let events: Vec<Json> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let names: Vec<_> =
            events.iter().map(|it| (&it["event"], &it["node"], &it["name"])).collect();
        let (resource, node) = (&json!("resource"), &json!("n"));
        assert_eq!(names, [(resource, node, &json!("a")), (resource, node, &json!("b\n"))]);
    }

    #[test]
    fn yaml_has_one_document_per_resource() {
        assert_eq!(
            yaml(&report()),
            format!(
                "---\n# n\n# cds a NACKED version 7 updated 2026-01-02T03:04:05.678Z\n\
                 # error in version 8: bad line\n\"@type\": {}\nname: a\n\
                 ---\n# n\n# cds b\\n REQUESTED\n# the contents are not reported\n",
                types::CLUSTER
            )
        );
    }
}
