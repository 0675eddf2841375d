//! Comparison of two reports, client by client and resource by resource.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    client_status::{Acceptance, ResourceRow, ResourceStatus, StatusReport},
    json_diff::differences,
};

/// Result of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Comparison<'a> {
    /// Number of equal resources.
    pub(super) same: u32,
    /// Resources that differ, by node, type and name.
    pub(super) differences: Vec<RowDifference<'a>>,
}

/// Resource that differs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowDifference<'a> {
    pub(super) node: &'a str,
    pub(super) kind: DifferenceKind<'a>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum DifferenceKind<'a> {
    /// One of the clients has the resource, and the other one lacks or rejected it.
    Status(&'a ResourceRow, &'a ResourceRow),
    /// The contents differ, in these fields.
    Content(&'a ResourceRow, &'a ResourceRow, Vec<String>),
    /// The versions differ, and the contents are not known or are hidden.
    Version(&'a ResourceRow, &'a ResourceRow),
    OnlyFirst(&'a ResourceRow),
    OnlySecond(&'a ResourceRow),
}

impl<'a> DifferenceKind<'a> {
    /// Name in NDJSON and JSON.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Status(..) => "status",
            Self::Content(..) => "content",
            Self::Version(..) => "version",
            Self::OnlyFirst(_) => "only_first",
            Self::OnlySecond(_) => "only_second",
        }
    }

    /// Returns the resource in the first and in the second report.
    pub(super) const fn rows(&self) -> (Option<&'a ResourceRow>, Option<&'a ResourceRow>) {
        match *self {
            Self::Status(first, second)
            | Self::Content(first, second, _)
            | Self::Version(first, second) => (Some(first), Some(second)),
            Self::OnlyFirst(first) => (Some(first), None),
            Self::OnlySecond(second) => (None, Some(second)),
        }
    }
}

type RowKey<'a> = (&'a str, &'a str, &'a str);

/// Compares two reports.
///
/// Clients are paired by their node id; a single client on each side is a pair in any case. If one
/// side has a single client that the other side knows too, as with a client's own view, the other
/// clients are not compared.
///
/// Resources are equal if their contents are. A version decides only if contents are not known on
/// both sides, because servers and clients may state different versions of the same contents: that
/// of the resource, and that of the response.
pub(super) fn compare<'a>(first: &'a StatusReport, second: &'a StatusReport) -> Comparison<'a> {
    let (left, right) = (nodes(first), nodes(second));
    let are_paired = left.len() == 1 && right.len() == 1;
    let chosen: Option<BTreeSet<&str>> = match (left.len(), right.len()) {
        (1, 2..) | (2.., 1) if !left.is_disjoint(&right) => {
            Some(left.intersection(&right).copied().collect())
        }
        _ => None,
    };
    let is_static_compared = [first, second].iter().all(|report| has_static(report));
    let rows = |report: &'a StatusReport| {
        let mut found: BTreeMap<RowKey<'a>, &'a ResourceRow> = BTreeMap::new();
        for client in &report.clients {
            if chosen.as_ref().is_some_and(|chosen| !chosen.contains(&*client.node)) {
                continue;
            }
            let node = if are_paired { "" } else { &*client.node };
            for row in client.rows.iter().filter(|row| match row.status {
                ResourceStatus::Static => is_static_compared,
                ResourceStatus::Draining => false,
                _ => true,
            }) {
                // Rows are sorted: an active state comes before a warming one.
                found.entry((node, row.type_name(), &*row.name)).or_insert(row);
            }
        }
        found
    };
    let (left_rows, right_rows) = (rows(first), rows(second));
    let mut comparison = Comparison::default();
    let keys: BTreeSet<_> = left_rows.keys().chain(right_rows.keys()).copied().collect();
    for key in keys {
        let kind = match (left_rows.get(&key), right_rows.get(&key)) {
            (Some(first), Some(second)) => difference(first, second),
            (Some(first), None) => Some(DifferenceKind::OnlyFirst(first)),
            (None, Some(second)) => Some(DifferenceKind::OnlySecond(second)),
            (None, None) => None,
        };
        match kind {
            Some(kind) => comparison.differences.push(RowDifference { node: key.0, kind }),
            None => comparison.same += 1,
        }
    }
    comparison
}

fn nodes(report: &StatusReport) -> BTreeSet<&str> {
    report.clients.iter().map(|client| client.node.as_str()).collect()
}

fn has_static(report: &StatusReport) -> bool {
    let mut rows = report.clients.iter().flat_map(|client| &client.rows);
    rows.any(|row| row.status == ResourceStatus::Static)
}

