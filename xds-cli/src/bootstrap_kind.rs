//! Detection of the kind of a bootstrap.

use serde_json::Value as Json;
use xds_format::nearest;

/// Fields by which a bootstrap of Envoy is recognised.
const OF_ENVOY: [&str; 7] = [
    "static_resources",
    "dynamic_resources",
    "admin",
    "layered_runtime",
    "config_sources",
    "default_config_source",
    "bootstrap_extensions",
];
/// Field by which a bootstrap of gRPC is recognised.
const OF_GRPC: &str = "xds_servers";
/// Further fields of a bootstrap of gRPC.
const MORE_OF_GRPC: [&str; 6] = [
    "node",
    "authorities",
    "certificate_providers",
    "allowed_grpc_services",
    "server_listener_resource_name_template",
    "client_default_listener_resource_name_template",
];

/// Kind of a bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BootstrapKind {
    Grpc,
    Envoy,
    /// Only fields of a bootstrap of gRPC, but not the required one.
    IncompleteGrpc,
    Neither,
}

impl BootstrapKind {
    pub(crate) fn of(json: &Json) -> Self {
        let has = |name: &str| json.get(name).is_some() || json.get(camel_case(name)).is_some();
        let mut keys = json.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
        if json.get(OF_GRPC).is_some() {
            Self::Grpc
        } else if OF_ENVOY.into_iter().any(has) {
            Self::Envoy
        } else if json.is_object() && keys.all(|key| MORE_OF_GRPC.contains(&key)) {
            Self::IncompleteGrpc
        } else {
            Self::Neither
        }
    }
}

/// Describes a file that is no bootstrap. Returns the misspelt field, if there is one, and the text.
pub(crate) fn neither(json: &Json) -> (Option<&str>, String) {
    let known = || OF_ENVOY.into_iter().chain([OF_GRPC]);
    let mut keys = json.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    let misspelt = keys.find_map(|key| Some((key, nearest(key, known())?)));
    let hint = match misspelt {
        Some((key, similar)) => format!("; unknown field `{key}`, did you mean `{similar}`?"),
        None => String::new(),
    };
    let text = format!(
        "neither a gRPC bootstrap (JSON with `{OF_GRPC}`) nor an Envoy bootstrap (JSON or YAML with \
         `static_resources`, `dynamic_resources` or other fields of it){hint}"
    );
    (misspelt.map(|(key, _)| key), text)
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(word.len().min(1));
        camel += &first.to_ascii_uppercase();
        camel += rest;
    }
    camel
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kind_is_known_by_top_level_fields() {
        for (json, kind) in [
            (json!({ "xds_servers": [], "node": {} }), BootstrapKind::Grpc),
            (json!({ "xds_servers": [], "admin": {} }), BootstrapKind::Grpc),
            (json!({ "node": {}, "staticResources": {} }), BootstrapKind::Envoy),
            (json!({ "node": {} }), BootstrapKind::IncompleteGrpc),
            (json!({}), BootstrapKind::IncompleteGrpc),
            (json!({ "node": {}, "static_resource": {} }), BootstrapKind::Neither),
            (json!("text"), BootstrapKind::Neither),
        ] {
            assert_eq!(BootstrapKind::of(&json), kind, "{json}");
        }
    }

    #[test]
    fn misspelt_field_is_named_with_the_similar_one() {
        let json = json!({ "node": {}, "static_resource": {} });
        let (field, text) = neither(&json);
        assert_eq!(field, Some("static_resource"));
        assert!(text.ends_with("did you mean `static_resources`?"), "{text}");
        let json = json!(["x"]);
        let (field, text) = neither(&json);
        assert!(field.is_none() && !text.contains("mean"), "{text}");
    }
}
