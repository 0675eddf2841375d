//! `Bootstrap.static_resources`: resources in the bootstrap itself, including the clusters of
//! management servers.
// S4.017, S4.018

use serde_json::{Map, Value, json};
use xds_core::{TypeUrl, types};

use super::message::Message;
use crate::{
    error::{BootstrapError, ErrorKind, Warning, WarningKind},
    json::{Field, RawJson},
};

/// Resource in the bootstrap itself: the message that a server would send, in proto3 JSON form.
// S4.016, S4.019
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StaticResource {
    /// Resource type.
    pub type_url: TypeUrl,
    /// Path of the field, such as `static_resources.clusters[0]`.
    pub path: String,
    /// Message, with field names as in the file.
    pub message: RawJson,
}

/// Fields of `static_resources` and their resource types.
const LISTS: [(&str, &str); 3] =
    [("listeners", types::LISTENER), ("clusters", types::CLUSTER), ("secrets", types::SECRET)];

/// Reads the field `static_resources`. Messages are not interpreted, except that version 2 fields
/// of clusters are upgraded.
pub(super) fn read(
    field: Field<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<StaticResource>, BootstrapError> {
    let message = Message::read(field, &LISTS.map(|(name, _)| name))?;
    let mut resources = Vec::new();
    for (name, type_url) in LISTS {
        for field in message.elements(name)? {
            let message = match type_url {
                types::CLUSTER => Value::Object(upgraded_cluster(&field, warnings)?),
                _ => Value::Object(field.object()?.clone()),
            };
            let (type_url, message) = (TypeUrl::from(type_url), RawJson::new(message));
            resources.push(StaticResource { type_url, path: field.path, message });
        }
    }
    Ok(resources)
}

const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// Upgrades a cluster to version 3 of the API: `hosts` becomes `load_assignment`, and
/// `http2_protocol_options` becomes an extension.
// X43
fn upgraded_cluster(
    field: &Field<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Map<String, Value>, BootstrapError> {
    let mut upgraded = field.object()?.clone();
    let cluster = Message::open(field.clone())?;
    let mut take = |older: &Field<'_>, now: &'static str| {
        let key = older.path.rsplit('.').next().unwrap_or_default().to_owned();
        upgraded.remove(&key);
        warnings.push(Warning::new(older.path.clone(), WarningKind::Version2 { now }));
    };
    let mut added = Vec::new();
    if let Some((_, hosts)) =
        cluster.one_of(&["load_assignment", "hosts"])?.filter(|it| it.0 == "hosts")
    {
        take(&hosts, "load_assignment");
        let endpoints: Vec<_> = cluster
            .elements("hosts")?
            .into_iter()
            .map(|host| json!({ "endpoint": { "address": host.value } }))
            .collect();
        let name = cluster.string("name")?;
        let assignment =
            json!({ "cluster_name": name, "endpoints": [{ "lb_endpoints": endpoints }] });
        added.push(("load_assignment", assignment));
    }
    if let Some((_, options)) = cluster
        .one_of(&["typed_extension_protocol_options", "http2_protocol_options"])?
        .filter(|it| it.0 == "http2_protocol_options")
    {
        take(&options, "typed_extension_protocol_options");
        let typed = json!({
            "@type": format!("type.googleapis.com/{HTTP_OPTIONS}"),
            "explicit_http_config": { "http2_protocol_options": options.value },
        });
        let mut by_name = Map::new();
        by_name.insert(HTTP_OPTIONS.to_owned(), typed);
        added.push(("typed_extension_protocol_options", Value::Object(by_name)));
    }
    for (name, value) in added {
        upgraded.insert(name.to_owned(), value);
    }
    if let Some(kind) = cluster.get("tls_context") {
        return Err(kind.error(ErrorKind::InvalidValue(
            "replaced by `transport_socket` in version 3 of the API",
        )));
    }
    Ok(upgraded)
}
