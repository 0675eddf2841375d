//! Output for people.

use std::fmt::Write as _;

use super::{
    events::{RowChange, RowChangeKind, StatusRow},
    merge::{ClientRow, DifferingResource, Merged, ReplicaRow, ReplicaVersion},
};
use crate::{
    commands::status::{
        fold::{View, folded},
        source,
    },
    output::Layout,
    text::escaped,
};

/// Indentation of lines below a resource.
const INDENT: usize = 4;

const REPLICA_HEADINGS: [&str; 6] =
    ["REPLICA", "REVISION", "BEHIND", "CLIENTS", "STREAMS", "SOURCE"];
const CLIENT_HEADINGS: [&str; 5] = ["CLIENT", "TYPE", "RESOURCES", "STATUS", "REPLICAS"];

/// Formats the status: the replicas, the clients, and the resources that differ.
pub(super) fn text(merged: &Merged<'_>, view: View) -> String {
    let replicas: Vec<_> = merged.replicas.iter().map(replica_cells).collect();
    let mut out = columns(REPLICA_HEADINGS, &replicas, view);
    if merged.clients.is_empty() {
        out.push_str("\nno clients\n");
    } else {
        let clients: Vec<_> = merged.clients.iter().map(client_cells).collect();
        let _ = write!(out, "\n{}", columns(CLIENT_HEADINGS, &clients, view));
    }
    for resource in &merged.differing {
        let _ = write!(out, "\n{} {}", view.style.notable("~"), differing(resource, view));
    }
    out
}

fn replica_cells(row: &ReplicaRow<'_>) -> [String; 6] {
    let or_dash = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |it| it.to_string());
    let address = escaped(row.address);
    match &row.state {
        Err(why) => {
            let dash = || "-".to_owned();
            [address, dash(), dash(), dash(), dash(), format!("cannot be read: {why}")]
        }
        Ok(state) => {
            let revision = or_dash(state.source.as_ref().and_then(|source| source.revision));
            let behind = or_dash(state.behind.filter(|&by| by > 0));
            let source = state.source.as_ref();
            let reachable = || source.map_or("-", |_| "reachable").to_owned();
            let source = source.and_then(source::problem).unwrap_or_else(reachable);
            let [clients, streams] = [state.clients, state.streams].map(|it| it.to_string());
            [address, revision, behind, clients, streams, source]
        }
    }
}

fn client_cells(row: &ClientRow<'_>) -> [String; 5] {
    let by_status = row.statuses();
    let statuses: Vec<_> = by_status
        .iter()
        .map(|(status, number)| match by_status.len() {
            1 => status.name().to_owned(),
            _ => format!("{number} {}", status.name()),
        })
        .collect();
    let replicas: Vec<_> = row
        .replicas
        .iter()
        .map(|(replica, streams)| match streams {
            1 => escaped(replica),
            _ => format!("{} ({streams} streams)", escaped(replica)),
        })
        .collect();
    [
        client_name(row),
        row.type_name.to_owned(),
        row.resources.len().to_string(),
        statuses.join(", "),
        replicas.join(", "),
    ]
}

fn client_name(row: &ClientRow<'_>) -> String {
    let node = if row.node.is_empty() { "(no node id)".to_owned() } else { escaped(row.node) };
    match row.scope {
        "" => node,
        scope => format!("{node} {}", escaped(scope)),
    }
}

/// Formats rows in columns, or, if they are wider than the terminal, one folded line for each row.
fn columns<const N: usize>(headings: [&str; N], rows: &[[String; N]], view: View) -> String {
    let mut widths = headings.map(|it| it.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let total = widths.iter().map(|width| width + 2).sum::<usize>() - 2;
    let is_wide = view.width.is_some_and(|width| total > width);
    let line = |cells: [&str; N]| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| match is_wide {
            true => format!("{cell} "),
            false => format!("{cell:width$}  "),
        });
        padded.collect::<String>().trim_end().to_owned()
    };
    let mut out = String::new();
    if !is_wide {
        let _ = writeln!(out, "{}", view.style.quiet(line(headings)));
    }
    for row in rows {
        let line = line(row.each_ref().map(String::as_str));
        let _ = writeln!(out, "{}", folded(&line, INDENT, view.width));
    }
    out
}

