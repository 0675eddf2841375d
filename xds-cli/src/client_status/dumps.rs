//! Dump messages by type (`envoy.admin.v3`), as JSON. Envoy's configuration dump and the older form
//! of CSDS contain them.

use serde_json::Value as Json;
use xds_core::{
    proto::{ClientResourceStatus, ConfigStatus},
    types,
};

use super::{Content, ResourceRow, ResourceStatus, UpdateError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DumpKind {
    Listeners,
    Clusters,
    Routes,
    ScopedRoutes,
    Endpoints,
    Secrets,
    Extensions,
}

impl DumpKind {
    pub(super) const ALL: [Self; 7] = [
        Self::Listeners,
        Self::Clusters,
        Self::Routes,
        Self::ScopedRoutes,
        Self::Endpoints,
        Self::Secrets,
        Self::Extensions,
    ];

    /// Full name of the message.
    pub(super) const fn message(self) -> &'static str {
        match self {
            Self::Listeners => "envoy.admin.v3.ListenersConfigDump",
            Self::Clusters => "envoy.admin.v3.ClustersConfigDump",
            Self::Routes => "envoy.admin.v3.RoutesConfigDump",
            Self::ScopedRoutes => "envoy.admin.v3.ScopedRoutesConfigDump",
            Self::Endpoints => "envoy.admin.v3.EndpointsConfigDump",
            Self::Secrets => "envoy.admin.v3.SecretsConfigDump",
            Self::Extensions => "envoy.admin.v3.EcdsConfigDump",
        }
    }

    const fn type_url(self) -> &'static str {
        match self {
            Self::Listeners => types::LISTENER,
            Self::Clusters => types::CLUSTER,
            Self::Routes => types::ROUTE_CONFIGURATION,
            Self::ScopedRoutes => types::SCOPED_ROUTE_CONFIGURATION,
            Self::Endpoints => types::CLUSTER_LOAD_ASSIGNMENT,
            Self::Secrets => types::SECRET,
            Self::Extensions => types::EXTENSION_CONFIG,
        }
    }

    /// Lists of the message: the field, the field with the resource of an entry, and the status of
    /// an entry that states none. Listeners are not in this form.
    const fn lists(self) -> &'static [(&'static str, &'static str, ResourceStatus)] {
        use ResourceStatus::{Acked, Static, Warming};
        match self {
            Self::Listeners => &[("static_listeners", "listener", Static)],
            Self::Clusters => &[
                ("static_clusters", "cluster", Static),
                ("dynamic_active_clusters", "cluster", Acked),
                ("dynamic_warming_clusters", "cluster", Warming),
            ],
            Self::Routes => &[
                ("static_route_configs", "route_config", Static),
                ("dynamic_route_configs", "route_config", Acked),
            ],
            Self::ScopedRoutes => &[
                ("inline_scoped_route_configs", "scoped_route_configs", Static),
                ("dynamic_scoped_route_configs", "scoped_route_configs", Acked),
            ],
            Self::Endpoints => &[
                ("static_endpoint_configs", "endpoint_config", Static),
                ("dynamic_endpoint_configs", "endpoint_config", Acked),
            ],
            Self::Secrets => &[
                ("static_secrets", "secret", Static),
                ("dynamic_active_secrets", "secret", Acked),
                ("dynamic_warming_secrets", "secret", Warming),
            ],
            Self::Extensions => &[("ecds_filters", "ecds_filter", Acked)],
        }
    }
}

/// Returns the resources of a dump. Entries that state no status get `of_type`, otherwise the status
/// that follows from their list.
pub(super) fn rows_of(
    kind: DumpKind,
    dump: &Json,
    of_type: Option<ResourceStatus>,
) -> Vec<ResourceRow> {
    let mut rows = Vec::new();
    for &(list, field, of_list) in kind.lists() {
        let is_dynamic = of_list == ResourceStatus::Acked;
        let assumed = of_type.filter(|_| is_dynamic).unwrap_or(of_list);
        for entry in elements(dump, list) {
            let state = State { kind, entry, resource: entry.get(field), assumed };
            match entry.get(field) {
                // A scope has one name, version and error for all of its routes.
                Some(Json::Array(scopes)) if !scopes.is_empty() => {
                    let state = |scope| State { resource: Some(scope), ..state };
                    rows.extend(scopes.iter().map(|scope| state(scope).row(entry)));
                }
                _ => rows.push(state.row(entry)),
            }
        }
    }
    if kind == DumpKind::Listeners {
        // Entries without a name come last, because they may repeat others.
        let entries = || elements(dump, "dynamic_listeners");
        let (named, nameless) = (entries().filter(has_name), entries().filter(|it| !has_name(it)));
        named.chain(nameless).for_each(|entry| listener(entry, of_type, &mut rows));
    }
    rows
}

