//! The embedded descriptor set, and those of users.

use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
};
use xds_format::{
    Format, PrintOptions, Redaction, Schema, decode_check, encode_message, message_to_json, parse,
    to_json,
};

fn string_field(name: &str, number: i32) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(Type::String.into()),
        ..FieldDescriptorProto::default()
    }
}

/// Returns a file with `acme.Gadget { string gadget_name = 1; string note = 2; }`, which imports
/// `dependency`.
fn gadgets(dependency: Option<&str>) -> FileDescriptorProto {
    FileDescriptorProto {
        name: Some("acme/gadget.proto".to_owned()),
        package: Some("acme".to_owned()),
        dependency: dependency.into_iter().map(str::to_owned).collect(),
        message_type: vec![DescriptorProto {
            name: Some("Gadget".to_owned()),
            field: vec![string_field("gadget_name", 1), string_field("note", 2)],
            ..DescriptorProto::default()
        }],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    }
}

fn set(files: impl IntoIterator<Item = FileDescriptorProto>) -> Vec<u8> {
    FileDescriptorSet { file: files.into_iter().collect() }.encode_to_vec()
}

#[test]
fn embedded_schema_has_the_complete_envoy_api() {
    let schema = Schema::envoy();
    assert!(core::ptr::eq(schema, Schema::envoy()));
    for name in [
        "envoy.config.cluster.v3.Cluster",
        "envoy.config.bootstrap.v3.Bootstrap",
        "envoy.service.discovery.v3.DeltaDiscoveryResponse",
        "envoy.service.status.v3.ClientStatusResponse",
        "envoy.extensions.filters.http.router.v3.Router",
        "xds.core.v3.ResourceLocator",
        "xds.type.v3.TypedStruct",
        "udpa.type.v1.TypedStruct",
    ] {
        assert!(schema.message(name).is_some(), "{name}");
        assert!(schema.message_of(&format!("anything.example/{name}")).is_some(), "{name}");
    }
    assert!(schema.message_of("envoy.config.cluster.v3.Cluster").is_none(), "that is no URL");
    assert!(schema.pool().all_messages().len() > 1500);
    assert!(format!("{schema:?}").starts_with("Schema { files: "));
}

#[test]
fn schema_is_send_sync_and_clone() {
    fn shareable<T: Send + Sync + Clone>() {}
    shareable::<Schema>();
}

#[test]
fn descriptor_sets_add_types() {
    let schema = Schema::envoy().with_descriptor_set(&set([gadgets(None)])).unwrap();
    let yaml = b"- {'@type': t/acme.Gadget, gadget_name: g, note: hi}\n- {'@type': t/envoy.config.cluster.v3.Cluster, name: c}\n";
    let document = parse(&schema, "f", Format::Yaml, yaml).unwrap();
    assert_eq!(document.resources[0].name, "g");
    assert_eq!(document.resources[1].name, "c");
    let json =
        to_json(&schema, "t/acme.Gadget", &document.resources[0].bytes, &PrintOptions::default())
            .unwrap();
    assert_eq!(
        json,
        serde_json::json!({"@type": "t/acme.Gadget", "gadget_name": "g", "note": "hi"})
    );
    // The original schema is unchanged.
    assert!(Schema::envoy().message("acme.Gadget").is_none());
}

#[test]
fn descriptor_set_may_repeat_known_files() {
    let known = "envoy/config/core/v3/address.proto";
    let import =
        FileDescriptorProto { name: Some(known.to_owned()), ..FileDescriptorProto::default() };
    let schema = Schema::envoy().with_descriptor_set(&set([import, gadgets(Some(known))])).unwrap();
    assert!(schema.message("acme.Gadget").is_some());
    assert!(schema.message("envoy.config.core.v3.SocketAddress").is_some());
}

