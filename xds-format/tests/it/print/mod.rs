//! Printing of resources, and hiding of secrets.

mod redaction;

use xds_format::{
    FieldNames, Format, PrintOptions, Redaction, Schema, message_to_json, parse, to_json,
    to_json_string, to_text, to_yaml,
};

const PREFIX: &str = "type.googleapis.com";

/// Returns the only resource of a YAML file.
fn resource(yaml: &str) -> (String, Vec<u8>) {
    let document = parse(Schema::envoy(), "f", Format::Yaml, yaml.as_bytes())
        .unwrap_or_else(|error| panic!("{error}"));
    (document.resources[0].type_url.clone(), document.resources[0].bytes.to_vec())
}

/// Prints a resource in all three formats.
fn printed(yaml: &str, options: &PrintOptions) -> [String; 3] {
    let (type_url, bytes) = resource(yaml);
    [
        to_json_string(Schema::envoy(), &type_url, &bytes, options).unwrap(),
        to_yaml(Schema::envoy(), &type_url, &bytes, options).unwrap(),
        to_text(Schema::envoy(), &type_url, &bytes, options).unwrap(),
    ]
}

const LISTENER: &str = r#"
"@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: ingress
address: {socket_address: {address: 0.0.0.0, port_value: 8080}}
per_connection_buffer_limit_bytes: 32768
metadata: {filter_metadata: {b: {list: [1, 1.5, x, null, true]}, a: {}}}
filter_chains:
- filters:
  - name: hcm
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: in
      codec_type: HTTP2
      stream_idle_timeout: 1.5s
      http_filters:
      - name: router
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
"#;

/// Negative zero is not the default of a field.
#[test]
fn negative_zero_is_printed() {
    let percent = "envoy.type.v3.Percent";
    let cluster = format!(
        r#"{{"@type": {PREFIX}/envoy.config.cluster.v3.Cluster, name: c, metadata: {{typed_filter_metadata: {{
            a: {{"@type": {PREFIX}/google.protobuf.DoubleValue, value: -0.0}},
            b: {{"@type": {PREFIX}/google.protobuf.FloatValue, value: -0.0}},
            c: {{"@type": {PREFIX}/{percent}, value: -0.0}},
            d: {{"@type": {PREFIX}/{percent}, value: 0.0}}}}}}}}"#
    );
    let (type_url, bytes) = resource(&cluster);
    let [json, yaml, text] = printed(&cluster, &PrintOptions::default());
    for (format, file) in [(Format::Json, json), (Format::Yaml, yaml)] {
        let read = parse(Schema::envoy(), "f", format, file.as_bytes()).unwrap();
        assert_eq!(read.resources[0].bytes, bytes, "{file}");
    }
    let file = format!("resources {{ [{type_url}] {{ {text} }} }}");
    let read = parse(Schema::envoy(), "f", Format::Text, file.as_bytes()).unwrap();
    assert_eq!(read.resources[0].bytes, bytes, "{file}");
}

#[test]
fn printed_json_is_the_canonical_mapping_with_proto_names() {
    let (type_url, bytes) = resource(LISTENER);
    let json =
        to_json_string(Schema::envoy(), &type_url, &bytes, &PrintOptions::default()).unwrap();
    assert_eq!(
        json,
        r#"{
  "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
  "name": "ingress",
  "address": {
    "socket_address": {
      "address": "0.0.0.0",
      "port_value": 8080
    }
  },
  "filter_chains": [
    {
      "filters": [
        {
          "name": "hcm",
          "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "codec_type": "HTTP2",
            "stat_prefix": "in",
            "http_filters": [
              {
                "name": "router",
                "typed_config": {
                  "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
                }
              }
            ],
            "stream_idle_timeout": "1.500s"
          }
        }
      ]
    }
  ],
  "per_connection_buffer_limit_bytes": 32768,
  "metadata": {
    "filter_metadata": {
      "a": {},
      "b": {
        "list": [
          1,
          1.5,
          "x",
          null,
          true
        ]
      }
    }
  }
}
"#
    );
    let camel = PrintOptions::default().with_field_names(FieldNames::Json);
    let json = to_json(Schema::envoy(), &type_url, &bytes, &camel).unwrap();
    assert_eq!(json["perConnectionBufferLimitBytes"], 32768);
    assert_eq!(json["filterChains"][0]["filters"][0]["typedConfig"]["streamIdleTimeout"], "1.500s");
}

