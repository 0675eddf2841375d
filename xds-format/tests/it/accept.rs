//! Accepted forms of files, and the independence of the bytes from the form.
// S0.012, S0.013, S0.014, S0.015, S0.016, S0.176, S4.056

use core::time::Duration;

use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};
use xds_format::{
    Document, Format, ParseOptions, Schema, UnknownFields, encode_message, encode_message_with,
    parse, resource_name,
};

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

fn read(format: Format, text: impl AsRef<[u8]>) -> Document {
    parse(Schema::envoy(), "f", format, text.as_ref()).unwrap_or_else(|error| panic!("{error}"))
}

fn names(document: &Document) -> Vec<&str> {
    document.resources.iter().map(|resource| resource.name.as_str()).collect()
}

/// Returns the bytes of a cluster given in JSON.
fn cluster(members: &str) -> Vec<u8> {
    let json = format!(r#"{{"@type": "{CLUSTER}", "name": "c", {members}}}"#);
    read(Format::Json, json).resources[0].bytes.to_vec()
}

fn same(spellings: &[&str]) {
    let first = cluster(spellings[0]);
    assert!(first.len() > cluster(r#""type": null"#).len(), "{} says nothing", spellings[0]);
    for spelling in &spellings[1..] {
        assert_eq!(cluster(spelling), first, "{spelling}");
    }
}

#[test]
fn file_may_hold_one_resource() {
    let document = read(Format::Yaml, format!("'@type': {CLUSTER}\nname: a\n"));
    assert_eq!(names(&document), ["a"]);
    assert_eq!(document.resources[0].type_url, CLUSTER);
    assert_eq!(&document.resources[0].bytes[..], b"\x0a\x01a");
    assert_eq!(document.resources[0].wrapper, None);
    assert_eq!((document.version_info, document.type_url, document.nonce), (None, None, None));
}

#[test]
fn file_may_hold_a_list_of_resources() {
    let document = read(
        Format::Json,
        format!(
            r#"[{{"@type": "{CLUSTER}", "name": "a"}}, {{"name": "b", "@type": "{CLUSTER}"}}]"#
        ),
    );
    assert_eq!(names(&document), ["a", "b"]);
}

#[test]
fn file_may_hold_a_discovery_response() {
    for (version, type_url) in [("version_info", "type_url"), ("versionInfo", "typeUrl")] {
        let json = format!(
            r#"{{"{version}": "7", "{type_url}": "{CLUSTER}", "nonce": "n", "canary": true, "controlPlane": {{"identifier": "x"}},
                "resources": [{{"@type": "{CLUSTER}", "name": "a"}}]}}"#
        );
        let document = read(Format::Json, json);
        assert_eq!(names(&document), ["a"]);
        assert_eq!(document.version_info.as_deref(), Some("7"));
        assert_eq!(document.type_url.as_deref(), Some(CLUSTER));
        assert_eq!(document.nonce.as_deref(), Some("n"));
    }
    let typed = r#"{"@type": "type.googleapis.com/envoy.service.discovery.v3.DiscoveryResponse", "version_info": "8"}"#;
    assert_eq!(read(Format::Json, typed).version_info.as_deref(), Some("8"));
    let mut empty = Document::default();
    empty.responses = 1;
    assert_eq!(read(Format::Json, r#"{"resources": null}"#), empty);
    println!("covers: S4.015");
}

#[test]
fn yaml_documents_of_one_file_are_joined() {
    let yaml = format!(
        "---\n'@type': {CLUSTER}\nname: a\n---\n- '@type': {CLUSTER}\n  name: b\n---\nresources:\n- '@type': {CLUSTER}\n  name: c\nversion_info: '1'\n---\n"
    );
    let document = read(Format::Yaml, yaml);
    assert_eq!(names(&document), ["a", "b", "c"]);
    assert_eq!(document.version_info.as_deref(), Some("1"));
}

#[test]
fn file_may_hold_responses_of_several_types() {
    let yaml = "type_url: t/envoy.config.cluster.v3.Cluster\nresources: []\n---\ntype_url: t/envoy.config.route.v3.RouteConfiguration\nresources: []\n";
    assert_eq!(read(Format::Yaml, yaml).type_url, None);
    let same = "type_url: t/a.B\nresources: []\n".to_owned()
        + "---\n"
        + "type_url: t/a.B\nresources: []\n";
    assert_eq!(read(Format::Yaml, same).type_url.as_deref(), Some("t/a.B"));
}

#[test]
fn wrapper_sets_name_version_aliases_and_ttl() {
    let yaml = format!(
        "resources:\n- '@type': type.googleapis.com/envoy.service.discovery.v3.Resource\n  name: outer\n  version: v1\n  \
         aliases: [x, z]\n  ttl: 1.5s\n  resource: {{'@type': {CLUSTER}, name: inner}}\n"
    );
    let resource = &read(Format::Yaml, yaml).resources[0];
    assert_eq!((resource.name.as_str(), resource.type_url.as_str()), ("outer", CLUSTER));
    assert_eq!(&resource.bytes[..], b"\x0a\x05inner");
    let wrapper = resource.wrapper.as_ref().unwrap();
    assert_eq!(wrapper.version, "v1");
    assert_eq!(wrapper.aliases, ["x", "z"]);
    assert_eq!(wrapper.ttl, Some(Duration::from_millis(1500)));
}

#[test]
fn wrapper_without_name_uses_the_name_of_the_resource() {
    let wrapped = |inner: &str| {
        read(
            Format::Json,
            format!(r#"[{{"@type": "t/envoy.service.discovery.v3.Resource", {inner}}}]"#),
        )
        .resources[0]
            .name
            .clone()
    };
    assert_eq!(
        wrapped(&format!(r#""resource": {{"@type": "{CLUSTER}", "name": "inner"}}"#)),
        "inner"
    );
    // A type without a name field.
    assert_eq!(
        wrapped(r#""name": "ep", "resource": {"@type": "t/envoy.config.endpoint.v3.LbEndpoint"}"#),
        "ep"
    );
}

#[test]
fn text_format_is_parsed_with_and_without_header() {
    let response = format!(
        "version_info: \"3\"\nresources {{ [{CLUSTER}] {{ name: \"a\" type: EDS }} }}\nresources: [{{ [{CLUSTER}] {{ name: 'b' }} }}]\n"
    );
    let document = read(Format::Text, response);
    assert_eq!(names(&document), ["a", "b"]);
    assert_eq!(document.version_info.as_deref(), Some("3"));

    let single = "# proto-file: envoy/config/cluster/v3/cluster.proto\n# proto-message: envoy.config.cluster.v3.Cluster\n\nname: 'c'\n";
    let document = read(Format::Text, single);
    assert_eq!((names(&document), document.resources[0].type_url.as_str()), (vec!["c"], CLUSTER));

    let wrapped = format!(
        "# proto-message: envoy.service.discovery.v3.Resource\nname: 'd'\nresource {{ [{CLUSTER}] {{ name: 'e' }} }}\n"
    );
    assert_eq!(names(&read(Format::Text, wrapped)), ["d"]);
}

#[test]
fn binary_round_trip_keeps_the_bytes_of_resources() {
    let document = read(
        Format::Json,
        format!(
            r#"{{"version_info": "1", "resources": [{{"@type": "{CLUSTER}", "name": "a"}},
            {{"@type": "type.googleapis.com/envoy.service.discovery.v3.Resource", "name": "w", "ttl": "3s", "version": "2",
              "resource": {{"@type": "{CLUSTER}", "name": "b"}}}}]}}"#
        ),
    );
    let mut binary = document.to_discovery_response();
    let again = read(Format::Binary, &binary);
    assert_eq!(again.resources, document.resources);
    assert_eq!(again.type_url.as_deref(), Some(CLUSTER));
    assert_eq!(again.to_discovery_response(), binary);

    // Unknown fields of a resource are kept.
    let cluster = b"\x0a\x01z\xfa\xff\xff\xff\x0f\x02hi";
    let any =
        [&[0x0a, CLUSTER.len() as u8], CLUSTER.as_bytes(), &[0x12, cluster.len() as u8], cluster]
            .concat();
    binary.extend_from_slice(&[0x12, any.len() as u8]);
    binary.extend_from_slice(&any);
    assert_eq!(&read(Format::Binary, &binary).resources[2].bytes[..], cluster);
}

/// Checks the field numbers of documents against the schema.
#[test]
fn encoded_discovery_response_matches_the_schema() {
    let document = read(
        Format::Json,
        format!(
            r#"{{"version_info": "1", "nonce": "n", "resources": [{{"@type": "t/envoy.service.discovery.v3.Resource", "name": "w",
            "version": "v", "ttl": "3.000000001s", "aliases": ["x"], "resource": {{"@type": "{CLUSTER}", "name": "a"}}}}]}}"#
        ),
    );
    let schema = Schema::envoy();
    let response = schema.message("envoy.service.discovery.v3.DiscoveryResponse").unwrap();
    let response =
        DynamicMessage::decode(response, document.to_discovery_response().as_slice()).unwrap();
    assert_eq!(
        serde_json::to_value(&response).unwrap(),
        serde_json::json!({
            "versionInfo": "1",
            "nonce": "n",
            "typeUrl": CLUSTER,
            "resources": [{
                "@type": "type.googleapis.com/envoy.service.discovery.v3.Resource",
                "name": "w",
                "version": "v",
                "ttl": "3.000000001s",
                "aliases": ["x"],
                "resource": {"@type": CLUSTER, "name": "a"},
            }],
        })
    );
}

