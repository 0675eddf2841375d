//! Responses of a client status service (CSDS).

use prost::Message;
use serde_json::Value as Json;
use xds_core::proto::{
    ClientConfig, ClientResourceStatus, ClientStatusResponse, DecodeError, Timestamp,
    UpdateFailureState,
    client_config::GenericXdsConfig,
    envoy::service::status::v3::{
        ClientConfigStatus, PerXdsConfig, per_xds_config::PerXdsConfig as Dump,
    },
};
use xds_format::{PrintOptions, message_to_json};

use super::{
    ClientReport, Content, ResourceRow, ResourceStatus, StatusReport, UpdateError,
    dumps::{DumpKind, rows_of},
};
use crate::schema::schema;

/// Reads an encoded `ClientStatusResponse`.
pub(crate) fn of_response(response: &[u8]) -> Result<StatusReport, DecodeError> {
    let mut report = StatusReport::default();
    for config in ClientStatusResponse::decode(response)?.config {
        let (client, warnings) = of_client(config);
        report.clients.push(client);
        report.warnings.extend(warnings);
    }
    Ok(report)
}

fn of_client(config: ClientConfig) -> (ClientReport, Vec<String>) {
    let mut rows: Vec<_> = config.generic_xds_configs.into_iter().map(of_resource).collect();
    let mut warnings = Vec::new();
    // Newer peers may send the same in both forms.
    #[expect(deprecated, reason = "older peers send only this form")]
    let by_type = if rows.is_empty() { config.xds_config } else { Vec::new() };
    for dump in by_type {
        match of_type(dump) {
            Ok(more) => rows.extend(more),
            Err(why) => warnings.push(why),
        }
    }
    let node = config.node.map(|node| node.id).unwrap_or_default();
    (ClientReport { node, scope: config.client_scope, rows }, warnings)
}

fn of_resource(config: GenericXdsConfig) -> ResourceRow {
    let stated = ResourceStatus::of(config.client_status(), config.config_status());
    let status = match (config.is_static_resource, stated, &config.error_state) {
        (true, ..) => ResourceStatus::Static,
        (false, Some(stated), _) => stated,
        (false, None, Some(_)) => ResourceStatus::Nacked,
        (false, None, None) => ResourceStatus::Unknown,
    };
    ResourceRow {
        type_url: config.type_url,
        name: config.name,
        version: config.version_info,
        last_updated: config.last_updated.and_then(timestamp_text),
        status,
        error: config.error_state.map(error),
        content: config.xds_config.map(Content::of_any),
    }
}

fn error(state: UpdateFailureState) -> UpdateError {
    UpdateError {
        details: state.details,
        version: state.version_info,
        time: state.last_update_attempt.and_then(timestamp_text),
    }
}

/// Prints a timestamp (RFC 3339, UTC). A timestamp out of range is omitted.
pub(crate) fn timestamp_text(timestamp: Timestamp) -> Option<String> {
    match to_json("google.protobuf.Timestamp", &timestamp) {
        Ok(Json::String(text)) => Some(text),
        _ => None,
    }
}

fn to_json(message: &str, value: &impl Message) -> Result<Json, String> {
    let bytes = value.encode_to_vec();
    let json = message_to_json(schema(), message, &bytes, &PrintOptions::default());
    json.map_err(|why| format!("{message}: {why}"))
}

/// Reads the older form: one dump for each type.
fn of_type(config: PerXdsConfig) -> Result<Vec<ResourceRow>, String> {
    let client = match config.client_status() {
        ClientConfigStatus::ClientUnknown => ClientResourceStatus::Unknown,
        ClientConfigStatus::ClientRequested => ClientResourceStatus::Requested,
        ClientConfigStatus::ClientAcked => ClientResourceStatus::Acked,
        ClientConfigStatus::ClientNacked => ClientResourceStatus::Nacked,
        ClientConfigStatus::ClientReceivedError => ClientResourceStatus::ReceivedError,
    };
    let of_type = ResourceStatus::of(client, config.status());
    let (kind, dump) = match config.per_xds_config {
        Some(Dump::ListenerConfig(dump)) => {
            (DumpKind::Listeners, read(DumpKind::Listeners, &dump)?)
        }
        Some(Dump::ClusterConfig(dump)) => (DumpKind::Clusters, read(DumpKind::Clusters, &dump)?),
        Some(Dump::RouteConfig(dump)) => (DumpKind::Routes, read(DumpKind::Routes, &dump)?),
        Some(Dump::ScopedRouteConfig(dump)) => {
            (DumpKind::ScopedRoutes, read(DumpKind::ScopedRoutes, &dump)?)
        }
        Some(Dump::EndpointConfig(dump)) => {
            (DumpKind::Endpoints, read(DumpKind::Endpoints, &dump)?)
        }
        None => return Ok(Vec::new()),
    };
    Ok(rows_of(kind, &dump, of_type))
}

