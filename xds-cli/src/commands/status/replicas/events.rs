//! Output formats `json` and `ndjson`, and changes.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::merge::{ClientRow, DifferingResource, Merged, ReplicaRow};
use crate::{commands::status::source, output::event_line};

/// Formats the status as one document.
pub(super) fn document(merged: &Merged<'_>) -> String {
    let replicas: Vec<_> = merged.replicas.iter().map(replica).collect();
    let clients: Vec<_> = merged.clients.iter().map(client).collect();
    let differing: Vec<_> = merged.differing.iter().map(differing).collect();
    format!("{:#}\n", json!({ "replicas": replicas, "clients": clients, "differing": differing }))
}

/// Formats the status as one object for each replica, client and differing resource.
pub(super) fn ndjson(merged: &Merged<'_>) -> String {
    changes(&Merged::default(), merged)
        .into_iter()
        .map(|change| event_line(change.to_event()) + "\n")
        .collect()
}

fn replica(row: &ReplicaRow<'_>) -> Json {
    match &row.state {
        Ok(state) => json!({
            "replica": row.address,
            "clients": state.clients,
            "streams": state.streams,
            "source": state.source.as_ref().map(source::object),
            "behind": state.behind,
            "error": null,
        }),
        Err(why) => json!({ "replica": row.address, "error": why }),
    }
}

fn client(row: &ClientRow<'_>) -> Json {
    let statuses = row.statuses().into_iter();
    let resources: serde_json::Map<_, _> =
        statuses.map(|(status, number)| (status.name().into(), json!(number))).collect();
    json!({
        "node": row.node,
        "scope": row.scope,
        "type": row.type_name,
        "replicas": row.replicas.keys().collect::<Vec<_>>(),
        "streams": row.replicas,
        "resources": resources,
    })
}

fn differing(resource: &DifferingResource<'_>) -> Json {
    let version = |it: &super::merge::ReplicaVersion<'_>| {
        let version = (!it.version.is_empty()).then_some(it.version);
        json!({ "replica": it.replica, "version": version, "older_by": it.older_by })
    };
    let versions: Vec<_> = resource.versions.iter().map(version).collect();
    json!({
        "scope": resource.scope,
        "type": resource.type_name,
        "name": resource.name,
        "versions": versions,
    })
}

/// Row of the status.
#[derive(Clone, Copy, Debug)]
pub(super) enum StatusRow<'a> {
    Replica(&'a ReplicaRow<'a>),
    Client(&'a ClientRow<'a>),
    Differing(&'a DifferingResource<'a>),
}

/// Change of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowChange<'a> {
    pub(super) kind: RowChangeKind,
    pub(super) row: StatusRow<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowChangeKind {
    Added,
    Changed,
    Removed,
}

/// Kind, and up to three names.
type StatusRowKey<'a> = (u8, [&'a str; 3]);

impl<'a> StatusRow<'a> {
    fn key(self) -> StatusRowKey<'a> {
        match self {
            Self::Replica(row) => (0, [row.address, "", ""]),
            Self::Client(row) => (1, [row.node, row.scope, row.type_name]),
            Self::Differing(row) => (2, [row.scope, row.type_name, row.name]),
        }
    }

    /// Whether two states of a row are the same, apart from what always changes: the time for which a
    /// source is unreachable, and the newest revision.
    fn is_same_as(self, other: StatusRow<'_>) -> bool {
        match (self, other) {
            (Self::Replica(one), StatusRow::Replica(other)) => match (&one.state, &other.state) {
                (Ok(one), Ok(other)) => {
                    let lasting = |state: &super::merge::ReplicaState| {
                        let source = state.source.as_ref().map(|it| {
                            (it.unreachable_for.is_some(), it.is_stale, it.refused.clone())
                        });
                        (state.clients, state.streams, source, state.behind)
                    };
                    lasting(one) == lasting(other)
                }
                (one, other) => one == other,
            },
            (Self::Client(one), StatusRow::Client(other)) => one == other,
            (Self::Differing(one), StatusRow::Differing(other)) => one == other,
            _ => false,
        }
    }
}

impl RowChange<'_> {
    /// Returns the event `replica`, `client` or `differing`, or `removed` for a client that has gone
    /// and `agreed` for a resource that no longer differs.
    pub(super) fn to_event(self) -> Json {
        let (event, object) = match (self.row, self.kind) {
            (StatusRow::Replica(row), _) => ("replica", replica(row)),
            (StatusRow::Client(row), RowChangeKind::Removed) => {
                ("removed", json!({ "node": row.node, "scope": row.scope, "type": row.type_name }))
            }
            (StatusRow::Client(row), _) => ("client", client(row)),
            (StatusRow::Differing(row), RowChangeKind::Removed) => {
                ("agreed", json!({ "scope": row.scope, "type": row.type_name, "name": row.name }))
            }
            (StatusRow::Differing(row), _) => ("differing", differing(row)),
        };
        let mut line = json!({ "event": event });
        if let (Json::Object(line), Json::Object(object)) = (&mut line, object) {
            line.extend(object);
        }
        line
    }
}

