//! Table of the subscriptions of all streams and the versions that clients accepted.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use xds_core::server::{SubscribedNames, SyncState};
use xds_tokio::server::SubscriptionSnapshot;

use crate::{
    style::Style,
    text::{one_line, reason_line, type_name},
};

/// One type on one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) node: String,
    pub(crate) stream: String,
    pub(crate) type_name: String,
    pub(crate) subscribed: Subscribed,
    /// Last version sent; empty if none was.
    pub(crate) sent: String,
    /// Last version ACKed; empty if none was.
    pub(crate) acked: String,
    pub(crate) state: RowState,
    pub(crate) responses: u64,
    pub(crate) acks: u64,
    pub(crate) nacks: u64,
    /// Reason of the last NACK, in the words of the client.
    pub(crate) error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subscribed {
    All,
    Names(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowState {
    Waiting,
    Sent,
    Acked,
    Nacked,
    /// The stream has ended, or the client has unsubscribed from the type.
    Gone,
}

impl RowState {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "WAITING",
            Self::Sent => "SENT",
            Self::Acked => "ACKED",
            Self::Nacked => "NACKED",
            Self::Gone => "GONE",
        }
    }
}

impl From<SubscriptionSnapshot> for Row {
    fn from(snapshot: SubscriptionSnapshot) -> Self {
        let version = |version: Option<xds_core::Version>| version.map(|it| it.as_str().to_owned());
        Self {
            node: snapshot.node_id,
            stream: snapshot.stream.to_string(),
            type_name: type_name(snapshot.type_url.as_str()).to_owned(),
            subscribed: match snapshot.subscribed {
                SubscribedNames::Wildcard | SubscribedNames::WildcardAndNames(_) => Subscribed::All,
                SubscribedNames::Names(count) => Subscribed::Names(count),
                _ => Subscribed::Names(0),
            },
            sent: version(snapshot.sent_version).unwrap_or_default(),
            acked: version(snapshot.acked_version).unwrap_or_default(),
            state: match snapshot.state {
                SyncState::Sent => RowState::Sent,
                SyncState::Acked => RowState::Acked,
                SyncState::Nacked => RowState::Nacked,
                _ => RowState::Waiting,
            },
            responses: snapshot.responses,
            acks: snapshot.acks,
            nacks: snapshot.nacks,
            error: snapshot.last_error,
        }
    }
}

/// All rows, and the rows that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowChanges {
    pub(crate) rows: Vec<Row>,
    /// New and changed rows in order, followed by removed rows.
    pub(crate) changed: Vec<Row>,
}

impl RowChanges {
    /// Compares `rows` with the rows before.
    pub(crate) fn between(before: &[Row], rows: Vec<Row>) -> Self {
        let before: BTreeMap<_, _> = before.iter().map(|row| (row.key(), row)).collect();
        let keys: BTreeSet<_> = rows.iter().map(Row::key).collect();
        let changed = rows.iter().filter(|row| before.get(&row.key()) != Some(row));
        let gone = before.iter().filter(|(key, _)| !keys.contains(*key));
        let gone = gone.map(|(_, &row)| Row { state: RowState::Gone, error: None, ..row.clone() });
        let changed = changed.cloned().chain(gone).collect();
        Self { rows, changed }
    }
}

impl Row {
    /// Stream and type, which identify a row.
    fn key(&self) -> (&str, &str) {
        (&self.stream, &self.type_name)
    }
}

/// Number of characters of a version that are shown.
const VERSION: usize = 8;
/// Number of characters of a NACK's reason that are shown. Envoy's have about 150, without the
/// resource that they quote.
const REASON: usize = 200;
/// Number of characters of a node id or type name that are shown.
const NAME: usize = 40;

const HEADINGS: [&str; 9] =
    ["NODE", "STREAM", "TYPE", "SUBSCRIBED", "RESPONSES", "ACKS", "NACKS", "SENT", "ACKED"];

/// Columns of a table.
const ALL: [usize; 9] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
/// Columns of a table for a narrow terminal: all except the counters.
const NARROW: [usize; 6] = [0, 1, 2, 3, 7, 8];
/// Index of the node id and of the type, which are shortened in a narrow table in this order.
const LONG: [usize; 2] = [0, 2];
/// Number of characters to which a node id or a type is shortened at most, with the ellipsis.
const SHORTEST: usize = 8;
/// Length of the longest state.
const STATE: usize = "WAITING".len();

/// Formats the rows as a table, one line each. The reason of a NACK is at the end.
pub(crate) fn table(rows: &[Row], style: Style) -> String {
    let cells: Vec<_> = rows.iter().map(cells).collect();
    formatted(rows, &cells, style, &ALL)
}

/// Formats the rows as a table whose states are within this number of columns. If it is too wide,
/// the counters are omitted. If that is not enough, long node ids and types are shortened.
pub(crate) fn table_within(width: usize, rows: &[Row], style: Style) -> String {
    let mut cells: Vec<_> = rows.iter().map(cells).collect();
    let needed = |cells: &[_], columns: &[usize]| {
        let widths = widths(cells);
        columns.iter().map(|&column| widths[column] + GAP.len()).sum::<usize>() + STATE
    };
    if needed(&cells, &ALL) <= width {
        return formatted(rows, &cells, style, &ALL);
    }
    for column in LONG {
        let excess = needed(&cells, &NARROW).saturating_sub(width);
        let longest = widths(&cells)[column].saturating_sub(excess).max(SHORTEST);
        for cell in cells.iter_mut().map(|row| &mut row[column]) {
            if cell.chars().count() > longest {
                *cell = cell.chars().take(longest - 1).chain(['…']).collect();
            }
        }
    }
    formatted(rows, &cells, style, &NARROW)
}

