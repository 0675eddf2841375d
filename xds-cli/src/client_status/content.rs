//! Contents of resources, printed without secrets.

use bytes::Bytes;
use serde_json::{Map, Value as Json, json};
use xds_core::{proto::Any, types};
use xds_format::{
    Format, ParseOptions, PrintOptions, REDACTED, UnknownFields, encode_message_with,
    message_to_json, to_json,
};

use crate::schema::schema;

/// Contents of a resource.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Content {
    /// Canonical JSON without secrets.
    pub(crate) json: Json,
    /// Contents as the peer sent them; `None` if it sent JSON.
    bytes: Option<Bytes>,
}

impl Content {
    /// Reads an `Any`. A resource that does not decode has only its type and the error.
    pub(crate) fn of_any(any: Any) -> Self {
        let json = to_json(schema(), &any.type_url, &any.value, &PrintOptions::default());
        let json = json.unwrap_or_else(
            |why| json!({ "@type": any.type_url, "[cannot be read]": why.to_string() }),
        );
        Self { json, bytes: Some(any.value) }
    }

    /// Reads the JSON of a resource with its `@type`, as Envoy prints it.
    pub(crate) fn of_json(json: &Json) -> Self {
        Self { json: canonical(json), bytes: None }
    }

    /// Returns whether two contents are known to be equal. Hidden values are equal only if the peers
    /// sent the same bytes.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let are_bytes_equal = self.bytes.is_some() && self.bytes == other.bytes;
        are_bytes_equal || (self.json == other.json && !hides(&self.json))
    }
}

/// Whether a part of a printed resource is hidden.
fn hides(json: &Json) -> bool {
    match json {
        Json::String(text) => text == REDACTED,
        Json::Array(elements) => elements.iter().any(hides),
        Json::Object(members) => members.values().any(hides),
        _ => false,
    }
}

const ANY: &str = "google.protobuf.Any";

/// Converts the JSON of an `Any` to canonical JSON without secrets.
///
/// Fields that the schema lacks are omitted: whether they are secret is unknown. An `Any` that the
/// schema cannot describe stays as Envoy printed it, which hides secrets too, while parts of it that
/// have a known type are converted.
fn canonical(json: &Json) -> Json {
    let options = ParseOptions::envoy().with_unknown_fields(UnknownFields::Skipped);
    let encoded =
        encode_message_with(schema(), "", ANY, Format::Json, json.to_string().as_bytes(), options);
    let print = |bytes: Vec<u8>| message_to_json(schema(), ANY, &bytes, &PrintOptions::default());
    encoded.and_then(print).unwrap_or_else(|_| as_printed(json))
}

/// Copies a part of a resource that cannot be read as a whole.
fn as_printed(json: &Json) -> Json {
    let within = |json: &Json| match json.get("@type") {
        Some(_) => canonical(json),
        None => as_printed(json),
    };
    match json {
        Json::Object(members) if members.get("@type").is_some_and(is_secret) => {
            let shown = members.iter().filter(|(key, _)| ["@type", "name"].contains(&key.as_str()));
            let mut shown: Map<_, _> = shown.map(|(key, it)| (key.clone(), it.clone())).collect();
            shown.insert("[secret]".into(), REDACTED.into());
            Json::Object(shown)
        }
        Json::Object(members) => {
            members.iter().map(|(key, member)| (key.clone(), within(member))).collect()
        }
        Json::Array(elements) => elements.iter().map(within).collect(),
        scalar => scalar.clone(),
    }
}

fn is_secret(type_url: &Json) -> bool {
    let name = |url: &str| url.rsplit('/').next().unwrap_or_default().to_owned();
    type_url.as_str().is_some_and(|url| name(url) == name(types::SECRET))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: &Json) -> Json {
        Content::of_json(json).json
    }

    #[test]
    fn secrets_in_envoys_json_are_hidden() {
        let key = json!({ "inline_string": "hush" });
        let secret = json!({
            "@type": types::SECRET,
            "name": "s",
            "tls_certificate": { "certificate_chain": key, "private_key": key },
        });
        let printed = shown(&secret);
        assert_eq!(printed["name"], "s");
        assert!(!printed.to_string().contains("hush"), "{printed}");
        // Also if the secret is not valid, and inside of something that the schema lacks.
        let broken = json!({ "@type": types::SECRET, "name": "s", "generic_secret": ["hush"] });
        for json in
            [broken.clone(), json!({ "@type": "t/a.B", "x": [broken], "y": { "z": secret } })]
        {
            let printed = shown(&json).to_string();
            assert!(printed.contains(REDACTED) && !printed.contains("hush"), "{printed}");
        }
    }

    #[test]
    fn unknown_types_and_fields_do_not_lose_the_resource() {
        let cluster = |socket: Json| {
            json!({
                "@type": types::CLUSTER, "name": "c", "connect_timeout": "0.250s", "newer_field": 1,
                "transport_socket": { "name": "t", "typed_config": socket },
            })
        };
        let socket = json!({ "@type": "type.googleapis.com/a.B", "value": "eA==" });
        let printed = shown(&cluster(socket.clone()));
        assert_eq!(
            (&printed["name"], &printed["connect_timeout"]),
            (&"c".into(), &"0.250s".into())
        );
        assert_eq!(printed["transport_socket"]["typed_config"], socket);
        // A resource that the schema describes has the canonical spelling, and no unknown field.
        let upstream =
            "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
        let printed = shown(&cluster(json!({ "@type": upstream, "sni": "x" })));
        assert_eq!(printed["connect_timeout"], "0.250s");
        assert_eq!(printed["transport_socket"]["typed_config"]["sni"], "x");
        assert_eq!(printed.get("newer_field"), None);
    }

    #[test]
    fn hidden_values_are_compared_by_their_bytes() {
        // Secret { name: "key", generic_secret { secret { inline_string: "hush" } } }
        let secret = |bytes: &'static [u8]| {
            Content::of_any(Any {
                type_url: types::SECRET.into(),
                value: Bytes::from_static(bytes),
            })
        };
        let (one, other) = (
            secret(b"\x0a\x03key\x2a\x08\x0a\x06\x1a\x04hush"),
            secret(b"\x0a\x03key\x2a\x08\x0a\x06\x1a\x04hash"),
        );
        assert_eq!(one.json, other.json);
        assert!(one.is_same_as(&one.clone()) && !one.is_same_as(&other));
        let broken = secret(b"\x0a\x7f").json;
        assert!(broken["[cannot be read]"].is_string(), "{broken}");
    }
}