#[test]
fn printed_yaml_is_block_style_with_minimal_quotes() {
    let (type_url, bytes) = resource(LISTENER);
    assert_eq!(
        to_yaml(Schema::envoy(), &type_url, &bytes, &PrintOptions::default()).unwrap(),
        r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: ingress
address:
  socket_address:
    address: "0.0.0.0"
    port_value: 8080
filter_chains:
- filters:
  - name: hcm
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      codec_type: HTTP2
      stat_prefix: in
      http_filters:
      - name: router
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
      stream_idle_timeout: 1.500s
per_connection_buffer_limit_bytes: 32768
metadata:
  filter_metadata:
    a: {}
    b:
      list:
      - 1
      - 1.5
      - x
      - null
      - true
"#
    );
}

#[test]
fn printed_text_starts_with_its_message_header() {
    let yaml = "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: \"a\\\"b\\n\"\nconnect_timeout: 5s\ntype: EDS\n\
                transport_socket:\n  name: raw\n  typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router, start_child_span: on}\n\
                metadata: {filter_metadata: {b: {}, a: {x: 1}}}\n";
    let (type_url, bytes) = resource(yaml);
    assert_eq!(
        to_text(Schema::envoy(), &type_url, &bytes, &PrintOptions::default()).unwrap(),
        r#"# proto-message: envoy.config.cluster.v3.Cluster
name: "a\"b\n"
type: EDS
connect_timeout {
  seconds: 5
}
transport_socket {
  name: "raw"
  typed_config {
    [type.googleapis.com/envoy.extensions.filters.http.router.v3.Router] {
      start_child_span: true
    }
  }
}
metadata {
  filter_metadata {
    key: "a"
    value {
      fields {
        key: "x"
        value {
          number_value: 1
        }
      }
    }
  }
  filter_metadata {
    key: "b"
    value {
    }
  }
}
"#
    );
}

#[test]
fn printed_files_parse_to_the_same_resource() {
    let shown = PrintOptions::default().with_redaction(Redaction::Shown);
    let (type_url, bytes) = resource(LISTENER);
    let [json, yaml, text] = printed(LISTENER, &shown);
    for (format, printed) in [(Format::Json, json), (Format::Yaml, yaml), (Format::Text, text)] {
        let document = parse(Schema::envoy(), "printed", format, printed.as_bytes()).unwrap();
        assert_eq!(
            (document.resources[0].type_url.as_str(), document.resources[0].bytes.as_ref()),
            (type_url.as_str(), bytes.as_slice())
        );
    }
}

#[test]
fn unknown_types_print_as_raw_bytes() {
    let schema = Schema::envoy();
    let options = PrintOptions::default();
    let json = to_json(schema, "x/a.B", b"\x0a\x01a", &options).unwrap();
    assert_eq!(json, serde_json::json!({"@type": "x/a.B", "[unknown type]": "CgFh"}));
    assert_eq!(
        to_yaml(schema, "x/a.B", b"\x0a\x01a", &options).unwrap(),
        "\"@type\": x/a.B\n\"[unknown type]\": CgFh\n"
    );
    assert_eq!(
        to_text(schema, "x/a.B", b"\x0a\x01a\xff", &options).unwrap(),
        "# proto-message: google.protobuf.Any\ntype_url: \"x/a.B\"\nvalue: \"\\n\\001a\\377\"\n"
    );

    // Inside a known type.
    let text = "# proto-message: envoy.config.core.v3.TypedExtensionConfig\nname: 'x' typed_config { type_url: 'x/a.B' value: '\\377' }";
    let document = parse(schema, "f", Format::Text, text.as_bytes()).unwrap();
    let (type_url, bytes) = (&document.resources[0].type_url, &document.resources[0].bytes);
    assert_eq!(
        to_json(schema, type_url, bytes, &options).unwrap(),
        serde_json::json!({
            "@type": format!("{PREFIX}/envoy.config.core.v3.TypedExtensionConfig"),
            "name": "x",
            "typed_config": {"@type": "x/a.B", "[unknown type]": "/w=="},
        })
    );
    let printed = to_text(schema, type_url, bytes, &options).unwrap();
    assert_eq!(
        parse(schema, "f", Format::Text, printed.as_bytes()).unwrap().resources[0].bytes,
        bytes
    );
}