#[test]
fn field_names_may_be_snake_or_camel_case() {
    same(&[r#""connect_timeout": "5s""#, r#""connectTimeout": "5s""#]);
    same(&[
        r#""common_lb_config": {"healthy_panic_threshold": {"value": 50}}"#,
        r#""commonLbConfig": {"healthyPanicThreshold": {"value": 50}}"#,
    ]);
    println!("covers: S4.056");
}

#[test]
fn duration_may_be_text_or_an_object() {
    same(&[
        r#""connect_timeout": "5s""#,
        r#""connect_timeout": "5.0s""#,
        r#""connect_timeout": {"seconds": 5}"#,
        r#""connect_timeout": {"seconds": "5", "nanos": 0}"#,
    ]);
    same(&[
        r#""connect_timeout": "1.5s""#,
        r#""connect_timeout": {"nanos": 500000000, "seconds": 1}"#,
    ]);
    let yaml = |duration: &str| {
        read(Format::Yaml, format!("'@type': {CLUSTER}\nname: c\nconnect_timeout: {duration}\n"))
            .resources[0]
            .bytes
            .clone()
    };
    assert_eq!(yaml("{seconds: 5}"), yaml("5s"));
    assert_eq!(yaml("5s").to_vec(), cluster(r#""connect_timeout": "5s""#));
}

#[test]
fn numbers_enums_and_wrappers_have_several_spellings() {
    same(&[r#""type": "EDS""#, r#""type": 3"#]);
    same(&[
        r#""per_connection_buffer_limit_bytes": 1024"#,
        r#""per_connection_buffer_limit_bytes": "1024""#,
        r#""per_connection_buffer_limit_bytes": 1024.0"#,
        r#""per_connection_buffer_limit_bytes": 1.024e3"#,
    ]);
    same(&[
        r#""ring_hash_lb_config": {"minimum_ring_size": 9007199254740993}"#,
        r#""ring_hash_lb_config": {"minimum_ring_size": "9007199254740993"}"#,
    ]);
    same(&[
        r#""common_lb_config": {"healthy_panic_threshold": {"value": 0.1}}"#,
        r#""common_lb_config": {"healthy_panic_threshold": {"value": "0.1"}}"#,
    ]);
}

#[test]
fn null_leaves_a_field_unset() {
    assert_eq!(
        cluster(
            r#""connect_timeout": null, "health_checks": null, "metadata": null, "alt_stat_name": null"#
        ),
        b"\x0a\x01c"
    );
    assert_eq!(cluster(r#""type": null, "cluster_type": {}"#), cluster(r#""cluster_type": {}"#));
}

#[test]
fn bytes_may_be_standard_or_url_safe_base64() {
    let secret = |base64: &str| {
        let json = format!(
            r#"{{"@type": "t/envoy.extensions.transport_sockets.tls.v3.Secret", "name": "s", "generic_secret": {{"secret": {{"inline_bytes": "{base64}"}}}}}}"#
        );
        read(Format::Json, json).resources[0].bytes.to_vec()
    };
    assert_eq!(secret("++//+g=="), secret("--__-g"));
    assert!(secret("++//+g==").ends_with(b"\xfb\xef\xff\xfa"));
}

#[test]
fn any_type_may_come_last_and_have_any_prefix() {
    let inner = |json: &str| {
        cluster(&format!(r#""transport_socket": {{"name": "raw", "typed_config": {json}}}"#))
    };
    let router = "envoy.extensions.filters.http.router.v3.Router";
    assert_eq!(
        inner(&format!(r#"{{"suppress_envoy_headers": true, "@type": "x/{router}"}}"#)),
        inner(&format!(r#"{{"@type": "x/{router}", "suppress_envoy_headers": true}}"#))
    );
}

#[test]
fn well_known_types_are_parsed_inside_any() {
    let inner = |json: &str| {
        cluster(&format!(r#""transport_socket": {{"name": "x", "typed_config": {json}}}"#))
    };
    let duration = inner(r#"{"@type": "t/google.protobuf.Duration", "value": "5s"}"#);
    assert!(duration.ends_with(b"\x12\x02\x08\x05"));
    let empty = inner(r#"{"@type": "t/google.protobuf.Empty"}"#);
    assert_eq!(inner(r#"{"@type": "t/google.protobuf.Empty", "value": {}}"#), empty);
    inner(r#"{"@type": "t/google.protobuf.StringValue", "value": "x"}"#);
    inner(
        r#"{"@type": "t/google.protobuf.Struct", "value": {"a": [null, 1.5, "x", {"b": false}]}}"#,
    );
    inner(r#"{"@type": "t/google.protobuf.Any", "value": {"@type": "t/google.protobuf.Empty"}}"#);
}

/// Envoy configurations use `TypedStruct` for types without descriptors. Generated descriptor sets
/// lack it.
#[test]
fn typed_struct_is_in_the_schema() {
    for name in ["xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"] {
        let yaml = format!(
            "'@type': {CLUSTER}\nname: c\ntransport_socket:\n  name: x\n  typed_config:\n    '@type': t/{name}\n    type_url: t/foo.Bar\n    value: {{a: 1, b: [on]}}\n"
        );
        assert_eq!(names(&read(Format::Yaml, yaml)), ["c"]);
    }
}

#[test]
fn yaml_text_and_json_encode_to_the_same_bytes() {
    let json = format!(
        r#"{{"@type": "{CLUSTER}", "name": "c", "type": "STRICT_DNS", "connect_timeout": "0.25s",
            "metadata": {{"filter_metadata": {{"b": {{"x": 1, "a": "y"}}, "a": {{"l": [true, null]}}}}}},
            "load_assignment": {{"cluster_name": "c", "endpoints": [{{"lb_endpoints": [{{"endpoint": {{"address":
            {{"socket_address": {{"address": "::1", "port_value": 80}}}}}}}}]}}]}}}}"#
    );
    let yaml = format!(
        "load_assignment:\n  endpoints:\n  - lb_endpoints:\n    - endpoint: {{address: {{socket_address: {{port_value: 80, address: '::1'}}}}}}\n  \
         cluster_name: c\nmetadata: {{filterMetadata: {{a: {{l: [yes, ~]}}, b: {{a: 'y', x: 1}}}}}}\nconnectTimeout: {{nanos: 250000000}}\n\
         type: STRICT_DNS\nname: c\n'@type': {CLUSTER}\n"
    );
    let text = r#"# proto-message: envoy.config.cluster.v3.Cluster
        metadata {
          filter_metadata { key: "b" value { fields { key: "x" value { number_value: 1 } } fields { key: "a" value { string_value: "y" } } } }
          filter_metadata { key: "a" value { fields { key: "l" value { list_value { values { bool_value: true } values { null_value: NULL_VALUE } } } } } }
        }
        name: "c" type: STRICT_DNS connect_timeout { nanos: 250000000 }
        load_assignment { cluster_name: "c" endpoints { lb_endpoints { endpoint { address { socket_address { address: "::1" port_value: 80 } } } } } }
    "#;
    let bytes = |format, text: &str| read(format, text).resources[0].bytes.clone();
    let expected = bytes(Format::Json, &json);
    assert_eq!(bytes(Format::Yaml, &yaml), expected);
    assert_eq!(bytes(Format::Text, text), expected);
    println!("covers: S4.025 S4.026");
}

/// The order of a `HashMap` differs between maps and processes. The expected bytes detect a
/// dependence on the process, the permutations one on the map.
#[test]
fn map_order_does_not_affect_the_bytes() {
    let keys: Vec<String> = (0..12).map(|i| format!("k{i}")).collect();
    let file = |keys: &[String]| {
        let json =
            |key: &String| format!(r#""{key}": {{"n": 1, "m": {{"z": 1, "y": 2, "x": 3}}}}"#);
        let text = |key: &String| {
            format!(
                "filter_metadata {{ key: '{key}' value {{ fields {{ key: 'n' value {{ number_value: 1 }} }} }} }}"
            )
        };
        (
            cluster(&format!(
                r#""metadata": {{"filter_metadata": {{{}}}}}"#,
                keys.iter().map(json).collect::<Vec<_>>().join(",")
            )),
            read(
                Format::Text,
                format!(
                    "# proto-message: envoy.config.cluster.v3.Cluster\nname: 'c' metadata {{ {} }}",
                    keys.iter().map(text).collect::<Vec<_>>().join(" ")
                ),
            )
            .resources[0]
                .bytes
                .clone(),
        )
    };
    let expected = file(&keys);
    let mut permuted = keys;
    let mut state = 7_u64;
    for _ in 0..200 {
        for i in (1..permuted.len()).rev() {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            permuted.swap(i, (state >> 33) as usize % (i + 1));
        }
        assert_eq!(file(&permuted), expected);
    }
    let small = cluster(r#""metadata": {"filter_metadata": {"b": {}, "a": {"y": 1, "x": "s"}}}"#);
    assert_eq!(
        small,
        b"\x0a\x01c\xca\x01\x28\x0a\x1f\x0a\x01a\x12\x1a\x0a\x08\x0a\x01x\x12\x03\x1a\x01s\x0a\x0e\x0a\x01y\x12\x09\x11\x00\x00\x00\x00\x00\x00\xf0\x3f\x0a\x05\x0a\x01b\x12\x00"
    );
}

#[test]
fn resource_name_is_found_through_the_descriptor() {
    let name = |message: &str, bytes: &[u8]| {
        resource_name(Schema::envoy(), &format!("t/{message}"), bytes)
    };
    assert_eq!(name("envoy.config.cluster.v3.Cluster", b"\x0a\x01a").as_deref(), Ok("a"));
    assert_eq!(
        name("envoy.config.endpoint.v3.ClusterLoadAssignment", b"\x0a\x01a").as_deref(),
        Ok("a")
    );
    assert_eq!(
        name("envoy.config.core.v3.TypedExtensionConfig", b"\x0a\x01a\x0a\x01b").as_deref(),
        Ok("b")
    );
    assert_eq!(
        name("envoy.config.cluster.v3.Cluster", b"\x0a\x05a").unwrap_err().to_string(),
        "cannot decode as `envoy.config.cluster.v3.Cluster`: the encoding is truncated"
    );
    assert_eq!(
        name("a.B", b"").unwrap_err().to_string(),
        "unknown type `t/a.B`: it is not in the schema; add it with a descriptor set"
    );
}

#[test]
fn single_message_is_encoded_from_every_format() {
    let schema = Schema::envoy();
    let encode = |format, text: &[u8]| {
        encode_message(schema, "", "envoy.service.discovery.v3.DiscoveryRequest", format, text)
            .unwrap()
    };
    let json = encode(Format::Json, br#"{"resource_names": ["a"], "node": {"id": "n"}}"#);
    assert_eq!(json, encode(Format::Yaml, b"node: {id: !!str n}\nresourceNames:\n- a\n"));
    assert_eq!(json, encode(Format::Text, b"resource_names: 'a' node { id: 'n' }"));
    assert_eq!(json, encode(Format::Binary, &json));
    let message = DynamicMessage::decode(
        schema.message("envoy.service.discovery.v3.DiscoveryRequest").unwrap(),
        json.as_slice(),
    )
    .unwrap();
    assert_eq!(
        message.get_field_by_name("resource_names").unwrap().as_ref(),
        &Value::List(vec![Value::String("a".into())])
    );
    assert_eq!(message.descriptor().name(), "DiscoveryRequest");
    assert_eq!(message.encode_to_vec(), json);
}

#[test]
fn byte_order_mark_is_skipped() {
    let file = format!("\u{feff}{{\"@type\": \"{CLUSTER}\", \"name\": \"a\"}}");
    assert_eq!(names(&read(Format::Json, &file)), ["a"]);
    assert_eq!(names(&read(Format::Yaml, &file)), ["a"]);
}

/// The limits stop bombs, not large files.
#[test]
fn file_of_20000_resources_is_within_the_limits() {
    let mut yaml = "resources:\n".to_owned();
    for i in 0..20_000 {
        yaml.push_str(&format!("- {{'@type': {CLUSTER}, name: c{i}, connect_timeout: 1s, type: EDS, lb_policy: RANDOM}}\n"));
    }
    assert_eq!(read(Format::Yaml, yaml).resources.len(), 20_000);
}

// M183: the peer may use a newer schema.
#[test]
fn unknown_fields_are_skipped_if_configured() {
    let name = "envoy.service.discovery.v3.DiscoveryRequest";
    let text =
        br#"{"version_info": "7", "of_tomorrow": {"x": [1]}, "node": {"id": "n", "mood": 1}}"#;
    let read = |text: &[u8], unknown| {
        let options = ParseOptions::default().with_unknown_fields(unknown);
        encode_message_with(Schema::envoy(), "", name, Format::Json, text, options)
    };
    assert!(read(text, UnknownFields::Refused).is_err());
    let known = br#"{"version_info": "7", "node": {"id": "n"}}"#;
    assert_eq!(read(text, UnknownFields::Skipped), read(known, UnknownFields::Refused));
    let broken = br#"{"version_info": 7}"#;
    assert!(read(broken, UnknownFields::Skipped).is_err(), "what is known has to be right");
    println!("covers: M183");
}
