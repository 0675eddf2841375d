//! Changed resources of the clients of one endpoint.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{documents, fold::View, source, table};
use crate::{
    args::StatusOutput,
    client_status::{ClientReport, ResourceRow, StatusReport},
    output::{self, Layout},
    text::escaped,
};

/// Formats the changes between two reports, one text for each.
pub(super) fn changed_lines(
    before: Option<&StatusReport>,
    report: &StatusReport,
    format: StatusOutput,
    view: View,
) -> Vec<String> {
    let nothing = StatusReport::default();
    let before = before.unwrap_or(&nothing);
    let found = changes(before, report);
    let found = found.iter().map(|change| line(change, format, view));
    source_change(before, report, format, view).into_iter().chain(found).collect()
}

/// Formats the state of the source if it can be reached no longer, or again, or if its newest state is
/// refused or no longer so. The first one is an event in any case.
fn source_change(
    before: &StatusReport,
    report: &StatusReport,
    format: StatusOutput,
    view: View,
) -> Option<String> {
    let lasting = |report: &StatusReport| {
        let source = report.source.as_ref()?;
        Some((source.unreachable_for.is_some(), source.is_stale, source.refused.clone()))
    };
    let source = report.source.as_ref().filter(|_| lasting(before) != lasting(report))?;
    let text = match (format, source::problem(source)) {
        (StatusOutput::Ndjson | StatusOutput::Json, _) => {
            return Some(output::event_line(documents::source_event(source)));
        }
        (_, Some(problem)) => view.style.bad(problem),
        (_, None) if before.source.as_ref().is_some_and(|it| it.refused.is_some()) => {
            view.style.good("the newest state of the source is served".to_owned())
        }
        (_, None) if before.source.is_some() => {
            view.style.good("source reachable again".to_owned())
        }
        (_, None) => return None,
    };
    Some(match format {
        StatusOutput::Yaml => format!("# {text}"),
        _ => format!("{}  {text}", view.style.quiet(Layout::of_stdout().time())),
    })
}

/// Changed resource of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ResourceChange<'a> {
    kind: ChangeKind,
    client: &'a ClientReport,
    row: &'a ResourceRow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChangeKind {
    Added,
    Changed,
    Removed,
}

/// Returns the changes in the order of the new report, followed by the removed resources.
fn changes<'a>(before: &'a StatusReport, report: &'a StatusReport) -> Vec<ResourceChange<'a>> {
    let (old, new) = (keyed(before), keyed(report));
    let mut found = Vec::new();
    for (key, &(client, row)) in &new {
        let kind = match old.get(key) {
            Some((_, before)) if is_same(before, row) => continue,
            Some(_) => ChangeKind::Changed,
            None => ChangeKind::Added,
        };
        found.push(ResourceChange { kind, client, row });
    }
    let keys: BTreeSet<_> = new.keys().collect();
    let gone = old.iter().filter(|(key, _)| !keys.contains(key));
    found.extend(gone.map(|(_, &(client, row))| ResourceChange {
        kind: ChangeKind::Removed,
        client,
        row,
    }));
    found
}

/// Returns whether two states are the same, apart from the time of the update: an endpoint may
/// compute it anew for each response.
fn is_same(before: &ResourceRow, row: &ResourceRow) -> bool {
    let details = |row: &ResourceRow| {
        row.error.as_ref().map(|error| (error.details.clone(), error.version.clone()))
    };
    (&before.version, before.status, &before.content) == (&row.version, row.status, &row.content)
        && details(before) == details(row)
}

/// Node, scope, type and name, and a number if several resources have all of them.
type ChangeKey<'a> = (&'a str, &'a str, &'a str, &'a str, usize);

fn keyed(report: &StatusReport) -> BTreeMap<ChangeKey<'_>, (&ClientReport, &ResourceRow)> {
    let mut found = BTreeMap::new();
    for client in &report.clients {
        for row in &client.rows {
            let key = |number| (&*client.node, &*client.scope, row.type_name(), &*row.name, number);
            let free = (0..).find(|&number| !found.contains_key(&key(number)));
            found.insert(key(free.unwrap_or_default()), (client, row));
        }
    }
    found
}

