//! `--watch`: the status again and again.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use tokio::{select, time::sleep};

use super::{
    documents,
    endpoint::{Endpoint, Wanted},
    fold::{View, folded},
    table,
};
use crate::{
    args::StatusOutput,
    client_status::{ClientReport, Filter, ResourceRow, StatusReport},
    failure::Failure,
    output::{self, Layout},
    stop::Stop,
    text::{escaped, time_of_day},
};

/// Moves the cursor to the upper left corner and clears the terminal below it.
const REDRAW: &str = "\x1b[H\x1b[J";
/// Clears the terminal.
const CLEAR: &str = "\x1b[2J";

/// Prints the status until a signal or the end of `--for`.
///
/// An endpoint that is not reached at first is an error. Later it may be away for a while.
pub(super) async fn run(
    endpoint: &Endpoint,
    interval: Duration,
    filter: &Filter,
    format: StatusOutput,
    view: View,
    mut stop: Stop,
) -> Result<(), Failure> {
    output::queue_stdout(output::not_printed, output::ReaderLoss::Ends);
    let is_dumb = std::env::var_os("TERM").is_none_or(|it| it.is_empty() || it == "dumb");
    let redraws = format == StatusOutput::Table && view.width.is_some() && !is_dumb;
    let mut last: Option<StatusReport> = None;
    let mut problem: Option<String> = None;
    loop {
        let answer = select! {
            () = stop.requested() => return Ok(()),
            gone = output::reader_gone() => return Err(gone),
            report = endpoint.report(Wanted::of(format), filter) => report,
        };
        let before = problem.take();
        let report = match answer {
            Ok(report) => Some(report),
            Err(why) if last.is_none() => return Err(why),
            Err(why) => {
                problem = Some(why.to_string());
                None
            }
        };
        select! {
            () = stop.requested() => return Ok(()),
            room = output::room() => room?,
        }
        let view = view.refreshed();
        let newest = report.as_ref().or(last.as_ref());
        if redraws && let Some(newest) = newest {
            let begin = if last.is_none() { CLEAR } else { "" };
            let heading = heading(endpoint.address(), interval, problem.as_deref(), view);
            output::print(&format!("{begin}{REDRAW}{heading}\n{}", table::table(newest, view)))?;
        } else {
            if let Some(why) = &problem
                && problem != before
            {
                output::print_to_stderr(&format!("xds: {why}"));
            }
            if let Some(report) = &report {
                print_changes(last.as_ref(), report, format, view)?;
            }
        }
        last = report.or(last);
        select! {
            () = stop.requested() => return Ok(()),
            gone = output::reader_gone() => return Err(gone),
            () = sleep(interval) => {}
        }
    }
}

/// Formats the lines above a table that is redrawn.
fn heading(address: &str, interval: Duration, problem: Option<&str>, view: View) -> String {
    let line = format!("{}, every {interval:?}, {}", escaped(address), time_of_day());
    let line = view.style.quiet(folded(&line, 2, view.width)).to_string();
    match problem {
        Some(why) => {
            let why = folded(&escaped(why), 2, view.width);
            format!("{line}\n{}\n", view.style.bad(why))
        }
        None => line + "\n",
    }
}

fn print_changes(
    before: Option<&StatusReport>,
    report: &StatusReport,
    format: StatusOutput,
    view: View,
) -> Result<(), Failure> {
    let nothing = StatusReport::default();
    let lines: String = changes(before.unwrap_or(&nothing), report)
        .iter()
        .map(|change| line(change, format, view) + "\n")
        .collect();
    if lines.is_empty() { Ok(()) } else { output::print(&lines) }
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
        let report = |clients: Vec<ClientReport>| StatusReport { clients, warnings: Vec::new() };
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
