//! Configuration dump of Envoy's admin interface (`/config_dump`).

use serde_json::Value as Json;

use super::{
    ClientReport, StatusReport,
    dumps::{DumpKind, rows_of},
};

/// Reads a configuration dump. Envoy is the only client; its node id is in the bootstrap.
pub(crate) fn of_config_dump(body: &[u8]) -> Result<StatusReport, String> {
    let dump: Json = serde_json::from_slice(body)
        .map_err(|why| format!("not a configuration dump of Envoy: {why}"))?;
    let configs = dump.get("configs").and_then(Json::as_array);
    let configs = configs.ok_or("not a configuration dump of Envoy: there is no field configs")?;
    let mut client = ClientReport::default();
    for config in configs {
        let type_url = config.get("@type").and_then(Json::as_str).unwrap_or_default();
        let message = type_url.rsplit('/').next().unwrap_or_default();
        if message == "envoy.admin.v3.BootstrapConfigDump" {
            let id = config.pointer("/bootstrap/node/id").and_then(Json::as_str);
            client.node = id.unwrap_or_default().to_owned();
        }
        // Other pages, such as that of the runtime, have no resources.
        if let Some(kind) = DumpKind::ALL.into_iter().find(|kind| kind.message() == message) {
            client.rows.extend(rows_of(kind, config, None));
        }
    }
    Ok(StatusReport { clients: vec![client], ..StatusReport::default() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use xds_core::types;

    use super::{super::ResourceRow, *};

    const TIME: &str = "2026-01-02T03:04:05.678Z";

    fn read(configs: &Json) -> ClientReport {
        let dump = json!({ "configs": configs }).to_string();
        of_config_dump(dump.as_bytes()).unwrap().clients.remove(0)
    }

    fn page(kind: &str, fields: &Json) -> Json {
        let mut page = fields.clone();
        page["@type"] = format!("type.googleapis.com/envoy.admin.v3.{kind}").into();
        page
    }

    fn resource(type_url: &str, name: &str) -> Json {
        json!({ "@type": type_url, "name": name })
    }

    fn shown(rows: &[ResourceRow]) -> Vec<String> {
        let error = |row: &ResourceRow| {
            let error = row.error.as_ref();
            error
                .map(|it| format!(" {} {} {:?}", it.details, it.version, it.time))
                .unwrap_or_default()
        };
        let line = |row: &ResourceRow| {
            let (type_name, status) = (row.type_name(), row.status.name());
            format!("{type_name} {} {} {status}{}", row.name, row.version, error(row))
        };
        rows.iter().map(line).collect()
    }

    fn error() -> Json {
        json!({ "details": "bad", "version_info": "9", "last_update_attempt": TIME })
    }

    #[test]
    fn node_comes_from_the_bootstrap_and_other_pages_are_ignored() {
        let client = read(&json!([
            page("BootstrapConfigDump", &json!({ "bootstrap": { "node": { "id": "envoy-1" } } })),
            page("RuntimeConfigDump", &json!({ "entries": [1] })),
            { "@type": 7 },
            "odd",
        ]));
        assert_eq!(client, ClientReport { node: "envoy-1".into(), ..ClientReport::default() });
    }

    #[test]
    fn clusters_are_static_active_or_warming() {
        let of = |name: &str, version: &str| {
            let cluster = resource(types::CLUSTER, name);
            json!({ "version_info": version, "cluster": cluster, "last_updated": TIME })
        };
        let mut rejected = of("c", "2");
        rejected["error_state"] = error();
        let mut stated = of("e", "2");
        stated["client_status"] = "TIMEOUT".into();
        let client = read(&json!([page(
            "ClustersConfigDump",
            &json!({
                "version_info": "2",
                "static_clusters": [{ "cluster": resource(types::CLUSTER, "a"), "last_updated": TIME }],
                "dynamic_active_clusters": [of("b", "1"), rejected, stated],
                "dynamic_warming_clusters": [of("d", "2")],
            })
        )]));
        assert_eq!(
            shown(&client.rows),
            [
                "cds a  STATIC".to_owned(),
                "cds b 1 ACKED".into(),
                format!("cds c 2 NACKED bad 9 {:?}", Some(TIME)),
                "cds e 2 TIMEOUT".into(),
                "cds d 2 WARMING".into(),
            ]
        );
        assert_eq!(client.rows[1].last_updated.as_deref(), Some(TIME));
        assert_eq!(client.rows[1].content.as_ref().unwrap().json["name"], "b");
    }

    #[test]
    fn each_state_of_a_listener_is_a_row() {
        let state = |version: &str| {
            let listener = resource(types::LISTENER, "l");
            json!({ "version_info": version, "listener": listener, "last_updated": TIME })
        };
        let client = read(&json!([page(
            "ListenersConfigDump",
            &json!({
                "static_listeners": [{ "listener": resource(types::LISTENER, "s") }],
                "dynamic_listeners": [
                    {
                        "name": "l", "active_state": state("1"), "warming_state": state("2"),
                        "draining_state": state("0"), "error_state": error(),
                    },
                    { "name": "w", "warming_state": state("3") },
                    { "name": "bad", "error_state": error() },
                    { "name": "x", "client_status": "DOES_NOT_EXIST" },
                ],
            })
        )]));
        let bad = format!("bad 9 {:?}", Some(TIME));
        assert_eq!(
            shown(&client.rows),
            [
                "lds s  STATIC".to_owned(),
                format!("lds l 1 NACKED {bad}"),
                "lds l 2 WARMING".into(),
                "lds l 0 DRAINING".into(),
                "lds l 3 WARMING".into(),
                format!("lds bad  NACKED {bad}"),
                "lds x  DOES_NOT_EXIST".into(),
            ]
        );
    }

    // Envoy 1.40 has an entry of this kind for each listener that was rejected as an update.
    #[test]
    fn repeated_error_of_a_listener_is_not_another_row() {
        let mut failed = error();
        failed["failed_configuration"] = resource(types::LISTENER, "l");
        let mut timeless = failed.clone();
        timeless["last_update_attempt"] = Json::Null;
        let mut first = failed.clone();
        first["failed_configuration"] = resource(types::LISTENER, "new");
        let state = json!({ "version_info": "1", "listener": resource(types::LISTENER, "l") });
        let client = read(&json!([page(
            "ListenersConfigDump",
            &json!({ "dynamic_listeners": [
            { "error_state": timeless },
            { "name": "l", "active_state": state, "error_state": failed },
            { "error_state": first },
        ] })
        )]));
        let bad = format!("bad 9 {:?}", Some(TIME));
        let expected = [format!("lds l 1 NACKED {bad}"), format!("lds new  NACKED {bad}")];
        assert_eq!(shown(&client.rows), expected);
    }

    #[test]
    fn routes_scopes_endpoints_secrets_and_extensions_are_read() {
        let (scope, assignment) =
            (types::SCOPED_ROUTE_CONFIGURATION, types::CLUSTER_LOAD_ASSIGNMENT);
        let filter = json!({
            "@type": types::EXTENSION_CONFIG, "name": "f",
            "typed_config": { "@type": "type.googleapis.com/a.B", "value": "" },
        });
        let client = read(&json!([
            page(
                "RoutesConfigDump",
                &json!({
                    "static_route_configs": [{ "route_config": resource(types::ROUTE_CONFIGURATION, "r0") }],
                    "dynamic_route_configs": [
                        { "version_info": "1", "route_config": resource(types::ROUTE_CONFIGURATION, "r1") },
                    ],
                })
            ),
            page(
                "ScopedRoutesConfigDump",
                &json!({
                    "inline_scoped_route_configs": [
                        { "name": "group", "scoped_route_configs": [resource(scope, "s0")] },
                    ],
                    "dynamic_scoped_route_configs": [
                        {
                            "name": "group", "version_info": "2",
                            "scoped_route_configs": [resource(scope, "s1"), resource(scope, "s2")],
                        },
                        { "name": "empty", "version_info": "3", "error_state": error() },
                    ],
                })
            ),
            page(
                "EndpointsConfigDump",
                &json!({
                    "static_endpoint_configs": [
                        { "endpoint_config": { "@type": assignment, "cluster_name": "e0" } },
                    ],
                    "dynamic_endpoint_configs": [
                        { "endpoint_config": { "@type": assignment, "cluster_name": "e1" } },
                    ],
                })
            ),
            page(
                "SecretsConfigDump",
                &json!({
                    "static_secrets": [{ "name": "k0", "secret": resource(types::SECRET, "k0") }],
                    "dynamic_active_secrets": [
                        {
                            "name": "k1", "version_info": "4",
                            "secret": {
                                "@type": types::SECRET, "name": "k1",
                                "generic_secret": { "secret": { "inline_string": "hush" } },
                            },
                        },
                    ],
                    "dynamic_warming_secrets": [{ "name": "k2", "version_info": "uninitialized" }],
                })
            ),
            page(
                "EcdsConfigDump",
                &json!({
                    "ecds_filters": [{ "version_info": "5", "ecds_filter": filter }],
                })
            ),
        ]));
        assert_eq!(
            shown(&client.rows),
            [
                "rds r0  STATIC".to_owned(),
                "rds r1 1 ACKED".into(),
                "srds s0  STATIC".into(),
                "srds s1 2 ACKED".into(),
                "srds s2 2 ACKED".into(),
                format!("srds empty 3 NACKED bad 9 {:?}", Some(TIME)),
                "eds e0  STATIC".into(),
                "eds e1  ACKED".into(),
                "sds k0  STATIC".into(),
                "sds k1 4 ACKED".into(),
                "sds k2 uninitialized WARMING".into(),
                "ecds f 5 ACKED".into(),
            ]
        );
        let secret = client.rows[9].content.as_ref().unwrap().json.to_string();
        assert!(secret.contains("[redacted]") && !secret.contains("hush"), "{secret}");
    }

    #[test]
    fn other_documents_are_rejected() {
        for body in ["", "<html>", "{}", "[]", r#"{ "configs": 1 }"#] {
            let why = of_config_dump(body.as_bytes()).unwrap_err();
            assert!(why.starts_with("not a configuration dump of Envoy"), "{why}");
        }
    }
}
