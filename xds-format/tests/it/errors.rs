//! Error messages: file, position, field path and reason in one line.

use xds_format::{
    ErrorKind, Format, Leniency, ParseOptions, Position, Schema, YamlFile, encode_message,
    encode_message_with, parse,
};

fn error(format: Format, text: &str) -> String {
    parse(Schema::envoy(), "f", format, text.as_bytes()).unwrap_err().to_string()
}

fn json(text: &str) -> String {
    error(Format::Json, text)
}

fn yaml(text: &str) -> String {
    error(Format::Yaml, text)
}

fn text(text: &str) -> String {
    error(Format::Text, text)
}

/// Returns a cluster with the given members.
fn cluster(members: &str) -> String {
    format!(r#"{{"@type": "t/envoy.config.cluster.v3.Cluster", "name": "c", {members}}}"#)
}

#[test]
fn error_parts_are_accessible_separately() {
    let input =
        b"resources:\n- '@type': t/envoy.config.cluster.v3.Cluster\n  name: c\n  typ: EDS\n";
    let error = parse(Schema::envoy(), "cds.yaml", Format::Yaml, input).unwrap_err();
    assert_eq!(error.source_name(), "cds.yaml");
    assert_eq!(error.position(), Some(Position { line: 4, column: 3 }));
    assert_eq!(error.path(), "resources[0]");
    let kind = ErrorKind::UnknownField {
        field: "typ".to_owned(),
        message: "envoy.config.cluster.v3.Cluster".to_owned(),
        suggestion: Some("type".to_owned()),
    };
    assert_eq!(error.kind(), &kind);
    assert_eq!(
        error.to_string(),
        "cds.yaml:4:3: resources[0]: unknown field `typ` in `envoy.config.cluster.v3.Cluster`, did you mean `type`?"
    );
}

#[test]
fn error_path_reaches_the_innermost_field() {
    let file = r#"
resources:
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: a
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: b
  load_assignment:
    cluster_name: b
    endpoints:
    - lb_endpoints:
      - endpoint:
          address:
            socket_address: {address: 127.0.0.1, port_value: 80x}
"#;
    assert_eq!(
        yaml(file),
        "f:13:62: \
         resources[1].load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address.port_value: \
         expected an integer from 0 to 4294967295, found the string \"80x\""
    );
}

#[test]
fn error_path_passes_through_any_and_maps() {
    let file = r#"{"@type": "type.googleapis.com/envoy.config.listener.v3.Listener", "name": "l",
  "filterChains": [{"filters": [{"name": "hcm", "typedConfig": {
    "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    "stat_prefix": "x", "http_fliters": []}}]}]}"#;
    assert_eq!(
        json(file),
        "f:4:25: filterChains[0].filters[0].typedConfig: unknown field `http_fliters` in \
         `envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager`, did you mean `http_filters`?"
    );
    assert_eq!(
        json(&cluster(r#""metadata": {"filter_metadata": {"envoy.lb": 5}}"#)),
        "f:1:106: metadata.filter_metadata[\"envoy.lb\"]: expected an object, found a number"
    );
}

#[test]
fn unknown_name_error_suggests_a_similar_name() {
    assert_eq!(
        json(&cluster(r#""connectTimeuot": "1s""#)),
        "f:1:61: unknown field `connectTimeuot` in `envoy.config.cluster.v3.Cluster`, did you mean `connectTimeout`?"
    );
    assert_eq!(
        json(&cluster(r#""colour": "1s""#)),
        "f:1:61: unknown field `colour` in `envoy.config.cluster.v3.Cluster`"
    );
    assert_eq!(
        json(&cluster(r#""type": "eds""#)),
        "f:1:69: type: unknown value `eds` of the enum `envoy.config.cluster.v3.Cluster.DiscoveryType`, did you mean `EDS`?"
    );
    assert_eq!(
        json(r#"{"@type": "type.googleapis.com/envoy.config.clusters.v3.Cluster", "name": "c"}"#),
        "f:1:11: @type: unknown type `type.googleapis.com/envoy.config.clusters.v3.Cluster`, did you mean `envoy.config.cluster.v3.Cluster`?"
    );
    assert_eq!(
        json(r#"{"@type": "t/foo.Unknown", "name": "c"}"#),
        "f:1:11: @type: unknown type `t/foo.Unknown`: it is not in the schema; add it with a descriptor set"
    );
    assert_eq!(
        json(&cluster(r#""transport_socket": {"name": "x", "typed_config": {"@type": "t/a.B"}}"#)),
        "f:1:121: transport_socket.typed_config.@type: unknown type `t/a.B`: it is not in the schema; add it with a descriptor set"
    );
    assert_eq!(
        text("resources { [t/envoy.config.cluster.v3.Cluster] { nam: \"c\" } }"),
        "f:1:51: resources[0]: unknown field `nam` in `envoy.config.cluster.v3.Cluster`, did you mean `name`?"
    );
    assert_eq!(
        text("resources { [t/a.B] { } }"),
        "f:1:13: resources[0]: unknown type `t/a.B`: it is not in the schema; add it with a descriptor set"
    );
}

#[test]
fn missing_or_invalid_type_url_is_an_error() {
    assert_eq!(json(r#"[{"name": "c"}]"#), "f:1:2: [0]: missing `@type`");
    assert_eq!(
        json(&cluster(r#""transport_socket": {"typed_config": {"a": 1}}"#)),
        "f:1:98: transport_socket.typed_config: missing `@type`"
    );
    assert_eq!(
        json(r#"{"@type": "envoy.config.cluster.v3.Cluster", "name": "c"}"#),
        "f:1:11: @type: `envoy.config.cluster.v3.Cluster` is not a type URL such as \
         `type.googleapis.com/envoy.config.cluster.v3.Cluster`"
    );
    assert_eq!(json(r#"{"@type": 5}"#), "f:1:11: @type: expected a type URL, found a number");
    assert_eq!(json(r#"[5]"#), "f:1:2: [0]: expected an object with `@type`, found a number");
}

#[test]
fn value_of_the_wrong_type_is_an_error() {
    let found = |members: &str| json(&cluster(members)).split_once(": ").unwrap().1.to_owned();
    let expectations = [
        (
            r#""connect_timeout": 5"#,
            "connect_timeout: expected a duration such as \"1.5s\" or {seconds: 1, nanos: 500000000}, found the number 5",
        ),
        (
            r#""connect_timeout": "5ms""#,
            "connect_timeout: expected a duration such as \"1.5s\" or {seconds: 1, nanos: 500000000}, found the string \"5ms\"",
        ),
        (
            r#""connect_timeout": {"seconds": 1, "nanos": 1000000000}"#,
            "connect_timeout: expected a duration such as \"1.5s\" or {seconds: 1, nanos: 500000000}, found an object",
        ),
        (
            r#""per_connection_buffer_limit_bytes": -1"#,
            "per_connection_buffer_limit_bytes: expected an integer from 0 to 4294967295, found the number -1",
        ),
        (
            r#""per_connection_buffer_limit_bytes": 4294967296"#,
            "per_connection_buffer_limit_bytes: expected an integer from 0 to 4294967295, found the number 4294967296",
        ),
        (
            r#""per_connection_buffer_limit_bytes": 1.5"#,
            "per_connection_buffer_limit_bytes: expected an integer from 0 to 4294967295, found the number 1.5",
        ),
        (
            r#""per_connection_buffer_limit_bytes": {"value": 1}"#,
            "per_connection_buffer_limit_bytes: expected an integer from 0 to 4294967295, found an object",
        ),
        (r#""alt_stat_name": 5"#, "alt_stat_name: expected a string, found the number 5"),
        (
            r#""respect_dns_ttl": "true""#,
            "respect_dns_ttl: expected a boolean, found the string \"true\"",
        ),
        (
            r#""type": true"#,
            "type: expected a value of the enum `envoy.config.cluster.v3.Cluster.DiscoveryType`, found the boolean true",
        ),
        (
            r#""load_assignment": []"#,
            "load_assignment: expected an object (`envoy.config.endpoint.v3.ClusterLoadAssignment`), found a list",
        ),
        (r#""health_checks": {}"#, "health_checks: expected a list, found an object"),
        (
            r#""health_checks": [null]"#,
            "health_checks[0]: expected an object (`envoy.config.core.v3.HealthCheck`), found null",
        ),
        (
            r#""metadata": {"filter_metadata": 5}"#,
            "metadata.filter_metadata: expected an object, found a number",
        ),
        (
            r#""typed_extension_protocol_options": {"x": null}"#,
            "typed_extension_protocol_options[\"x\"]: expected a value for this key, found null",
        ),
        (
            r#""common_lb_config": {"healthy_panic_threshold": {"value": "x"}}"#,
            "common_lb_config.healthy_panic_threshold.value: expected a number, found the string \"x\"",
        ),
    ];
    for (members, expected) in expectations {
        assert_eq!(found(members), expected);
    }
    assert_eq!(
        json(
            r#"{"@type": "t/envoy.extensions.transport_sockets.tls.v3.Secret", "name": "s", "generic_secret": {"secret": {"inline_bytes": "*"}}}"#
        ),
        "f:1:124: generic_secret.secret.inline_bytes: expected base64, found a string"
    );
}

#[test]
fn unquoted_yaml_scalar_error_asks_for_quotes() {
    let name =
        |name: &str| yaml(&format!("'@type': t/envoy.config.cluster.v3.Cluster\nname: {name}\n"));
    assert_eq!(name("no"), "f:2:7: name: expected a string (in quotes), found the boolean false");
    assert_eq!(name("12"), "f:2:7: name: expected a string (in quotes), found the number 12");
}

#[test]
fn setting_a_field_or_oneof_twice_is_an_error() {
    assert_eq!(
        json(&cluster(r#""connect_timeout": "1s", "connectTimeout": "2s""#)),
        "f:1:86: the field `connect_timeout` is set twice"
    );
    assert_eq!(json(&cluster(r#""name": "d""#)), "f:1:61: duplicate key `name`");
    assert_eq!(
        json(&cluster(r#""type": "EDS", "cluster_type": {}"#)),
        "f:1:76: `type` and `cluster_type` must not both be set (oneof `cluster_discovery_type`)"
    );
    assert_eq!(
        text("version_info: \"1\" version_info: \"2\""),
        "f:1:19: the field `version_info` is set twice"
    );
    assert_eq!(
        text(
            "# proto-message: envoy.config.cluster.v3.Cluster\nmetadata { filter_metadata { key: \"a\" } filter_metadata { key: \"a\" } }"
        ),
        "f:2:57: metadata.filter_metadata: duplicate key `a`"
    );
}

#[test]
fn duplicate_type_and_name_in_a_file_is_an_error() {
    let file = "- {'@type': t/envoy.config.cluster.v3.Cluster, name: a}\n---\n- {'@type': t/envoy.config.cluster.v3.Cluster, name: a}\n";
    assert_eq!(
        yaml(file),
        "f:3:3: [0]: the resource `a` of type `t/envoy.config.cluster.v3.Cluster` occurs twice in this file"
    );
    let response = "resources { [t/envoy.config.cluster.v3.Cluster] { name: \"a\" } }\n";
    assert_eq!(
        text(&response.repeat(2)),
        "f:2:1: resources[1]: the resource `a` of type `t/envoy.config.cluster.v3.Cluster` occurs twice in this file"
    );
}

#[test]
fn resource_without_a_name_is_an_error() {
    assert_eq!(
        json(r#"{"resources": [{"@type": "t/envoy.config.endpoint.v3.ClusterLoadAssignment"}]}"#),
        "f:1:16: resources[0]: the resource has no name: the field `cluster_name` of \
         `t/envoy.config.endpoint.v3.ClusterLoadAssignment` is empty"
    );
    assert_eq!(
        json(r#"[{"@type": "t/envoy.config.endpoint.v3.LbEndpoint"}]"#),
        "f:1:2: [0]: resources of type `t/envoy.config.endpoint.v3.LbEndpoint` have no name \
         field: wrap them in `envoy.service.discovery.v3.Resource`"
    );
    assert_eq!(
        json(r#"[{"@type": "t/envoy.service.discovery.v3.Resource", "name": "x"}]"#),
        "f:1:2: [0]: the `Resource` wrapper contains no resource"
    );
}

#[test]
fn mixed_types_in_a_response_or_versions_in_a_file_are_an_error() {
    assert_eq!(
        yaml(
            "type_url: t/envoy.config.route.v3.RouteConfiguration\nresources:\n- {'@type': t/envoy.config.cluster.v3.Cluster, name: a}\n"
        ),
        "f:3:3: resources[0]: the resource is of type `t/envoy.config.cluster.v3.Cluster`, but the response is of type \
         `t/envoy.config.route.v3.RouteConfiguration`"
    );
    assert_eq!(
        yaml("{version_info: '1', resources: []}\n---\n{version_info: '2', resources: []}\n"),
        "f:3:1: version_info is `2` here and `1` earlier in this file"
    );
}

#[test]
fn unknown_file_shape_is_an_error() {
    let shapes =
        "expected an object with `@type`, a list of such objects, or an object with `resources`";
    assert_eq!(json("{}"), format!("f:1:1: {shapes}, found an object with neither"));
    assert_eq!(json("\n 5"), format!("f:2:2: {shapes}, found a number"));
    assert_eq!(
        yaml("static_resources: {}\n"),
        format!("f:1:1: {shapes}, found an object with neither")
    );
    assert_eq!(json(r#"{"resources": {}}"#), "f:1:15: resources: expected a list, found an object");
    assert_eq!(
        json(r#"{"resources": [], "versoin_info": "1"}"#),
        "f:1:19: unknown field `versoin_info` in `envoy.service.discovery.v3.DiscoveryResponse`, did you mean `version_info`?"
    );
}

/// Editors truncate a file before writing it, which must not remove all resources.
#[test]
fn empty_file_is_an_error() {
    assert_eq!(json(""), "f:1:1: invalid JSON: expected a value, found the end of the text");
    assert_eq!(json("null"), "f: the file is empty");
    assert_eq!(yaml(""), "f: the file is empty");
    assert_eq!(yaml("# soon\n---\n---\n"), "f: the file is empty");
    assert_eq!(text("# soon\n"), "f: the file is empty");
    assert_eq!(
        parse(Schema::envoy(), "f", Format::Binary, b"").unwrap_err().to_string(),
        "f: the file is empty"
    );
    assert!(parse(Schema::envoy(), "f", Format::Yaml, b"[]").unwrap().resources.is_empty());
    assert!(
        parse(Schema::envoy(), "f", Format::Json, br#"{"resources": []}"#)
            .unwrap()
            .resources
            .is_empty()
    );
}

#[test]
fn header_with_an_unknown_message_is_an_error() {
    assert_eq!(
        text("# proto-message: foo.Bar\nname: \"x\"\n"),
        "f:1:3: the header `# proto-message: foo.Bar` names a message that is not in the schema"
    );
    for (header, meant) in [
        ("Cluster", "envoy.config.cluster.v3.Cluster"),
        ("envoy.config.cluster.v3.Clutser", "envoy.config.cluster.v3.Cluster"),
        ("envoy.api.v2.Cluster", "envoy.config.cluster.v3.Cluster"),
    ] {
        let error = text(&format!("# proto-message: {header}\nname: \"x\"\n"));
        assert!(error.ends_with(&format!("in the schema, did you mean `{meant}`?")), "{error}");
    }
    // Without a header, a file is a response.
    assert_eq!(
        text("name: \"x\"\ntype: EDS\n"),
        "f:1:1: unknown field `name` in `envoy.service.discovery.v3.DiscoveryResponse`; state the type of \
         the file in its first line, such as `# proto-message: envoy.config.cluster.v3.Cluster`"
    );
    assert_eq!(
        text("resource {}\n"),
        "f:1:1: unknown field `resource` in `envoy.service.discovery.v3.DiscoveryResponse`, did you mean `resources`?"
    );
}

#[test]
fn text_format_scalars_are_parsed_strictly() {
    let cluster = |field: &str| {
        text(&format!("# proto-message: envoy.config.cluster.v3.Cluster\nname: \"a\"\n{field}\n"))
    };
    assert_eq!(
        cluster("type: \"EDS\""),
        "f:3:7: type: expected a value of the enum `envoy.config.cluster.v3.Cluster.DiscoveryType`, found the string \"EDS\""
    );
    assert_eq!(
        cluster("type: EDX"),
        "f:3:7: type: unknown value `EDX` of the enum `envoy.config.cluster.v3.Cluster.DiscoveryType`, did you mean `EDS`?"
    );
    assert_eq!(
        cluster("respect_dns_ttl: 2"),
        "f:3:18: respect_dns_ttl: expected a boolean, found the number 2"
    );
    assert_eq!(
        cluster("connect_timeout { seconds: 1.0 }"),
        "f:3:28: connect_timeout.seconds: expected a 64-bit integer, found the number 1.0"
    );
    assert_eq!(
        cluster("alt_stat_name: '\\377'"),
        "f:3:16: alt_stat_name: expected a string, found a string of bytes"
    );
    assert_eq!(
        cluster("altStatName: 'x'"),
        "f:3:1: unknown field `altStatName` in `envoy.config.cluster.v3.Cluster`, did you mean `alt_stat_name`?"
    );
}

#[test]
fn invalid_utf8_error_states_the_position() {
    for format in [Format::Json, Format::Yaml, Format::Text] {
        let error = parse(Schema::envoy(), "f", format, b"a\nb\xff").unwrap_err();
        assert_eq!(error.to_string(), "f:2:2: the text is not valid UTF-8");
    }
    let error = parse(Schema::envoy(), "f", Format::Yaml, b"\xff\xfea\0").unwrap_err();
    assert_eq!(error.to_string(), "f:1:1: the text is UTF-16; save it as UTF-8");
}

#[test]
fn binary_errors_state_the_path() {
    let binary = |bytes: &[u8]| {
        parse(Schema::envoy(), "cds.pb", Format::Binary, bytes).unwrap_err().to_string()
    };
    assert_eq!(
        binary(b"\x12\x05x"),
        "cds.pb: cannot decode as `envoy.service.discovery.v3.DiscoveryResponse`: the encoding is truncated"
    );
    let response = |type_url: &str, value: &[u8]| {
        let mut any = vec![0x0a, type_url.len() as u8];
        any.extend_from_slice(type_url.as_bytes());
        any.extend_from_slice(&[0x12, value.len() as u8]);
        any.extend_from_slice(value);
        [&[0x12, any.len() as u8][..], &any].concat()
    };
    assert_eq!(
        binary(&response("t/envoy.config.cluster.v3.Cluster", b"\x0a\x01a\x22\x02\x08")),
        "cds.pb: resources[0]: cannot decode as `envoy.config.cluster.v3.Cluster`: the encoding is truncated"
    );
    assert_eq!(
        binary(&response("t/envoy.config.cluster.v3.Cluster", b"\x0a\x01a\x22\x01\x08")),
        "cds.pb: resources[0].connect_timeout: cannot decode as `google.protobuf.Duration`: the encoding is truncated"
    );
    assert_eq!(
        binary(&response("t/a.B", b"")),
        "cds.pb: resources[0]: unknown type `t/a.B`: it is not in the schema; add it with a descriptor set"
    );
    assert_eq!(
        binary(&response("t/envoy.config.cluster.v3.Cluster", b"")),
        "cds.pb: resources[0]: the resource has no name: the field `name` of `t/envoy.config.cluster.v3.Cluster` is empty"
    );
}

#[test]
fn long_names_are_abbreviated_in_errors() {
    let long = "x".repeat(1 << 20);
    for message in [
        json(&cluster(&format!(r#""{long}": 1"#))),
        json(&cluster(&format!(r#""type": "{long}""#))),
        json(&format!(r#"{{"@type": "t/{long}"}}"#)),
        json(&format!(r#"{{"@type": "{long}"}}"#)),
        yaml(&format!("a: {long}\n")),
        text(&format!("{long}: 1")),
        text(&format!("# proto-message: {long}\n")),
    ] {
        assert!(message.len() < 600, "{}", &message[..600]);
    }
    let name = format!("name: {long}\n'@type': t/envoy.config.cluster.v3.Cluster\n");
    let document = parse(Schema::envoy(), "f", Format::Yaml, name.as_bytes()).unwrap();
    assert_eq!(document.resources[0].name.len(), 1 << 20);
}

#[test]
fn single_messages_report_the_same_errors() {
    let request = "envoy.service.discovery.v3.DiscoveryRequest";
    let encode = |name: &str, format, input: &[u8]| {
        encode_message(Schema::envoy(), "", name, format, input).unwrap_err().to_string()
    };
    assert_eq!(
        encode("a.B", Format::Json, b"{}"),
        "unknown type `a.B`: it is not in the schema; add it with a descriptor set"
    );
    assert_eq!(
        encode(request, Format::Json, br#"{"resourceNames": [1]}"#),
        "1:20: resourceNames[0]: expected a string, found the number 1"
    );
    assert_eq!(
        encode(request, Format::Yaml, b"{}\n---\n{}\n"),
        "3:1: invalid YAML: expected only one document"
    );
    assert_eq!(encode(request, Format::Yaml, b""), "the file is empty");
    assert_eq!(
        encode(request, Format::Text, b"node: 5"),
        format!("1:7: node: expected an object (`envoy.config.core.v3.Node`), found a number")
    );
    assert_eq!(
        encode(request, Format::Binary, b"\x0a\x05"),
        format!("cannot decode as `{request}`: the encoding is truncated")
    );
}

#[test]
fn untyped_yaml_converts_to_json_or_reports_the_position() {
    let read = |text: &str| {
        YamlFile::parse("f.yaml", text.as_bytes(), Leniency::Strict).map(|it| it.to_json())
    };
    assert_eq!(
        read("a: [1, -2, 2.5, .nan, yes, null]\nb: { c: x }\n").unwrap(),
        serde_json::json!({"a": [1, -2, 2.5, "NaN", true, null], "b": {"c": "x"}})
    );
    assert_eq!(read("{\"a\": 18446744073709551615}").unwrap()["a"], u64::MAX);
    let refused = |text: &str| read(text).unwrap_err().to_string();
    assert_eq!(
        refused("a: 1\n---\nb: 2\n"),
        "f.yaml:3:1: invalid YAML: expected only one document"
    );
    assert!(refused("a: 1\na: 2\n").starts_with("f.yaml:2:1: "), "{}", refused("a: 1\na: 2\n"));
    assert_eq!(refused(""), "f.yaml: the file is empty");
    let deep = "[".repeat(1000);
    assert!(refused(&deep).starts_with("f.yaml:1:"), "{}", refused(&deep));
    assert!(YamlFile::parse("f.yaml", b"a: \xff", Leniency::Strict).is_err());
}

#[test]
fn whole_number_that_a_struct_cannot_hold_is_an_error() {
    let read = |number: &str, leniency: Leniency| {
        let text = format!("a: [{number}]\n");
        let options = ParseOptions::default().with_leniency(leniency);
        let name = "google.protobuf.Struct";
        encode_message_with(Schema::envoy(), "f.yaml", name, Format::Yaml, text.as_bytes(), options)
    };
    for leniency in [Leniency::Strict, Leniency::Envoy] {
        for exact in [
            "9007199254740991",
            "-9007199254740992",
            "9007199254740994",
            "18446744073709551616",
            "\"9007199254740993\"",
            "9007199254740993.5",
            "1e23",
            "0",
        ] {
            assert!(read(exact, leniency).is_ok(), "{exact}");
        }
        for changed in ["9007199254740993", "-9007199254740993", "18446744073709551615"] {
            let error = read(changed, leniency).unwrap_err().to_string();
            let expected = format!(
                "f.yaml:1:5: [\"a\"][0]: {changed} cannot be represented exactly by a Struct number; put \
                 it in quotes"
            );
            assert_eq!(error, expected);
        }
    }
}