/// Returns the changed rows in the order of the status, followed by the removed ones.
pub(super) fn changes<'a>(before: &'a Merged<'a>, now: &'a Merged<'a>) -> Vec<RowChange<'a>> {
    let old: BTreeMap<_, _> = rows(before).map(|row| (row.key(), row)).collect();
    let mut found = Vec::new();
    let mut left = old.clone();
    for row in rows(now) {
        left.remove(&row.key());
        let kind = match old.get(&row.key()) {
            Some(before) if row.is_same_as(*before) => continue,
            Some(_) => RowChangeKind::Changed,
            None => RowChangeKind::Added,
        };
        found.push(RowChange { kind, row });
    }
    let removed = |(_, row)| RowChange { kind: RowChangeKind::Removed, row };
    found.extend(left.into_iter().map(removed));
    found
}

fn rows<'a>(merged: &'a Merged<'a>) -> impl Iterator<Item = StatusRow<'a>> {
    let replicas = merged.replicas.iter().map(StatusRow::Replica);
    let clients = merged.clients.iter().map(StatusRow::Client);
    replicas.chain(clients).chain(merged.differing.iter().map(StatusRow::Differing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::status::replicas::merge::{merge, tests::answers};

    #[test]
    fn each_replica_client_and_differing_resource_is_an_event() {
        let answers = answers();
        let text = ndjson(&merge(&answers));
        let events: Vec<Json> = text
            .lines()
            .map(|line| {
                let mut event: Json = serde_json::from_str(line).unwrap();
                event.as_object_mut().unwrap().remove("time");
                event
            })
            .collect();
        assert_eq!(
            events,
            [
                json!({
                    "event": "replica", "replica": "a:1", "clients": 1, "streams": 1, "behind": 0,
                    "error": null,
                    "source": { "revision": 120, "unreachable_ms": null, "stale": false, "refused": null },
                }),
                json!({
                    "event": "replica", "replica": "b:1", "clients": 2, "streams": 2, "behind": 2,
                    "error": null,
                    "source": { "revision": 118, "unreachable_ms": 12_000, "stale": false, "refused": null },
                }),
                json!({ "event": "replica", "replica": "c:1", "error": "refused" }),
                json!({
                    "event": "client", "node": "m", "scope": "", "type": "cds",
                    "replicas": ["b:1"], "streams": { "b:1": 1 },
                    "resources": { "SYNCED": 2, "NOT_SENT": 1 },
                }),
                json!({
                    "event": "client", "node": "n", "scope": "", "type": "cds",
                    "replicas": ["a:1", "b:1"], "streams": { "a:1": 1, "b:1": 1 },
                    "resources": { "SYNCED": 3 },
                }),
                json!({
                    "event": "differing", "scope": "", "type": "cds", "name": "api",
                    "versions": [
                        { "replica": "a:1", "version": "120-bb", "older_by": null },
                        { "replica": "b:1", "version": "110-cc", "older_by": 10 },
                    ],
                }),
            ]
        );
        let document: Json = serde_json::from_str(&document(&merge(&answers))).unwrap();
        assert_eq!(document["differing"][0]["name"], "api");
    }

    #[test]
    fn only_lasting_changes_are_reported() {
        let (before, mut now) = (answers(), answers());
        let source = |answer: &mut super::super::merge::Answer| {
            let report = answer.report.as_mut().unwrap();
            report.source.take()
        };
        // Both advance, and the source of the second one is still unreachable.
        for answer in &mut now[..2] {
            let mut newer = source(answer).unwrap();
            newer.revision = newer.revision.map(|it| it + 1);
            newer.unreachable_for = newer.unreachable_for.map(|it| it * 2);
            answer.report.as_mut().unwrap().source = Some(newer);
        }
        let events = |before: &[_], now: &[_]| -> Vec<String> {
            let (before, now) = (merge(before), merge(now));
            let found = changes(&before, &now);
            found.iter().map(|it| it.to_event()["event"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(events(&before, &now), [""; 0]);
        now.truncate(1);
        // The only replica that answers has no other to differ from. One client has gone, and the
        // other one is no longer connected to the second replica.
        let expected = ["client", "replica", "replica", "removed", "agreed"];
        assert_eq!(events(&before, &now), expected);
    }
}
