//! Status of clients as one list of resources, whatever reports it: a client status service (CSDS)
//! or the configuration dump of Envoy's admin interface. This module does no I/O.
//!
//! | file | contents |
//! |---|---|
//! | `csds.rs` | responses of CSDS: resources of any type, and the older form by type |
//! | `config_dump.rs` | the pages of a configuration dump |
//! | `dumps.rs` | dump messages by type, which both use |
//! | `content.rs` | contents of resources without secrets |
//! | `resource_status.rs` | status of a resource |

mod config_dump;
mod content;
mod csds;
mod dumps;
mod resource_status;

use core::cmp::Ordering;

use xds_tokio::server::SourceReport;

use crate::{args::Subscription, text::type_name};

pub(crate) use self::{
    config_dump::of_config_dump,
    content::Content,
    csds::{of_response, timestamp_text},
    resource_status::{Acceptance, ResourceStatus},
};

/// Clients that one endpoint reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StatusReport {
    /// Clients by node id and scope.
    pub(crate) clients: Vec<ClientReport>,
    /// Parts of the response that cannot be read.
    pub(crate) warnings: Vec<String>,
    /// State of the source of a management server, if it reports one.
    pub(crate) source: Option<SourceReport>,
}

/// Resources of one client.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClientReport {
    /// Node id; empty if unknown.
    pub(crate) node: String,
    /// Scope of the client within its process, such as the target of a gRPC channel, or its view in a
    /// management server; empty if there is none.
    pub(crate) scope: String,
    /// Resources by type and name.
    pub(crate) rows: Vec<ResourceRow>,
}

/// One resource of a client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResourceRow {
    pub(crate) type_url: String,
    pub(crate) name: String,
    /// Version in use; empty if there is none or it is unknown.
    pub(crate) version: String,
    /// Time of the last update (RFC 3339, UTC).
    pub(crate) last_updated: Option<String>,
    pub(crate) status: ResourceStatus,
    pub(crate) error: Option<UpdateError>,
    /// Contents in use, if they are reported.
    pub(crate) content: Option<Content>,
}

/// Error of the newest update of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UpdateError {
    pub(crate) details: String,
    /// Rejected version; empty if unknown.
    pub(crate) version: String,
    /// Time of the update (RFC 3339, UTC).
    pub(crate) time: Option<String>,
}

impl ResourceRow {
    /// Returns the short name of the type, or its URL.
    pub(crate) fn type_name(&self) -> &str {
        type_name(&self.type_url)
    }

    fn order(&self, other: &Self) -> Ordering {
        let key = |row: &Self| (row.status, row.version.clone(), row.last_updated.clone());
        let names = (self.type_name(), &self.name).cmp(&(other.type_name(), &other.name));
        names.then_with(|| key(self).cmp(&key(other)))
    }
}

/// Selection of clients and resources.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// Node id; `None` selects all clients.
    pub(crate) node: Option<String>,
    /// Resources; an empty list selects all.
    pub(crate) resources: Vec<Subscription>,
}

impl Filter {
    fn selects(&self, row: &ResourceRow) -> bool {
        let is_of = |it: &Subscription| {
            it.type_url.as_str() == row.type_url
                && it.name.as_ref().is_none_or(|name| name.as_str() == row.name)
        };
        self.resources.is_empty() || self.resources.iter().any(is_of)
    }
}

impl StatusReport {
    /// Sorts the report, so that equal states have equal reports, and removes what the filter does
    /// not select. A client remains without resources only if resources are not filtered.
    pub(crate) fn selected(mut self, filter: &Filter) -> Self {
        self.clients.retain(|client| filter.node.as_ref().is_none_or(|node| client.node == *node));
        for client in &mut self.clients {
            client.rows.retain(|row| filter.selects(row));
            client.rows.sort_by(ResourceRow::order);
        }
        self.clients.retain(|client| filter.resources.is_empty() || !client.rows.is_empty());
        // A stable sort: streams of one node stay in the order in which they are reported.
        self.clients.sort_by(|a, b| (&a.node, &a.scope).cmp(&(&b.node, &b.scope)));
        self
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use xds_core::types;

    use super::*;

    pub(crate) fn row(type_url: &str, name: &str, version: &str) -> ResourceRow {
        ResourceRow {
            type_url: type_url.into(),
            name: name.into(),
            version: version.into(),
            last_updated: Some("2026-01-02T03:04:05.678Z".into()),
            status: ResourceStatus::Acked,
            error: None,
            content: None,
        }
    }

    pub(crate) fn client(node: &str, rows: Vec<ResourceRow>) -> ClientReport {
        ClientReport { node: node.into(), scope: String::new(), rows }
    }

    #[test]
    fn report_is_sorted_and_filtered() {
        let rows = || {
            vec![
                row(types::LISTENER, "l", "1"),
                row(types::CLUSTER, "b", "1"),
                ResourceRow { status: ResourceStatus::Warming, ..row(types::CLUSTER, "a", "2") },
                row(types::CLUSTER, "a", "1"),
            ]
        };
        let report = StatusReport {
            clients: vec![client("n2", rows()), client("n1", rows()), client("n0", Vec::new())],
            ..StatusReport::default()
        };
        let shown = |filter: &Filter| -> Vec<(String, Vec<String>)> {
            let clients = report.clone().selected(filter).clients.into_iter();
            let name =
                |row: &ResourceRow| format!("{} {} {}", row.type_name(), row.name, row.version);
            clients.map(|it| (it.node, it.rows.iter().map(name).collect())).collect()
        };
        let all = ["cds a 1", "cds a 2", "cds b 1", "lds l 1"].map(str::to_owned).to_vec();
        assert_eq!(
            shown(&Filter::default()),
            [("n0".into(), Vec::new()), ("n1".into(), all.clone()), ("n2".into(), all)]
        );
        let resources = vec!["cds:b".parse().unwrap(), "lds".parse().unwrap()];
        let filter = Filter { node: Some("n2".into()), resources };
        let some = ["cds b 1", "lds l 1"].map(str::to_owned).to_vec();
        assert_eq!(shown(&filter), [("n2".into(), some)]);
        let filter = Filter { node: None, resources: vec!["rds".parse().unwrap()] };
        assert_eq!(shown(&filter), []);
    }
}