/// Space between two columns.
const GAP: &str = "  ";

/// Returns the width of each column.
fn widths(cells: &[[String; 9]]) -> [usize; 9] {
    let mut widths = HEADINGS.map(str::len);
    for row in cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths
}

fn formatted(rows: &[Row], cells: &[[String; 9]], style: Style, columns: &[usize]) -> String {
    let widths = widths(cells);
    let mut out = String::new();
    let mut heading = String::new();
    for &column in columns {
        let _ = write!(heading, "{:width$}{GAP}", HEADINGS[column], width = widths[column]);
    }
    let _ = writeln!(out, "{}", style.strong(heading + "STATE"));
    for (row, cells) in rows.iter().zip(cells) {
        for &column in columns {
            let _ = write!(out, "{:width$}{GAP}", cells[column], width = widths[column]);
        }
        let state = row.state.name();
        let _ = match row.state {
            RowState::Acked => write!(out, "{}", style.good(state)),
            RowState::Nacked => write!(out, "{}", style.bad(state)),
            RowState::Sent => write!(out, "{}", style.notable(state)),
            RowState::Waiting | RowState::Gone => write!(out, "{}", style.quiet(state)),
        };
        if let Some(error) = &row.error {
            let _ = write!(out, ": {}", reason_line(error, REASON));
        }
        out.push('\n');
    }
    out
}

fn cells(row: &Row) -> [String; 9] {
    let version = |version: &str| match version {
        "" => "-".to_owned(),
        version => version.chars().take(VERSION).collect(),
    };
    [
        one_line(&row.node, NAME),
        row.stream.clone(),
        one_line(&row.type_name, NAME),
        match row.subscribed {
            Subscribed::All => "*".to_owned(),
            Subscribed::Names(count) => count.to_string(),
        },
        row.responses.to_string(),
        row.acks.to_string(),
        row.nacks.to_string(),
        version(&row.sent),
        version(&row.acked),
    ]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn row() -> Row {
        Row {
            node: "envoy-1".into(),
            stream: "s1".into(),
            type_name: "cds".into(),
            subscribed: Subscribed::All,
            sent: "9f31c2aa01bb02cc".into(),
            acked: "81aa00bb11cc22dd".into(),
            state: RowState::Nacked,
            responses: 2,
            acks: 1,
            nacks: 1,
            error: Some("bad cluster:\nname: x\n".into()),
        }
    }

    #[test]
    fn only_changed_rows_are_reported() {
        let of = |stream: &str, type_name: &str| Row {
            stream: stream.into(),
            type_name: type_name.into(),
            ..row()
        };
        let before = [of("s1", "cds"), of("s1", "eds"), of("s2", "cds")];
        let acked = Row { state: RowState::Acked, error: None, ..of("s1", "eds") };
        let rows = vec![of("s1", "cds"), acked.clone(), of("s3", "lds")];
        let changes = RowChanges::between(&before, rows.clone());
        let gone = Row { state: RowState::Gone, error: None, ..of("s2", "cds") };
        assert_eq!(changes.changed, [acked, of("s3", "lds"), gone]);
        assert_eq!(changes.rows, rows);
        assert_eq!(RowChanges::between(&rows, rows.clone()).changed, []);
    }

    #[test]
    fn table_shows_the_state_within_the_width_of_the_terminal() {
        let acked = Row { state: RowState::Acked, error: None, ..row() };
        assert_eq!(
            table_within(80, core::slice::from_ref(&acked), Style::PLAIN),
            "NODE     STREAM  TYPE  SUBSCRIBED  SENT      ACKED     STATE\n\
             envoy-1  s1      cds   *           9f31c2aa  81aa00bb  ACKED\n"
        );
        let node = "sidecar~10.244.1.23~reviews-v1-7bf8c9648f-4zkvx.default";
        let long = Row { node: node.into(), ..acked.clone() };
        assert_eq!(
            table_within(80, &[long.clone(), acked.clone()], Style::PLAIN),
            "NODE                       STREAM  TYPE  SUBSCRIBED  SENT      ACKED     STATE\n\
             sidecar~10.244.1.23~revi…  s1      cds   *           9f31c2aa  81aa00bb  ACKED\n\
             envoy-1                    s1      cds   *           9f31c2aa  81aa00bb  ACKED\n"
        );
        let url = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
        let waiting = RowState::Waiting;
        let longest = Row { type_name: url.into(), state: waiting, ..long };
        let widest = |table: &str| table.lines().map(|line| line.chars().count()).max();
        for rows in [[longest, acked.clone()], [acked.clone(), acked]] {
            let all = table(&rows, Style::PLAIN);
            for width in 70..150 {
                let table = table_within(width, &rows, Style::PLAIN);
                assert!(widest(&table) <= Some(width), "{width}\n{table}");
                // The width is that of the longest state.
                assert!(table == all || widest(&all) > Some(width - 2), "{width}\n{table}");
            }
        }
    }

    #[test]
    fn status_table_has_one_line_per_row() {
        let waiting = Row {
            type_name: "eds".into(),
            subscribed: Subscribed::Names(12),
            sent: String::new(),
            acked: String::new(),
            state: RowState::Waiting,
            error: None,
            ..row()
        };
        assert_eq!(
            table(&[row(), waiting], Style::PLAIN),
            "NODE     STREAM  TYPE  SUBSCRIBED  RESPONSES  ACKS  NACKS  SENT      ACKED     STATE\n\
             envoy-1  s1      cds   *           2          1     1      9f31c2aa  81aa00bb  NACKED: bad cluster:…\n\
             envoy-1  s1      eds   12          2          1     1      -         -         WAITING\n"
        );
    }
}