#[test]
fn malformed_resource_error_states_the_path() {
    let print = |bytes: &[u8]| {
        to_json(
            Schema::envoy(),
            "t/envoy.config.cluster.v3.Cluster",
            bytes,
            &PrintOptions::default(),
        )
        .unwrap_err()
        .to_string()
    };
    assert_eq!(
        print(b"\x0a\x05"),
        "cannot decode as `envoy.config.cluster.v3.Cluster`: the encoding is truncated"
    );
    assert_eq!(
        print(b"\x22\x01\x08"),
        "connect_timeout: cannot decode as `google.protobuf.Duration`: the encoding is truncated"
    );
    // It decodes, but is not a valid duration: the signs of seconds and nanoseconds differ.
    assert_eq!(
        print(b"\x22\x0d\x08\x01\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        "expected a printable value, found a duration out of range"
    );
}

/// Negative zero has other bytes than zero, and versions are made from the bytes.
#[test]
fn negative_zero_keeps_its_sign() {
    let yaml = format!(
        "'@type': {PREFIX}/envoy.config.cluster.v3.Cluster\nname: c\nmetadata: {{filter_metadata: {{k: {{n: -0, z: 0}}}}}}\n"
    );
    let (_, bytes) = resource(&yaml);
    let formats = [Format::Json, Format::Yaml, Format::Text];
    for (format, text) in formats.into_iter().zip(printed(&yaml, &PrintOptions::default())) {
        let back = parse(Schema::envoy(), "f", format, text.as_bytes()).unwrap();
        assert_eq!(back.resources[0].bytes, bytes, "{text}");
    }
}

#[test]
fn message_prints_without_its_type() {
    let json = message_to_json(
        Schema::envoy(),
        "envoy.service.discovery.v3.DiscoveryRequest",
        b"\x0a\x017",
        &PrintOptions::default(),
    )
    .unwrap();
    assert_eq!(json, serde_json::json!({"version_info": "7"}));
    let error = message_to_json(Schema::envoy(), "a.B", b"", &PrintOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown type `a.B`: it is not in the schema; add it with a descriptor set"
    );
}

/// Nested `Any`s that can be parsed can be printed; deeper ones are rejected when parsed.
#[test]
fn parsed_resources_can_be_printed_at_any_depth() {
    let nested = |levels: usize| {
        let open = format!(
            r#"{{"@type":"{PREFIX}/envoy.config.core.v3.TypedExtensionConfig","name":"e","typed_config":"#
        );
        let inmost = format!(r#"{{"@type":"{PREFIX}/envoy.config.core.v3.Node","id":"n"}}"#);
        format!("{}{inmost}{}", open.repeat(levels), "}".repeat(levels))
    };
    let (mut printed, mut refused) = (0, 0);
    for levels in [1, 100, 147, 148, 149, 150, 151, 152, 190] {
        match parse(Schema::envoy(), "f", Format::Json, nested(levels).as_bytes()) {
            Ok(document) => {
                let resource = &document.resources[0];
                let options = PrintOptions::default();
                to_json_string(Schema::envoy(), &resource.type_url, &resource.bytes, &options)
                    .unwrap_or_else(|error| panic!("{levels} levels: {error}"));
                printed += 1;
            }
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("nested deeper than 300 levels"), "{levels}: {error}");
                assert!(levels > 140, "{levels}: {error}");
                refused += 1;
            }
        }
    }
    assert!(printed > 2 && refused > 2, "{printed} printed, {refused} refused");
}
