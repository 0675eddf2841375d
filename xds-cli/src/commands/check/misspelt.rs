//! Fields of a gRPC bootstrap that are probably misspelt.

use serde_json::Value as Json;
use xds_format::nearest;

use super::named_files::field;

/// Known fields of a part of a bootstrap.
enum Shape {
    Object(&'static [(&'static str, Self)]),
    List(&'static Self),
    /// Object whose keys are names.
    Map(&'static Self),
    /// Part whose fields are not known, or that has none.
    Opaque,
}

use Shape::{List, Map, Object, Opaque};

const CREDENTIALS: Shape = List(&Object(&[("type", Opaque), ("config", Opaque)]));
const SERVERS: Shape = List(&Object(&[
    ("server_uri", Opaque),
    ("channel_creds", CREDENTIALS),
    ("call_creds", CREDENTIALS),
    ("server_features", Opaque),
]));
const NODE: Shape = Object(&[
    ("id", Opaque),
    ("cluster", Opaque),
    ("locality", Object(&[("region", Opaque), ("zone", Opaque), ("sub_zone", Opaque)])),
    ("metadata", Opaque),
    ("build_version", Opaque),
    ("user_agent_name", Opaque),
    ("user_agent_version", Opaque),
    ("client_features", Opaque),
]);
const BOOTSTRAP: Shape = Object(&[
    ("xds_servers", SERVERS),
    ("node", NODE),
    (
        "authorities",
        Map(&Object(&[
            ("xds_servers", SERVERS),
            ("client_listener_resource_name_template", Opaque),
        ])),
    ),
    ("certificate_providers", Map(&Object(&[("plugin_name", Opaque), ("config", Opaque)]))),
    (
        "allowed_grpc_services",
        Map(&Object(&[("channel_creds", CREDENTIALS), ("call_creds", CREDENTIALS)])),
    ),
    ("server_listener_resource_name_template", Opaque),
    ("client_default_listener_resource_name_template", Opaque),
]);

/// Returns the paths of unknown fields that resemble a known field, with that field. Other unknown
/// fields may be of a newer version.
pub(super) fn misspelt_fields(bootstrap: &Json) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    find(bootstrap, &BOOTSTRAP, "", &mut found);
    found
}

fn find(json: &Json, shape: &Shape, path: &str, found: &mut Vec<(String, &'static str)>) {
    match (shape, json) {
        (Object(fields), Json::Object(entries)) => {
            for (key, value) in entries {
                let path = field(path, key);
                if let Some((_, shape)) = fields.iter().find(|(name, _)| name == key) {
                    find(value, shape, &path, found);
                } else if let Some(similar) = nearest(key, fields.iter().map(|(name, _)| *name)) {
                    found.push((path, similar));
                }
            }
        }
        (List(item), Json::Array(items)) => {
            for (at, value) in items.iter().enumerate() {
                find(value, item, &format!("{path}[{at}]"), found);
            }
        }
        (Map(value_shape), Json::Object(entries)) => {
            for (key, value) in entries {
                find(value, value_shape, &field(path, key), found);
            }
        }
        _ => {}
    }
}
