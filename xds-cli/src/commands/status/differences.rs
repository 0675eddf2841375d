//! Output of a comparison.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use super::{
    compare::{Comparison, DifferenceKind, RowDifference, compare},
    fold::{View, folded},
    table::reason,
};
use crate::{
    args::StatusOutput,
    client_status::{ResourceRow, StatusReport},
    failure::{Failure, judged},
    output,
    text::{escaped, one_line},
};

/// Maximum number of changed fields that are listed for people.
const MOST_FIELDS: usize = 20;
/// Maximum number of characters of a listed field.
const FIELD: usize = 200;
/// Indentation of lines below a resource.
const INDENT: usize = 4;

/// Prints the comparison of two reports, which have been sorted.
///
/// # Errors
///
/// Returns [`Failure::Different`] if they differ.
pub(super) fn print(
    names: &[String],
    reports: &[StatusReport; 2],
    format: StatusOutput,
    view: View,
) -> Result<(), Failure> {
    let [first, second] = reports;
    let comparison = compare(first, second);
    let text = match format {
        StatusOutput::Ndjson => ndjson(&comparison),
        StatusOutput::Json => document(names, &comparison),
        StatusOutput::Table | StatusOutput::Yaml => lines(names, &comparison, view),
    };
    let verdict = match u32::try_from(comparison.differences.len()).unwrap_or(u32::MAX) {
        0 => Ok(()),
        differences => Err(Failure::Different(differences)),
    };
    judged(output::print(&text), verdict)
}

fn lines(names: &[String], comparison: &Comparison<'_>, view: View) -> String {
    let mut out = String::new();
    for (which, name) in ["first ", "second"].into_iter().zip(names) {
        let _ = writeln!(out, "{which}  {}", view.style.strong(name));
    }
    for difference in &comparison.differences {
        push(&mut out, difference, view);
    }
    let count = |is_it: fn(&DifferenceKind<'_>) -> bool| {
        comparison.differences.iter().filter(|it| is_it(&it.kind)).count()
    };
    let only_first = count(|it| matches!(it, DifferenceKind::OnlyFirst(_)));
    let only_second = count(|it| matches!(it, DifferenceKind::OnlySecond(_)));
    let different = comparison.differences.len() - only_first - only_second;
    let same = comparison.same;
    let _ = writeln!(
        out,
        "{same} same, {different} different, {only_first} only in the first, {only_second} only in \
         the second"
    );
    out
}

fn push(out: &mut String, difference: &RowDifference<'_>, view: View) {
    let RowDifference { node, kind } = difference;
    let (first, second) = kind.rows();
    let Some(row) = first.or(second) else { return };
    let mut subject = format!("{} {}", escaped(row.type_name()), escaped(&row.name));
    if !node.is_empty() {
        let _ = write!(subject, " of {}", escaped(node));
    }
    let style = view.style;
    let (sign, what) = match kind {
        DifferenceKind::OnlyFirst(row) => {
            (style.bad("-"), format!("only in the first, {}", row.status.name()))
        }
        DifferenceKind::OnlySecond(row) => {
            (style.good("+"), format!("only in the second, {}", row.status.name()))
        }
        DifferenceKind::Status(first, second) => {
            let (first, second) = (first.status.name(), second.status.name());
            (style.notable("~"), format!("{first} → {second}"))
        }
        DifferenceKind::Version(first, second) | DifferenceKind::Content(first, second, _) => {
            (style.notable("~"), versions(first, second))
        }
    };
    let width = view.width.map(|width| width - 2);
    let _ = writeln!(out, "{sign} {}", folded(&format!("{subject} {what}"), INDENT, width));
    match kind {
        DifferenceKind::Content(.., fields) => {
            for field in fields.iter().take(MOST_FIELDS) {
                let field = format!("{:INDENT$}{}", "", one_line(field, FIELD));
                let _ = writeln!(out, "{}", folded(&field, INDENT + 2, view.width));
            }
            if let Some(more) = fields.len().checked_sub(MOST_FIELDS).filter(|&more| more > 0) {
                let _ = writeln!(out, "{:INDENT$}and {more} more", "");
            }
        }
        DifferenceKind::Status(first, second) => {
            for row in [first, second] {
                if let Some(error) = &row.error {
                    let status = row.status.name();
                    let error = format!("{:INDENT$}{status}: {}", "", reason(error));
                    let _ = writeln!(out, "{}", folded(&error, INDENT + 2, view.width));
                }
            }
        }
        _ => {}
    }
}

fn versions(first: &ResourceRow, second: &ResourceRow) -> String {
    let or_dash = |version: &str| if version.is_empty() { "-".into() } else { escaped(version) };
    let (first, second) = (or_dash(&first.version), or_dash(&second.version));
    if first == second {
        format!("version {first}")
    } else {
        format!("version {first} → {second}")
    }
}

fn object(difference: &RowDifference<'_>) -> Json {
    let (first, second) = difference.kind.rows();
    let side = |row: Option<&ResourceRow>| {
        row.map(|row| json!({ "version": row.version, "status": row.status.name() }))
    };
    let row = first.or(second);
    let mut object = json!({
        "node": difference.node,
        "type": row.map(ResourceRow::type_name),
        "name": row.map(|row| &row.name),
        "difference": difference.kind.name(),
        "first": side(first),
        "second": side(second),
    });
    if let DifferenceKind::Content(.., fields) = &difference.kind {
        object["fields"] = fields.clone().into();
    }
    object
}

fn document(names: &[String], comparison: &Comparison<'_>) -> String {
    let differences: Vec<_> = comparison.differences.iter().map(object).collect();
    let (first, second) = (names.first(), names.get(1));
    let document = json!({
        "first": first, "second": second, "same": comparison.same, "differences": differences,
    });
    format!("{document:#}\n")
}

fn ndjson(comparison: &Comparison<'_>) -> String {
    let mut out = String::new();
    let compared = json!({ "event": "compared", "same": comparison.same });
    let events = comparison.differences.iter().map(|difference| {
        let mut event = json!({ "event": "difference" });
        if let (Json::Object(event), Json::Object(members)) = (&mut event, object(difference)) {
            event.extend(members);
        }
        event
    });
    for event in events.chain([compared]) {
        let _ = writeln!(out, "{}", output::event_line(event));
    }
    out
}
