//! Merging of the reports of replicas.

use std::collections::{BTreeMap, BTreeSet};

use xds_tokio::server::SourceReport;

use super::version::ParsedVersion;
use crate::{
    client_status::{ClientReport, ResourceRow, ResourceStatus, StatusReport},
    failure::Failure,
    text::escaped,
};

/// Report of a replica, or the reason why there is none.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(super) address: String,
    pub(super) report: Result<StatusReport, Failure>,
}

/// Status of all replicas.
#[derive(Debug, Default)]
pub(super) struct Merged<'a> {
    /// Replicas in the order of their addresses on the command line.
    pub(super) replicas: Vec<ReplicaRow<'a>>,
    /// Clients by node id, scope and type.
    pub(super) clients: Vec<ClientRow<'a>>,
    /// Resources whose content differs between replicas, by scope, type and name.
    pub(super) differing: Vec<DifferingResource<'a>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReplicaRow<'a> {
    pub(super) address: &'a str,
    /// State, or the reason why the replica cannot be read.
    pub(super) state: Result<ReplicaState, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReplicaState {
    /// Number of clients, which are identified by node id and scope.
    pub(super) clients: usize,
    /// Number of streams. A client may have several.
    pub(super) streams: usize,
    /// State of the source, if the replica reports it.
    pub(super) source: Option<SourceReport>,
    /// Number of revisions by which the replica is behind the newest one.
    pub(super) behind: Option<u64>,
}

/// Type of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientRow<'a> {
    pub(super) node: &'a str,
    pub(super) scope: &'a str,
    pub(super) type_name: &'a str,
    /// Replicas to which the client is connected, and its number of streams with this type at each.
    pub(super) replicas: BTreeMap<&'a str, usize>,
    /// Status of each resource by its name. If the status differs between streams, it is the one
    /// that is furthest from [`ResourceStatus::Synced`].
    pub(super) resources: BTreeMap<&'a str, ResourceStatus>,
}

impl ClientRow<'_> {
    /// Returns the number of resources by status.
    pub(super) fn statuses(&self) -> BTreeMap<ResourceStatus, usize> {
        let mut statuses = BTreeMap::new();
        for status in self.resources.values() {
            *statuses.entry(*status).or_default() += 1;
        }
        statuses
    }
}

/// Resource whose content differs between replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DifferingResource<'a> {
    pub(super) scope: &'a str,
    pub(super) type_name: &'a str,
    pub(super) name: &'a str,
    /// Version of each replica with a client that subscribes to the resource, in the order of the
    /// replicas.
    pub(super) versions: Vec<ReplicaVersion<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplicaVersion<'a> {
    pub(super) replica: &'a str,
    /// Version; empty if the replica does not have the resource.
    pub(super) version: &'a str,
    /// Number of revisions by which the version is older than the newest one.
    pub(super) older_by: Option<u64>,
}

/// Merges the reports of all replicas.
pub(super) fn merge(answers: &[Answer]) -> Merged<'_> {
    let newest = reports(answers).filter_map(|(_, report)| revision(report)).max();
    Merged {
        replicas: answers.iter().map(|answer| replica(answer, newest)).collect(),
        clients: clients(reports(answers)),
        differing: differing(reports(answers)),
    }
}

fn reports(answers: &[Answer]) -> impl Iterator<Item = (&str, &StatusReport)> {
    answers.iter().filter_map(|answer| Some((&*answer.address, answer.report.as_ref().ok()?)))
}

/// Returns the revision of the source that a replica has reached.
fn revision(report: &StatusReport) -> Option<u64> {
    report.source.as_ref().and_then(|source| source.revision)
}

fn replica(answer: &Answer, newest: Option<u64>) -> ReplicaRow<'_> {
    let state = match &answer.report {
        Ok(report) => Ok(ReplicaState {
            clients: report.clients.iter().map(identity).collect::<BTreeSet<_>>().len(),
            streams: report.clients.len(),
            source: report.source.clone(),
            behind: revision(report).and_then(|own| newest.map(|newest| newest - own)),
        }),
        Err(why) => Err(reason(why)),
    };
    ReplicaRow { address: &answer.address, state }
}

/// Returns the reason of a failure without the address, which the row has.
fn reason(why: &Failure) -> String {
    match why {
        Failure::Unreached { why, .. } | Failure::Status { why, .. } => escaped(why),
        why => escaped(&why.to_string()),
    }
}

