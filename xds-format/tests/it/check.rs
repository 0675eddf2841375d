//! `decode_check`, the validator for clients that do not decode resources.

use crate::common::{RESOURCE_TYPES, Rng, random_message, random_type};
use proptest::prelude::*;
use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};
use xds_format::{Format, Schema, decode_check, parse};

const LISTENER: &str = "envoy.config.listener.v3.Listener";
const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";

fn check(message: &str, bytes: &[u8]) -> Result<(), String> {
    decode_check(Schema::envoy(), &format!("type.googleapis.com/{message}"), bytes)
        .map_err(|error| error.to_string())
}

#[test]
fn malformed_nested_any_is_reported_with_its_path() {
    let yaml = r#"
"@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: l
filter_chains:
- {}
- filters:
  - name: a
  - name: hcm
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: PREFIX
      http_filters:
      - name: router
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
          upstream_log: [{name: log, typed_config: {"@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: PATH}}]
"#;
    let document = parse(Schema::envoy(), "f", Format::Yaml, yaml.as_bytes()).unwrap();
    let bytes = document.resources[0].bytes.to_vec();
    assert_eq!(check(LISTENER, &bytes), Ok(()));

    let broken = |needle: &[u8], replacement: &[u8]| {
        let at = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
        let mut broken = bytes.clone();
        broken[at..at + needle.len()].copy_from_slice(replacement);
        check(LISTENER, &broken).unwrap_err()
    };
    assert_eq!(
        broken(b"PATH", b"\xff\xff\xff\xff"),
        "filter_chains[1].filters[1].typed_config.http_filters[0].typed_config.upstream_log[0].typed_config: cannot decode as \
         `envoy.extensions.access_loggers.file.v3.FileAccessLog`: the field `path` is not valid UTF-8"
    );
    assert_eq!(
        broken(b"\x04PATH", b"\x05PATH"),
        "filter_chains[1].filters[1].typed_config.http_filters[0].typed_config.upstream_log[0].typed_config: cannot decode as \
         `envoy.extensions.access_loggers.file.v3.FileAccessLog`: the encoding is truncated"
    );
    assert_eq!(
        broken(b"\x12\x06PREFIX", b"\x10\x06PREFIX"),
        "filter_chains[1].filters[1].typed_config: cannot decode as \
         `envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager`: the field `stat_prefix` has the \
         wrong wire type"
    );
}

#[test]
fn unknown_type_passes_inside_any_but_not_as_a_resource() {
    // TypedExtensionConfig { name, typed_config: Any { type_url: "x/a.B", value: garbage } }
    let bytes = b"\x0a\x01x\x12\x0b\x0a\x05x/a.B\x12\x02\xff\xff";
    assert_eq!(check("envoy.config.core.v3.TypedExtensionConfig", bytes), Ok(()));
    assert_eq!(check("a.B", bytes), Err("unknown type `type.googleapis.com/a.B`: it is not in the schema; add it with a descriptor set".to_owned()));
    let error = decode_check(Schema::envoy(), "nonsense", b"").unwrap_err().to_string();
    assert_eq!(
        error,
        "`nonsense` is not a type URL such as `type.googleapis.com/envoy.config.cluster.v3.Cluster`"
    );
}

#[test]
fn each_kind_of_malformed_encoding_is_reported() {
    let because = |bytes: &[u8]| {
        check(CLUSTER, bytes)
            .unwrap_err()
            .strip_prefix("cannot decode as `envoy.config.cluster.v3.Cluster`: ")
            .unwrap()
            .to_owned()
    };
    assert_eq!(because(b"\x0a"), "the encoding is truncated");
    assert_eq!(
        because(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
        "the encoding has an invalid varint"
    );
    assert_eq!(
        because(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x"),
        "the encoding is truncated"
    );
    assert_eq!(because(b"\x00"), "the encoding has an invalid field tag");
    assert_eq!(because(b"\x0f"), "the encoding has an invalid field tag");
    assert_eq!(because(b"\xff\xff\xff\xff\x7f"), "the encoding has an invalid field tag");
    assert_eq!(because(b"\xfc\x3f"), "the encoding has an unbalanced group");
    assert_eq!(because(b"\xfb\x3f\x08\x01"), "the encoding is truncated");
    assert_eq!(because(b"\x08\x01"), "the field `name` has the wrong wire type");
    // An unknown group that is closed properly.
    assert_eq!(check(CLUSTER, b"\xfb\x3f\x08\x01\xfc\x3f"), Ok(()));
}

#[test]
fn message_nesting_depth_is_limited() {
    let value = |depth: usize| {
        // google.protobuf.Value { list_value { values { ... } } }
        let mut bytes = vec![];
        for _ in 0..depth {
            for tag in [0x0a_u8, 0x32] {
                let mut outer = vec![tag];
                let mut len = bytes.len();
                while len >= 0x80 {
                    outer.push(len as u8 | 0x80);
                    len >>= 7;
                }
                outer.push(len as u8);
                outer.extend_from_slice(&bytes);
                bytes = outer;
            }
        }
        bytes
    };
    assert_eq!(check("google.protobuf.Value", &value(50)), Ok(()));
    let error = check("google.protobuf.Value", &value(51)).unwrap_err();
    assert!(error.ends_with(": nested deeper than 100 levels"), "{error}");
    assert!(check("google.protobuf.Value", &value(20_000)).is_err());
    // prost's decoder has the same limit.
    let message = Schema::envoy().message("google.protobuf.Value").unwrap();
    assert!(DynamicMessage::decode(message.clone(), value(50).as_slice()).is_ok());
    assert!(DynamicMessage::decode(message, value(51).as_slice()).is_err());
}

#[test]
fn any_nesting_depth_is_limited() {
    let url = b"x/google.protobuf.Any";
    let mut bytes = vec![];
    for _ in 0..5_000 {
        let mut outer = vec![0x0a, url.len() as u8];
        outer.extend_from_slice(url);
        outer.push(0x12);
        let mut len = bytes.len();
        while len >= 0x80 {
            outer.push(len as u8 | 0x80);
            len >>= 7;
        }
        outer.push(len as u8);
        outer.extend_from_slice(&bytes);
        bytes = outer;
    }
    assert_eq!(
        check("google.protobuf.Any", &bytes),
        Err("nested deeper than 300 levels".to_owned())
    );
}

proptest! {
    #[test]
    fn valid_messages_pass_the_decode_check(seed: u64) {
        let mut rng = Rng(seed);
        let message = random_type(&mut rng, Schema::envoy());
        let bytes = random_message(&mut rng, &message, 5).encode_to_vec();
        prop_assert_eq!(check(message.full_name(), &bytes), Ok(()));
    }

    #[test]
    fn messages_that_pass_the_decode_check_decode(
        seed: u64,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut rng = Rng(seed);
        let name = RESOURCE_TYPES[rng.below(RESOURCE_TYPES.len())];
        let mut bytes = random_message(&mut rng, &Schema::envoy().message(name).unwrap(), 4).encode_to_vec();
        if bytes.is_empty() {
            return Ok(());
        }
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let checked = check(name, &bytes);
        // The reverse does not hold: unlike prost's generated messages, dynamic messages accept map
        // entries of any wire type.
        if checked.is_ok() {
            prop_assert!(decodes(name, &bytes));
        }
    }
}

/// Implements the check of `decode_check` by decoding every message.
fn decodes(name: &str, bytes: &[u8]) -> bool {
    match Schema::envoy().message(name) {
        None => true,
        Some(message) => {
            DynamicMessage::decode(message, bytes).is_ok_and(|message| nested_anys_decode(&message))
        }
    }
}

fn nested_anys_decode(message: &DynamicMessage) -> bool {
    if message.descriptor().full_name() == "google.protobuf.Any" {
        let (url, value) =
            (message.get_field_by_number(1).unwrap(), message.get_field_by_number(2).unwrap());
        let Some((_, name)) = url.as_str().unwrap().rsplit_once('/') else { return true };
        return decodes(name, value.as_bytes().unwrap());
    }
    message.fields().all(|(_, value)| match value {
        Value::Message(inner) => nested_anys_decode(inner),
        Value::List(elements) => {
            elements.iter().filter_map(Value::as_message).all(nested_anys_decode)
        }
        Value::Map(map) => map.values().filter_map(Value::as_message).all(nested_anys_decode),
        _ => true,
    })
}