fn read(kind: DumpKind, dump: &impl Message) -> Result<Json, String> {
    to_json(kind.message(), dump)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use xds_core::{
        proto::{
            Any, ConfigStatus, Node,
            envoy::admin::v3::{
                ClustersConfigDump, ListenersConfigDump,
                clusters_config_dump::DynamicCluster,
                listeners_config_dump::{DynamicListener, DynamicListenerState},
            },
        },
        types,
    };

    use super::*;

    // Cluster { name: "a" }
    fn cluster() -> Any {
        Any { type_url: types::CLUSTER.into(), value: Bytes::from_static(b"\x0a\x01a") }
    }

    fn at(seconds: i64) -> Option<Timestamp> {
        Some(Timestamp { seconds, nanos: 500_000_000 })
    }

    fn rejected() -> Option<UpdateFailureState> {
        Some(UpdateFailureState {
            failed_configuration: None,
            last_update_attempt: at(2),
            details: "bad".into(),
            version_info: "8".into(),
        })
    }

    fn read_client(config: ClientConfig) -> (ClientReport, Vec<String>) {
        let response = ClientStatusResponse { config: vec![config] }.encode_to_vec();
        let mut report = of_response(&response).unwrap();
        (report.clients.pop().unwrap(), report.warnings)
    }

    #[test]
    fn resources_of_any_type_are_read() {
        let generic = |client: ClientResourceStatus, config: ConfigStatus| GenericXdsConfig {
            type_url: types::CLUSTER.into(),
            name: "a".into(),
            version_info: "7".into(),
            xds_config: Some(cluster()),
            last_updated: at(1),
            client_status: client.into(),
            config_status: config.into(),
            ..GenericXdsConfig::default()
        };
        let (client, config) = (ClientResourceStatus::Unknown, ConfigStatus::Unknown);
        let nacked = generic(ClientResourceStatus::Nacked, config);
        let configs = vec![
            generic(ClientResourceStatus::Acked, config),
            GenericXdsConfig { error_state: rejected(), ..nacked },
            generic(client, ConfigStatus::Stale),
            GenericXdsConfig { error_state: rejected(), ..generic(client, config) },
            GenericXdsConfig { is_static_resource: true, ..generic(client, config) },
            GenericXdsConfig { client_status: 99, last_updated: None, ..generic(client, config) },
        ];
        let config = ClientConfig {
            node: Some(Node { id: "n".into(), ..Node::default() }),
            generic_xds_configs: configs,
            client_scope: "xds:///a".into(),
            ..ClientConfig::default()
        };
        let (client, warnings) = read_client(config);
        assert_eq!((client.node.as_str(), client.scope.as_str()), ("n", "xds:///a"));
        assert!(warnings.is_empty(), "{warnings:?}");
        let statuses: Vec<_> = client.rows.iter().map(|row| row.status.name()).collect();
        assert_eq!(statuses, ["ACKED", "NACKED", "STALE", "NACKED", "STATIC", "UNKNOWN"]);
        let times: Vec<_> = client.rows.iter().map(|row| row.last_updated.as_deref()).collect();
        assert_eq!(times[0], Some("1970-01-01T00:00:01.500Z"));
        assert_eq!(times[5], None);
        let error = client.rows[1].error.as_ref().unwrap();
        assert_eq!((error.details.as_str(), error.version.as_str()), ("bad", "8"));
        assert_eq!(error.time.as_deref(), Some("1970-01-01T00:00:02.500Z"));
        let content = client.rows[0].content.as_ref().unwrap();
        assert_eq!(content.json["name"], "a");
        assert_eq!(client.rows[0].version, "7");
    }

    #[test]
    fn older_form_by_type_is_read_unless_the_newer_one_is_there() {
        let per_type = |status: ClientConfigStatus, dump: Dump| {
            #[expect(deprecated, reason = "older peers send only this form")]
            PerXdsConfig {
                status: ConfigStatus::Synced.into(),
                client_status: status.into(),
                per_xds_config: Some(dump),
            }
        };
        let listener = Any {
            type_url: types::LISTENER.into(),
            // Listener { name: "l" }
            value: Bytes::from_static(b"\x0a\x01l"),
        };
        let listeners = ListenersConfigDump {
            dynamic_listeners: vec![DynamicListener {
                name: "l".into(),
                active_state: Some(DynamicListenerState {
                    version_info: "3".into(),
                    listener: Some(listener),
                    last_updated: at(1),
                }),
                client_status: ClientResourceStatus::Acked.into(),
                error_state: rejected(),
                ..DynamicListener::default()
            }],
            ..ListenersConfigDump::default()
        };
        let clusters = |cluster: Any| ClustersConfigDump {
            dynamic_active_clusters: vec![DynamicCluster {
                version_info: "7".into(),
                cluster: Some(cluster),
                ..DynamicCluster::default()
            }],
            ..ClustersConfigDump::default()
        };
        let broken = Any { value: Bytes::from_static(b"\x0a\x7f"), ..cluster() };
        #[expect(deprecated, reason = "older peers send only this form")]
        let config = ClientConfig {
            xds_config: vec![
                per_type(ClientConfigStatus::ClientAcked, Dump::ListenerConfig(listeners)),
                per_type(
                    ClientConfigStatus::ClientUnknown,
                    Dump::ClusterConfig(clusters(cluster())),
                ),
                per_type(ClientConfigStatus::ClientUnknown, Dump::ClusterConfig(clusters(broken))),
                PerXdsConfig::default(),
            ],
            ..ClientConfig::default()
        };
        let (client, warnings) = read_client(config.clone());
        let rows: Vec<_> = client
            .rows
            .iter()
            .map(|row| (row.type_name(), &*row.name, &*row.version, row.status.name()))
            .collect();
        assert_eq!(rows, [("lds", "l", "3", "ACKED"), ("cds", "a", "7", "SYNCED")]);
        assert_eq!(client.rows[0].error.as_ref().unwrap().version, "8");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("envoy.admin.v3.ClustersConfigDump: "), "{warnings:?}");

        let newer = GenericXdsConfig { name: "g".into(), ..GenericXdsConfig::default() };
        let (client, _) = read_client(ClientConfig { generic_xds_configs: vec![newer], ..config });
        assert_eq!(client.rows.len(), 1);
    }

    #[test]
    fn response_that_is_not_a_message_is_an_error() {
        assert!(of_response(b"\x0a\x7f").is_err());
        assert_eq!(of_response(b""), Ok(StatusReport::default()));
    }
}
