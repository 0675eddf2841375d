//! Output format `table`: the resources of each client.

use std::fmt::Write as _;

use super::{
    fold::{View, folded},
    source,
};
use crate::{
    client_status::{
        Acceptance, ClientReport, ResourceRow, ResourceStatus, StatusReport, UpdateError,
    },
    style::{Coloured, Style},
    text::escaped,
};

/// Maximum number of characters of the error of a resource.
const REASON: usize = 400;
/// Number of characters before the omitted part of a longer error.
const BEGIN: usize = 100;
/// Indentation of lines below a resource.
const INDENT: usize = 6;

const HEADINGS: [&str; 4] = ["TYPE", "NAME", "VERSION", "LAST UPDATED"];

/// Formats a report.
pub(super) fn table(report: &StatusReport, view: View) -> String {
    let problem = report.source.as_ref().and_then(source::problem);
    let problem = problem.map(|it| format!("{}\n\n", view.style.notable(it)));
    let problem = problem.unwrap_or_default();
    if report.clients.is_empty() {
        return problem + "no clients\n";
    }
    let clients: Vec<_> = report.clients.iter().map(|client| section(client, view)).collect();
    problem + &clients.join("\n")
}

fn section(client: &ClientReport, view: View) -> String {
    let mut out = String::new();
    let heading = folded(&heading(client), 2, view.width);
    let _ = writeln!(out, "{}", view.style.strong(heading));
    if client.rows.is_empty() {
        out.push_str("no resources\n");
        return out;
    }
    let cells: Vec<[String; 4]> = client.rows.iter().map(cells).collect();
    let mut widths = HEADINGS.map(str::len);
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let longest = client.rows.iter().map(|row| row.status.name().len()).max().unwrap_or_default();
    let total = widths.iter().map(|width| width + 2).sum::<usize>() + longest.max("STATUS".len());
    let is_folded = view.width.is_some_and(|width| total > width);
    if !is_folded {
        let mut line = String::new();
        for (width, heading) in widths.iter().zip(HEADINGS) {
            let _ = write!(line, "{heading:width$}  ");
        }
        let _ = writeln!(out, "{}", view.style.quiet(line + "STATUS"));
    }
    for (row, cells) in client.rows.iter().zip(&cells) {
        if is_folded {
            push_folded(&mut out, row, cells, view);
        } else {
            for (width, cell) in widths.iter().zip(cells) {
                let _ = write!(out, "{cell:width$}  ");
            }
            let _ = writeln!(out, "{}", coloured(row.status, view.style));
        }
        if let Some(error) = &row.error {
            let text = format!("{:INDENT$}{}", "", reason(error));
            let _ = writeln!(out, "{}", folded(&text, INDENT + 2, view.width));
        }
    }
    out
}

/// Describes a client.
pub(super) fn heading(client: &ClientReport) -> String {
    let node = match client.node.as_str() {
        "" => "(no node id)".to_owned(),
        node => escaped(node),
    };
    match client.scope.as_str() {
        "" => node,
        scope => format!("{node} {}", escaped(scope)),
    }
}

fn cells(row: &ResourceRow) -> [String; 4] {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { escaped(text) };
    [
        escaped(row.type_name()),
        or_dash(&row.name),
        or_dash(&row.version),
        row.last_updated.as_deref().map_or_else(|| "-".to_owned(), time),
    ]
}

/// Prints a row that is too wide for the table: the name first, then the other columns.
fn push_folded(out: &mut String, row: &ResourceRow, cells: &[String; 4], view: View) {
    let [type_name, name, version, updated] = cells;
    let _ = writeln!(out, "{}", folded(&format!("{type_name} {name}"), INDENT, view.width));
    let status = row.status.name();
    let mut rest = format!("{:INDENT$}{status}", "");
    if !row.version.is_empty() {
        let _ = write!(rest, " version {version}");
    }
    if row.last_updated.is_some() {
        let _ = write!(rest, " updated {updated}");
    }
    let rest = folded(&rest, INDENT + 2, view.width);
    // The colour does not count for the width.
    let _ = writeln!(
        out,
        "{}",
        rest.replacen(status, &coloured(row.status, view.style).to_string(), 1)
    );
}

fn coloured(status: ResourceStatus, style: Style) -> Coloured<&'static str> {
    let name = status.name();
    match (status.acceptance(), status) {
        (_, ResourceStatus::Static | ResourceStatus::Draining) => style.quiet(name),
        (_, ResourceStatus::Stale | ResourceStatus::Warming) => style.notable(name),
        (Acceptance::Accepted, _) => style.good(name),
        (Acceptance::Rejected, _) => style.bad(name),
        (Acceptance::Absent, _) => style.notable(name),
    }
}