/// Returns what identifies a client: node id and scope.
fn identity(client: &ClientReport) -> (&str, &str) {
    (&client.node, &client.scope)
}

fn clients<'a>(reports: impl Iterator<Item = (&'a str, &'a StatusReport)>) -> Vec<ClientRow<'a>> {
    let mut found: BTreeMap<(&str, &str, &str), ClientRow<'a>> = BTreeMap::new();
    let streams = reports
        .flat_map(|(replica, report)| report.clients.iter().map(move |client| (replica, client)));
    for (replica, client) in streams {
        let (node, scope) = identity(client);
        let mut types = BTreeSet::new();
        for row in &client.rows {
            let type_name = row.type_name();
            let new = || ClientRow {
                node,
                scope,
                type_name,
                replicas: BTreeMap::new(),
                resources: BTreeMap::new(),
            };
            let merged = found.entry((node, scope, type_name)).or_insert_with(new);
            if types.insert(type_name) {
                *merged.replicas.entry(replica).or_default() += 1;
            }
            let status = merged.resources.entry(&row.name).or_insert(row.status);
            *status = row.status.max(*status);
        }
    }
    found.into_values().collect()
}

/// Scope, type and name.
type ResourceKey<'a> = (&'a str, &'a str, &'a str);

fn differing<'a>(
    reports: impl Iterator<Item = (&'a str, &'a StatusReport)>,
) -> Vec<DifferingResource<'a>> {
    let mut found: BTreeMap<ResourceKey<'a>, Vec<(&str, &str)>> = BTreeMap::new();
    for (replica, report) in reports {
        for client in &report.clients {
            for row in client.rows.iter().filter(|row| is_of_server(row)) {
                let key = (&*client.scope, row.type_name(), &*row.name);
                let versions = found.entry(key).or_default();
                // All clients of a replica see the same version of a view.
                if versions.last().is_none_or(|(last, _)| *last != replica) {
                    versions.push((replica, &row.version));
                }
            }
        }
    }
    let differing = found.into_iter().filter_map(|((scope, type_name, name), versions)| {
        let parsed: Vec<_> = versions.iter().map(|(_, it)| ParsedVersion::of(it)).collect();
        let first = parsed.first()?;
        if parsed.iter().all(|it| it.content == first.content) {
            return None;
        }
        let newest = parsed.iter().filter_map(|it| it.revision).max();
        let older_by = |it: &ParsedVersion<'_>| {
            it.revision.and_then(|own| newest.map(|newest| newest - own)).filter(|&by| by > 0)
        };
        let versions = versions.iter().zip(&parsed);
        let versions = versions.map(|(&(replica, version), parsed)| ReplicaVersion {
            replica,
            version,
            older_by: older_by(parsed),
        });
        Some(DifferingResource { scope, type_name, name, versions: versions.collect() })
    });
    differing.collect()
}