/// Formats a resource that differs, and the version of each replica below it.
fn differing(resource: &DifferingResource<'_>, view: View) -> String {
    let mut out = resource_name(resource) + "\n";
    for ReplicaVersion { replica, version, older_by } in &resource.versions {
        let version = if version.is_empty() { "missing".to_owned() } else { escaped(version) };
        let older = match older_by {
            None => String::new(),
            Some(1) => ", older by 1 revision".to_owned(),
            Some(by) => format!(", older by {by} revisions"),
        };
        let line = format!("{:INDENT$}{}  {version}{older}", "", escaped(replica));
        let _ = writeln!(out, "{}", folded(&line, INDENT + 2, view.width));
    }
    out
}

fn resource_name(resource: &DifferingResource<'_>) -> String {
    let name = format!("{} {} differs", escaped(resource.type_name), escaped(resource.name));
    match resource.scope {
        "" => name,
        scope => format!("{name} in {}", escaped(scope)),
    }
}

/// Formats a change of `--watch`.
pub(super) fn change(change: &RowChange<'_>, view: View) -> String {
    let sign = match change.kind {
        RowChangeKind::Added => view.style.good("+"),
        RowChangeKind::Changed => view.style.notable("~"),
        RowChangeKind::Removed => view.style.bad("-"),
    };
    let text = match (change.row, change.kind) {
        (StatusRow::Replica(row), _) => {
            let [address, revision, behind, clients, streams, source] = replica_cells(row);
            match row.state {
                Ok(_) => format!(
                    "{address}  revision {revision}, behind {behind}, clients {clients}, \
                     streams {streams}, {source}"
                ),
                Err(_) => format!("{address}  {source}"),
            }
        }
        (StatusRow::Client(row), RowChangeKind::Removed) => {
            format!("{}  {}", client_name(row), row.type_name)
        }
        (StatusRow::Client(row), _) => {
            let [client, type_name, total, status, replicas] = client_cells(row);
            format!("{client}  {type_name}  {total} {status} at {replicas}")
        }
        (StatusRow::Differing(row), RowChangeKind::Removed) => resource_name(row),
        (StatusRow::Differing(row), _) => differing(row, view).trim_end().to_owned(),
    };
    format!("{}  {sign} {text}", view.style.quiet(Layout::of_stdout().time()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        commands::status::replicas::{
            events::changes,
            merge::{merge, tests::answers},
        },
        style::Style,
    };

    const IN_FILE: View = View { style: Style::PLAIN, width: None };

    #[test]
    fn replicas_clients_and_differing_resources_are_shown() {
        let answers = answers();
        assert_eq!(
            text(&merge(&answers), IN_FILE),
            "REPLICA  REVISION  BEHIND  CLIENTS  STREAMS  SOURCE\n\
             a:1      120       -       1        1        reachable\n\
             b:1      118       2       2        2        source unreachable for 12s\n\
             c:1      -         -       -        -        cannot be read: refused\n\
             \n\
             CLIENT  TYPE  RESOURCES  STATUS                REPLICAS\n\
             m       cds   3          2 SYNCED, 1 NOT_SENT  b:1\n\
             n       cds   3          SYNCED                a:1, b:1\n\
             \n\
             ~ cds api differs\n    \
             a:1  120-bb\n    \
             b:1  110-cc, older by 10 revisions\n"
        );
    }

    #[test]
    fn lines_fit_a_terminal() {
        let answers = answers();
        let shown = text(&merge(&answers), View { width: Some(40), ..IN_FILE });
        assert!(shown.lines().all(|line| line.chars().count() <= 40), "{shown}");
    }

    #[test]
    fn changes_are_lines() {
        let (before, mut now) = (answers(), answers());
        now.truncate(1);
        let (before, now) = (merge(&before), merge(&now));
        let lines: Vec<_> = changes(&before, &now)
            .iter()
            .map(|it| change(it, IN_FILE).split_once("  ").unwrap().1.to_owned())
            .collect();
        assert_eq!(
            lines,
            [
                "~ n  cds  2 SYNCED at a:1",
                "- b:1  revision 118, behind 2, clients 2, streams 2, source unreachable for 12s",
                "- c:1  cannot be read: refused",
                "- m  cds",
                "- cds api differs",
            ]
        );
    }
}