fn difference<'a>(first: &'a ResourceRow, second: &'a ResourceRow) -> Option<DifferenceKind<'a>> {
    let acceptance = first.status.acceptance();
    if acceptance != second.status.acceptance() {
        return Some(DifferenceKind::Status(first, second));
    }
    if acceptance == Acceptance::Absent {
        return None;
    }
    if let (Some(left), Some(right)) = (&first.content, &second.content) {
        if left.is_same_as(right) {
            return None;
        }
        let fields = differences(&left.json, &right.json);
        if !fields.is_empty() {
            let fields = fields.iter().map(ToString::to_string).collect();
            return Some(DifferenceKind::Content(first, second, fields));
        }
    }
    (first.version != second.version).then_some(DifferenceKind::Version(first, second))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use xds_core::types;

    use super::*;
    use crate::client_status::{
        ClientReport, Content,
        tests::{client, row},
    };

    fn report(clients: Vec<ClientReport>) -> StatusReport {
        StatusReport { clients, ..StatusReport::default() }
    }

    fn cluster(name: &str, version: &str, timeout: &str) -> ResourceRow {
        let json = json!({ "@type": types::CLUSTER, "name": name, "connect_timeout": timeout });
        ResourceRow { content: Some(Content::of_json(&json)), ..row(types::CLUSTER, name, version) }
    }

    fn shown(first: &StatusReport, second: &StatusReport) -> (u32, Vec<String>) {
        let comparison = compare(first, second);
        let line = |it: &RowDifference<'_>| {
            let (first, second) = it.kind.rows();
            let name = &first.or(second).unwrap().name;
            let fields = match &it.kind {
                DifferenceKind::Content(.., fields) => fields.join(" "),
                _ => String::new(),
            };
            format!("{} {name} {} {fields}", it.node, it.kind.name()).trim().to_owned()
        };
        (comparison.same, comparison.differences.iter().map(line).collect())
    }

    #[test]
    fn contents_decide_and_versions_only_without_them() {
        let status = |status, row: ResourceRow| ResourceRow { status, ..row };
        let bare = |name, version| row(types::CLUSTER, name, version);
        let first = report(vec![client(
            "n",
            vec![
                cluster("same", "1", "1s"),
                cluster("other", "1", "1s"),
                bare("version", "1"),
                bare("equal", "1"),
                status(ResourceStatus::Nacked, cluster("rejected", "1", "1s")),
                status(ResourceStatus::Requested, bare("absent", "")),
                bare("gone", "1"),
                status(ResourceStatus::Draining, bare("drained", "1")),
            ],
        )]);
        let second = report(vec![client(
            "n",
            vec![
                status(ResourceStatus::Synced, cluster("same", "2", "1s")),
                cluster("other", "1", "2s"),
                cluster("version", "2", "1s"),
                bare("equal", "1"),
                cluster("rejected", "1", "1s"),
                status(ResourceStatus::DoesNotExist, bare("absent", "")),
                bare("new", "1"),
            ],
        )]);
        let expected = [
            "gone only_first",
            "new only_second",
            "other content connect_timeout: \"1s\" → \"2s\"",
            "rejected status",
            "version version",
        ];
        assert_eq!(shown(&first, &second), (3, expected.map(str::to_owned).to_vec()));
        assert_eq!(shown(&first, &first).1, [""; 0]);
    }

    #[test]
    fn clients_are_paired_by_node() {
        let with =
            |node: &str, version: &str| client(node, vec![row(types::CLUSTER, "a", version)]);
        let (one, other) = (report(vec![with("n", "1")]), report(vec![with("m", "1")]));
        assert_eq!(shown(&one, &other), (1, Vec::new()), "single clients are a pair");
        let many = report(vec![with("m", "2"), with("n", "1")]);
        assert_eq!(shown(&many, &one), (1, Vec::new()), "only the client of both sides counts");
        let others = report(vec![with("n", "1"), with("o", "1")]);
        let expected = ["m a only_first", "o a only_second"];
        assert_eq!(shown(&many, &others), (1, expected.map(str::to_owned).to_vec()));
        let nobody = StatusReport::default();
        assert_eq!(shown(&one, &nobody), (0, vec!["n a only_first".to_owned()]));
    }

    #[test]
    fn static_resources_are_compared_if_both_sides_report_them() {
        let fixed =
            |name| ResourceRow { status: ResourceStatus::Static, ..row(types::CLUSTER, name, "") };
        let (one, other) = (
            report(vec![client("n", vec![fixed("a")])]),
            report(vec![client("n", vec![fixed("b")])]),
        );
        assert_eq!(shown(&one, &other).1, ["a only_first", "b only_second"]);
        let dynamic = report(vec![client("n", vec![row(types::CLUSTER, "c", "1")])]);
        assert_eq!(shown(&one, &dynamic).1, ["c only_second"]);
    }
}