/// Describes the error of an update: its version, its time and the details.
pub(super) fn reason(error: &UpdateError) -> String {
    let mut out = "error".to_owned();
    if !error.version.is_empty() {
        let _ = write!(out, " in version {}", escaped(&error.version));
    }
    if let Some(at) = &error.time {
        let _ = write!(out, " at {}", time(at));
    }
    match condensed(&error.details) {
        details if details.is_empty() => out,
        details => format!("{out}: {details}"),
    }
}

/// Returns a text on one line. Of a long text the middle is omitted: Envoy quotes the resource before
/// it states the reason.
fn condensed(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let characters: Vec<char> = escaped(&words.join(" ")).chars().collect();
    match characters.len().checked_sub(REASON) {
        None | Some(0) => characters.into_iter().collect(),
        Some(more) => {
            let (begin, rest) = characters.split_at(BEGIN.min(characters.len()));
            let end = rest.iter().skip(more + 1);
            begin.iter().chain(&['…']).chain(end).collect()
        }
    }
}

/// Shortens a timestamp to milliseconds.
fn time(timestamp: &str) -> String {
    let shortened = timestamp.split_once('.').and_then(|(seconds, fraction)| {
        let digits = fraction.strip_suffix('Z')?;
        let millis = digits.get(..3)?;
        Some(format!("{seconds}.{millis}Z"))
    });
    escaped(&shortened.unwrap_or_else(|| timestamp.to_owned()))
}

#[cfg(test)]
mod tests {
    use xds_core::types;

    use super::*;
    use crate::client_status::tests::{client, row};

    const ON_TERMINAL: View = View { style: Style::PLAIN, width: Some(80) };
    const IN_FILE: View = View { style: Style::PLAIN, width: None };

    fn report(name: &str) -> StatusReport {
        let error = UpdateError {
            details: format!("bad\x1b[31m: {}\nmore", "word ".repeat(12)),
            version: "8".into(),
            time: Some("2026-01-02T03:04:06.123456789Z".into()),
        };
        let nacked = ResourceRow {
            status: ResourceStatus::Nacked,
            error: Some(error),
            ..row(types::LISTENER, "l", "7")
        };
        let requested = ResourceRow {
            status: ResourceStatus::Requested,
            last_updated: None,
            ..row(types::CLUSTER_LOAD_ASSIGNMENT, name, "")
        };
        let mut second = client("", Vec::new());
        second.scope = "xds:///b".into();
        let rows = vec![row(types::CLUSTER, "api", "9f31c2aa"), requested, nacked];
        StatusReport { clients: vec![client("node-1", rows), second], ..StatusReport::default() }
    }

    #[test]
    fn table_has_a_section_for_each_client() {
        let error = format!("bad\\u{{1b}}[31m: {}more", "word ".repeat(12));
        assert_eq!(
            table(&report("e"), IN_FILE),
            format!(
                "node-1\n\
                 TYPE  NAME  VERSION   LAST UPDATED              STATUS\n\
                 cds   api   9f31c2aa  2026-01-02T03:04:05.678Z  ACKED\n\
                 eds   e     -         -                         REQUESTED\n\
                 lds   l     7         2026-01-02T03:04:05.678Z  NACKED\n      \
                 error in version 8 at 2026-01-02T03:04:06.123Z: {error}\n\
                 \n\
                 (no node id) xds:///b\n\
                 no resources\n"
            )
        );
        assert_eq!(table(&StatusReport::default(), IN_FILE), "no clients\n");
    }

    #[test]
    fn middle_of_a_long_error_is_omitted() {
        assert_eq!(condensed(" a\n b\t c "), "a b c");
        let exact = "x".repeat(REASON);
        assert_eq!(condensed(&exact), exact);
        let text = format!("begin {} the reason", "é".repeat(1_000));
        let shown = condensed(&text);
        assert_eq!(shown.chars().count(), REASON);
        assert!(shown.starts_with("begin é") && shown.ends_with("é the reason"), "{shown}");
        assert_eq!(shown.matches('…').count(), 1);
    }

    #[test]
    fn lines_fit_a_terminal() {
        let name = "outbound|8080||a-service-with-a-long-name.a-namespace.svc.cluster.local";
        let very_long = "x".repeat(200);
        for name in ["e", name, &very_long] {
            let text = table(&report(name), ON_TERMINAL);
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(80), "{widest:?}\n{text}");
            let together: String = text.split_whitespace().collect();
            assert!(together.contains(name), "{text}");
        }
        assert_eq!(
            table(&report(name), ON_TERMINAL),
            format!(
                "node-1\n\
                 cds api\n      ACKED version 9f31c2aa updated 2026-01-02T03:04:05.678Z\n\
                 eds {name}\n      REQUESTED\n\
                 lds l\n      NACKED version 7 updated 2026-01-02T03:04:05.678Z\n      \
                 error in version 8 at 2026-01-02T03:04:06.123Z: bad\\u{{1b}}[31m: word word\n        \
                 word word word word word word word word word word more\n\
                 \n\
                 (no node id) xds:///b\n\
                 no resources\n"
            )
        );
    }
}