#[test]
fn invalid_descriptor_set_is_an_error() {
    let error = |set: &[u8]| Schema::envoy().with_descriptor_set(set).unwrap_err().to_string();
    const HOW: &str =
        "`protoc --include_imports --descriptor_set_out=FILE NAME.proto` or `buf build -o FILE`";
    assert_eq!(
        error(b"\x0a\x05"),
        format!(
            "invalid descriptor set: the encoding is truncated: not an encoded \
             `FileDescriptorSet`; create one with {HOW}"
        )
    );
    assert_eq!(
        error(&set([gadgets(Some("acme/missing.proto"))])),
        format!(
            "invalid descriptor set: `acme/gadget.proto` imports `acme/missing.proto`, which is \
             neither in the set nor in the schema; create the set with {HOW}"
        )
    );
    let mut again = gadgets(None);
    again.name = Some("other.proto".to_owned());
    const TWICE: &str = "invalid descriptor set: `acme.Gadget` is defined by both `acme/gadget.proto` and \
                         `other.proto`; import each file by one name only";
    assert_eq!(error(&set([gadgets(None), again.clone()])), TWICE);
    let known = Schema::envoy().with_descriptor_set(&set([gadgets(None)])).unwrap();
    assert_eq!(known.with_descriptor_set(&set([again])).unwrap_err().to_string(), TWICE);
    for (source, what) in [
        ("// ours\nsyntax = \"proto3\";\nmessage Gadget {}\n", "the source of a schema (.proto)"),
        ("package acme;\n", "the source of a schema (.proto)"),
        ("{\"file\": []}", "text"),
    ] {
        assert_eq!(
            error(source.as_bytes()),
            format!("invalid descriptor set: the file is {what}; compile the schema with {HOW}")
        );
    }
    assert_eq!(
        error(b"\x1f\x8b\x08"),
        "invalid descriptor set: the file is compressed; decompress it first"
    );
    assert!(Schema::from_descriptor_set(b"garbage").is_err());
    assert_eq!(Schema::from_descriptor_set(b"").unwrap().pool().all_messages().len(), 0);
}

/// The schema keeps its version of a file, and the ignored definitions are listed.
#[test]
fn ignored_definitions_of_known_files_are_listed() {
    let schema = Schema::envoy().with_descriptor_set(&set([gadgets(None)])).unwrap();
    let mut newer = gadgets(None);
    newer.message_type[0].field.push(string_field("colour", 3));
    newer
        .message_type
        .push(DescriptorProto { name: Some("Widget".to_owned()), ..DescriptorProto::default() });
    let lost = schema.ignored_definitions(&set([newer])).unwrap();
    assert_eq!(lost, ["acme.Gadget.colour", "acme.Widget"]);
    assert_eq!(schema.ignored_definitions(&set([gadgets(None)])).unwrap(), [""; 0]);
    assert_eq!(Schema::envoy().ignored_definitions(&set([gadgets(None)])).unwrap(), [""; 0]);
}

/// The Envoy API names most of them only inside an `Any`, so its descriptor sets lack them.
#[test]
fn any_of_every_cncf_xds_message_is_parsed_and_printed() {
    let schema = Schema::envoy();
    let messages: Vec<_> = schema
        .pool()
        .all_messages()
        .filter(|it| !it.is_map_entry())
        .map(|it| it.full_name().to_owned())
        .filter(|it| ["xds.", "udpa.", "cel.expr."].iter().any(|root| it.starts_with(root)))
        .collect();
    for name in [
        "cel.expr.CheckedExpr",
        "udpa.data.orca.v1.OrcaLoadReport",
        "udpa.type.v1.TypedStruct",
        "xds.annotations.v3.VersioningAnnotation",
        "xds.core.v3.ResourceName",
        "xds.data.orca.v3.OrcaLoadReport",
        "xds.service.orca.v3.OrcaLoadReportRequest",
        "xds.type.matcher.v3.CelMatcher",
        "xds.type.matcher.v3.HttpAttributesCelMatchInput",
        "xds.type.matcher.v3.IPMatcher.IPRangeMatcher",
        "xds.type.v3.TypedStruct",
    ] {
        assert!(messages.iter().any(|it| it == name), "{name}");
    }
    assert!(messages.len() > 80, "{}", messages.len());
    let options = PrintOptions::default().with_redaction(Redaction::Shown);
    for name in messages {
        let any = serde_json::json!({"@type": format!("type.googleapis.com/{name}")});
        let encode = |format| {
            encode_message(schema, "f", "google.protobuf.Any", format, any.to_string().as_bytes())
        };
        let bytes = encode(Format::Json).unwrap();
        assert_eq!(encode(Format::Yaml).unwrap(), bytes);
        let printed = message_to_json(schema, "google.protobuf.Any", &bytes, &options);
        assert_eq!(printed.unwrap(), any);
    }
}