/// Whether the version of a row is the one that a management server has now.
fn is_of_server(row: &ResourceRow) -> bool {
    matches!(
        row.status,
        ResourceStatus::Synced
            | ResourceStatus::Stale
            | ResourceStatus::NotSent
            | ResourceStatus::Error
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use core::time::Duration;

    use xds_core::types;
    use xds_tokio::server::SourceReport;

    use super::*;
    use crate::client_status::tests::{client, row};

    fn synced(name: &str, version: &str) -> ResourceRow {
        ResourceRow { status: ResourceStatus::Synced, ..row(types::CLUSTER, name, version) }
    }

    fn source(revision: u64, unreachable_for: Option<Duration>) -> Option<SourceReport> {
        let mut report = SourceReport::default();
        (report.revision, report.unreachable_for) = (Some(revision), unreachable_for);
        Some(report)
    }

    fn answer(address: &str, source: Option<SourceReport>, clients: Vec<ClientReport>) -> Answer {
        let report = StatusReport { clients, source, ..StatusReport::default() };
        Answer { address: address.to_owned(), report: Ok(report) }
    }

    /// Three replicas: one is up to date, one is behind, and one cannot be reached.
    pub(crate) fn answers() -> Vec<Answer> {
        let missing = ResourceRow { status: ResourceStatus::NotSent, ..synced("new", "") };
        let unreached = Failure::Unreached { address: "c:1".into(), why: "refused".into() };
        vec![
            answer(
                "a:1",
                source(120, None),
                vec![client("n", vec![synced("same", "7-aa"), synced("api", "120-bb")])],
            ),
            answer(
                "b:1",
                source(118, Some(Duration::from_secs(12))),
                vec![
                    client("m", vec![synced("same", "9-aa"), synced("api", "110-cc"), missing]),
                    client("n", vec![synced("same", "9-aa"), synced("only", "3-dd")]),
                ],
            ),
            Answer { address: "c:1".to_owned(), report: Err(unreached) },
        ]
    }

    #[test]
    fn replica_is_behind_by_its_revision() {
        let answers = answers();
        let merged = merge(&answers);
        let behind: Vec<_> =
            merged.replicas.iter().map(|it| it.state.clone().map(|it| it.behind)).collect();
        assert_eq!(behind, [Ok(Some(0)), Ok(Some(2)), Err("refused".to_owned())]);
    }

    #[test]
    fn client_has_one_row_for_each_type_with_all_its_replicas() {
        let answers = answers();
        let merged = merge(&answers);
        let rows: Vec<_> = merged
            .clients
            .iter()
            .map(|it| {
                let replicas: Vec<_> = it.replicas.keys().copied().collect();
                (it.node, it.type_name, replicas.join(" "), it.statuses())
            })
            .collect();
        let (synced, not_sent) = (ResourceStatus::Synced, ResourceStatus::NotSent);
        assert_eq!(
            rows,
            [
                ("m", "cds", "b:1".to_owned(), BTreeMap::from([(synced, 2), (not_sent, 1)])),
                ("n", "cds", "a:1 b:1".to_owned(), BTreeMap::from([(synced, 3)])),
            ]
        );
    }

    #[test]
    fn client_with_several_streams_is_counted_once() {
        let stale = ResourceRow { status: ResourceStatus::Stale, ..synced("api", "1-aa") };
        let in_view =
            ClientReport { scope: "v".into(), ..client("n", vec![synced("api", "1-aa")]) };
        let answers = [
            answer(
                "a:1",
                None,
                vec![
                    client("n", vec![synced("api", "1-aa"), synced("other", "1-bb")]),
                    client("n", vec![synced("api", "1-aa")]),
                    in_view,
                ],
            ),
            answer("b:1", None, vec![client("n", vec![stale])]),
        ];
        let merged = merge(&answers);
        let counts: Vec<_> = merged
            .replicas
            .iter()
            .map(|it| it.state.as_ref().map(|it| (it.clients, it.streams)).unwrap())
            .collect();
        assert_eq!(counts, [(2, 3), (1, 1)]);
        let [one, in_view] = &merged.clients[..] else { panic!("{:?}", merged.clients) };
        assert_eq!(one.replicas, BTreeMap::from([("a:1", 2), ("b:1", 1)]));
        let statuses = [(ResourceStatus::Synced, 1), (ResourceStatus::Stale, 1)];
        assert_eq!(one.statuses(), BTreeMap::from(statuses));
        assert_eq!((in_view.scope, in_view.resources.len()), ("v", 1));
    }

    #[test]
    fn resources_differ_by_their_content_and_not_by_their_revision() {
        let answers = answers();
        let merged = merge(&answers);
        let [resource] = &merged.differing[..] else { panic!("{:?}", merged.differing) };
        let versions: Vec<_> =
            resource.versions.iter().map(|it| (it.replica, it.version, it.older_by)).collect();
        assert_eq!(resource.name, "api");
        assert_eq!(versions, [("a:1", "120-bb", None), ("b:1", "110-cc", Some(10))]);
    }

    #[test]
    fn resource_that_one_replica_lacks_differs_within_its_view() {
        let lacking = ResourceRow { status: ResourceStatus::NotSent, ..synced("x", "") };
        let in_view =
            |scope: &str, row| ClientReport { scope: scope.to_owned(), ..client("n", vec![row]) };
        let names = |scope| {
            let answers = [
                answer("a:1", None, vec![in_view("", synced("x", "7-aa"))]),
                answer("b:1", None, vec![in_view(scope, lacking.clone())]),
            ];
            merge(&answers).differing.iter().map(|it| it.name.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(""), ["x"]);
        assert_eq!(names("canary"), [""; 0]);
    }
}