/// Adds the states of one listener: each is a row, because they may have different versions.
fn listener(entry: &Json, of_type: Option<ResourceStatus>, rows: &mut Vec<ResourceRow>) {
    let states = [
        ("active_state", of_type.unwrap_or(ResourceStatus::Acked)),
        ("warming_state", ResourceStatus::Warming),
        ("draining_state", ResourceStatus::Draining),
    ];
    let before = rows.len();
    for (field, assumed) in states {
        let Some(state) = entry.get(field).filter(|state| state.is_object()) else { continue };
        let kind = DumpKind::Listeners;
        let is_newest = rows.len() == before;
        let mut row = State { kind, entry, resource: state.get("listener"), assumed }.row(state);
        if !is_newest {
            // The error and the stated status are those of the listener, not of each state.
            row.error = None;
            row.status = assumed;
        }
        rows.push(row);
    }
    // A listener that was rejected at first, or was requested only, has no state.
    if rows.len() == before {
        let assumed = of_type.unwrap_or(ResourceStatus::Requested);
        let state = State { kind: DumpKind::Listeners, entry, resource: None, assumed };
        let row = state.row(&Json::Null);
        // Envoy repeats the error of an existing listener in an entry without name, state and time.
        let details = |row: &ResourceRow| row.error.as_ref().map(|error| error.details.clone());
        let is_repeated = |it: &ResourceRow| it.name == row.name && details(it) == details(&row);
        if row.error.is_none() || !rows.iter().any(is_repeated) {
            rows.push(row);
        }
    }
}

/// State of one resource in a dump.
#[derive(Clone, Copy)]
struct State<'a> {
    kind: DumpKind,
    /// Entry with the name, the error and the status.
    entry: &'a Json,
    resource: Option<&'a Json>,
    assumed: ResourceStatus,
}

impl State<'_> {
    /// Creates the row. `state` has the version and the time.
    fn row(self, state: &Json) -> ResourceRow {
        let resource = self.resource.filter(|it| it.get("@type").is_some());
        let error = self.entry.get("error_state").filter(|error| error.is_object());
        let stated = text(self.entry, "client_status").and_then(client_status);
        let status = match (stated, self.assumed, error) {
            (Some(stated), ..) => stated,
            (None, ResourceStatus::Acked | ResourceStatus::Requested, Some(_)) => {
                ResourceStatus::Nacked
            }
            (None, assumed, _) => assumed,
        };
        let name_in = |it| {
            let name = text(it, "name").or_else(|| text(it, "cluster_name"));
            name.filter(|name| !name.is_empty())
        };
        let of_error = || name_in(error?.get("failed_configuration")?);
        let name = resource.and_then(name_in).or_else(|| name_in(self.entry)).or_else(of_error);
        let type_url = resource.and_then(|it| text(it, "@type"));
        let type_url = match self.kind {
            // An extension configuration is itself the resource, whatever it contains.
            DumpKind::Extensions => None,
            _ => type_url,
        };
        ResourceRow {
            type_url: type_url.unwrap_or_else(|| self.kind.type_url()).to_owned(),
            name: name.unwrap_or_default().to_owned(),
            version: text(state, "version_info").unwrap_or_default().to_owned(),
            last_updated: text(state, "last_updated").map(str::to_owned),
            status,
            error: error.map(|error| UpdateError {
                details: text(error, "details").unwrap_or_default().to_owned(),
                version: text(error, "version_info").unwrap_or_default().to_owned(),
                time: text(error, "last_update_attempt").map(str::to_owned),
            }),
            content: resource.map(Content::of_json),
        }
    }
}

fn has_name(entry: &&Json) -> bool {
    text(entry, "name").is_some_and(|name| !name.is_empty())
}

fn client_status(name: &str) -> Option<ResourceStatus> {
    let status = ClientResourceStatus::from_str_name(name)?;
    ResourceStatus::of(status, ConfigStatus::Unknown)
}

fn elements<'a>(dump: &'a Json, list: &str) -> impl Iterator<Item = &'a Json> {
    dump.get(list).and_then(Json::as_array).into_iter().flatten()
}

fn text<'a>(json: &'a Json, field: &str) -> Option<&'a str> {
    json.get(field)?.as_str()
}