/// For a type that requires an additional schema, no unrelated type with the same short name is
/// suggested.
#[test]
fn unknown_type_error_suggests_only_related_types() {
    let said = |name: &str| {
        let type_url = format!("type.googleapis.com/{name}");
        let error = decode_check(Schema::envoy(), &type_url, b"").unwrap_err().to_string();
        error.strip_prefix(&format!("unknown type `{type_url}`")).unwrap().to_owned()
    };
    const ADD: &str = ": it is not in the schema; add it with a descriptor set";
    for contrib in [
        "envoy.extensions.filters.http.golang.v3alpha.Config",
        "envoy.extensions.filters.http.golang.v3alpha.Router",
        "envoy.extensions.filters.network.kafka_broker.v3.KafkaBroker",
        "envoy.extensions.filters.network.mysql_proxy.v3.MySQLProxy",
        "envoy.extensions.filters.network.rocketmq_proxy.v3.RouteConfiguration",
        "acme.config.v3.Cluster",
        "Cluster",
    ] {
        assert_eq!(said(contrib), ADD, "{contrib}");
    }
    for (misspelt, meant) in [
        ("envoy.config.cluster.v2.Cluster", "envoy.config.cluster.v3.Cluster"),
        ("envoy.config.v3.Cluster", "envoy.config.cluster.v3.Cluster"),
        (
            "envoy.filters.network.http_connection_manager.v2.HttpConnectionManager",
            "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        ),
        (
            "envoy.extensions.filters.network.http_connection_manager.v3.HttpConectionManager",
            "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        ),
    ] {
        assert_eq!(said(misspelt), format!(", did you mean `{meant}`?"), "{misspelt}");
    }
}

#[test]
fn schema_without_envoy_works() {
    let schema = Schema::from_descriptor_set(&set([gadgets(None)])).unwrap();
    let document =
        parse(&schema, "f", Format::Json, br#"[{"@type": "t/acme.Gadget", "gadgetName": "g"}]"#)
            .unwrap();
    assert_eq!(document.resources[0].name, "g");
    let error = parse(&schema, "f", Format::Json, br#"{"resources": []}"#).unwrap_err().to_string();
    assert_eq!(
        error,
        "f:1:1: unknown type `envoy.service.discovery.v3.DiscoveryResponse`: it is not in the schema; add it with a descriptor set"
    );
}

/// The option is an extension of the field options. It is kept in the embedded set and works in
/// additional sets.
#[test]
fn sensitive_fields_of_added_descriptor_sets_are_redacted() {
    let mut file = set([gadgets(None)]);
    // `note` gets the options { 76569463: true }, as field 8 of its encoded descriptor.
    let note = string_field("note", 2).encode_to_vec();
    let mut options = vec![];
    let mut tag = 76_569_463_u64 << 3;
    while tag >= 0x80 {
        options.push(tag as u8 | 0x80);
        tag >>= 7;
    }
    options.extend_from_slice(&[tag as u8, 1]);
    let mut sensitive = note.clone();
    sensitive.extend_from_slice(&[0x42, options.len() as u8]);
    sensitive.extend_from_slice(&options);
    let at = file.windows(note.len()).position(|window| window == note).unwrap();
    let grown = sensitive.len() - note.len();
    file.splice(at..at + note.len(), sensitive);
    // The enclosing lengths of the field, the message and the file. All are below 128.
    file[at - 1] += grown as u8;
    let message = file.windows(8).position(|window| window == b"\x0a\x06Gadget").unwrap();
    file[message - 1] += grown as u8;
    file[1] += grown as u8;

    let schema = Schema::from_descriptor_set(&file).unwrap();
    let json = to_json(&schema, "t/acme.Gadget", b"\x0a\x01g\x12\x02hi", &PrintOptions::default())
        .unwrap();
    assert_eq!(
        json,
        serde_json::json!({"@type": "t/acme.Gadget", "gadget_name": "g", "note": "[redacted]"})
    );
}