fn line(change: &ResourceChange<'_>, format: StatusOutput, view: View) -> String {
    let ResourceChange { kind, client, row } = *change;
    match (format, kind) {
        (StatusOutput::Ndjson | StatusOutput::Json, ChangeKind::Removed) => {
            output::event_line(json!({
                "event": "removed", "node": client.node, "scope": client.scope,
                "type": row.type_name(), "name": row.name,
            }))
        }
        (StatusOutput::Ndjson | StatusOutput::Json, _) => {
            output::event_line(documents::event(client, row))
        }
        (StatusOutput::Yaml, ChangeKind::Removed) => {
            let name = format!("{} {}", escaped(row.type_name()), escaped(&row.name));
            format!("# removed: {name} of {}", table::heading(client))
        }
        (StatusOutput::Yaml, _) => documents::document(client, row).trim_end().to_owned(),
        (StatusOutput::Table, _) => {
            let sign = match kind {
                ChangeKind::Added => view.style.good("+"),
                ChangeKind::Changed => view.style.notable("~"),
                ChangeKind::Removed => view.style.bad("-"),
            };
            let (time, node) =
                (view.style.quiet(Layout::of_stdout().time()), table::heading(client));
            let state = documents::state(row);
            let error = row.error.as_ref().map(table::reason);
            let error = error.map(|it| format!(", {it}")).unwrap_or_default();
            match kind {
                ChangeKind::Removed => {
                    let name = format!("{} {}", escaped(row.type_name()), escaped(&row.name));
                    format!("{time}  {sign} {node}  {name}")
                }
                _ => format!("{time}  {sign} {node}  {state}{error}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;
    use xds_core::types;

    use super::*;
    use crate::{
        client_status::{
            ResourceStatus,
            tests::{client, row},
        },
        style::Style,
    };

    #[test]
    fn changes_are_found_by_client_type_and_name() {
        let report =
            |clients: Vec<ClientReport>| StatusReport { clients, ..StatusReport::default() };
        let (a, b) = (row(types::CLUSTER, "a", "1"), row(types::CLUSTER, "b", "1"));
        let draining = ResourceRow { status: ResourceStatus::Draining, ..a.clone() };
        let newer = row(types::CLUSTER, "a", "2");
        let before = report(vec![
            client("n", vec![a.clone(), draining, b.clone()]),
            client("m", vec![b.clone()]),
        ]);
        let later = ResourceRow { last_updated: None, ..b };
        let now = report(vec![client("n", vec![newer, later]), client("o", vec![a])]);
        let view = View { style: Style::PLAIN, width: None };
        let shown = |format| -> Vec<String> {
            let found = changes(&before, &now);
            found.iter().map(|change| line(change, format, view)).collect()
        };
        let lines: Vec<_> = shown(StatusOutput::Table)
            .iter()
            .map(|line| line.split_once("  ").unwrap().1.to_owned())
            .collect();
        let updated = "updated 2026-01-02T03:04:05.678Z";
        assert_eq!(
            lines,
            [
                format!("~ n  cds a ACKED version 2 {updated}"),
                format!("+ o  cds a ACKED version 1 {updated}"),
                "- m  cds b".into(),
                "- n  cds a".into(),
            ]
        );
        let mut removed: Json = serde_json::from_str(&shown(StatusOutput::Ndjson)[2]).unwrap();
        assert!(removed["time"].take().is_string());
        let expected = json!({
            "time": null, "event": "removed", "node": "m", "scope": "", "type": "cds", "name": "b",
        });
        assert_eq!(removed, expected);
        assert_eq!(shown(StatusOutput::Yaml)[2], "# removed: cds b of m");
        assert_eq!(changes(&now, &now), []);
    }
}
