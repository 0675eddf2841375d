//! Descriptor sets: the embedded one, and those of users.

#![cfg(feature = "envoy")]

use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
};
use xds_format::{Format, PrintOptions, Schema, parse, to_json};

fn string_field(name: &str, number: i32) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(Type::String.into()),
        ..FieldDescriptorProto::default()
    }
}

/// `acme.Gadget { string gadget_name = 1; string note = 2; }`, in a file that imports `dependency`.
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
fn envoy_is_there_whole_and_once() {
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
fn schemas_can_be_shared_between_threads() {
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
    // The schema it was made from is as it was.
    assert!(Schema::envoy().message("acme.Gadget").is_none());
}

#[test]
fn sets_may_repeat_their_imports() {
    let known = "envoy/config/core/v3/address.proto";
    let import =
        FileDescriptorProto { name: Some(known.to_owned()), ..FileDescriptorProto::default() };
    let schema = Schema::envoy().with_descriptor_set(&set([import, gadgets(Some(known))])).unwrap();
    assert!(schema.message("acme.Gadget").is_some());
    assert!(schema.message("envoy.config.core.v3.SocketAddress").is_some());
}

#[test]
fn broken_sets_are_errors() {
    let error = |set: &[u8]| Schema::envoy().with_descriptor_set(set).unwrap_err().to_string();
    assert_eq!(error(b"\x0a\x05"), "invalid descriptor set: the encoding is truncated");
    let missing = error(&set([gadgets(Some("acme/missing.proto"))]));
    assert!(
        missing.starts_with("invalid descriptor set: ") && missing.contains("acme/missing.proto"),
        "{missing}"
    );
    let mut again = gadgets(None);
    again.name = Some("other.proto".to_owned());
    let twice = error(&set([gadgets(None), again]));
    assert!(
        twice.starts_with("invalid descriptor set: ") && twice.contains("acme.Gadget"),
        "{twice}"
    );
    assert!(Schema::from_descriptor_set(b"garbage").is_err());
    assert_eq!(Schema::from_descriptor_set(b"").unwrap().pool().all_messages().len(), 0);
}

#[test]
fn a_small_schema_works_without_envoy() {
    let schema = Schema::from_descriptor_set(&set([gadgets(None)])).unwrap();
    let document =
        parse(&schema, "f", Format::Json, br#"[{"@type": "t/acme.Gadget", "gadgetName": "g"}]"#)
            .unwrap();
    assert_eq!(document.resources[0].name, "g");
    let error = parse(&schema, "f", Format::Json, br#"{"resources": []}"#).unwrap_err().to_string();
    assert_eq!(error, "f:1:1: unknown type `envoy.service.discovery.v3.DiscoveryResponse`");
}

/// The option is an extension of field options: it must survive the trimming of the embedded set,
/// and count in added sets.
#[test]
fn sensitive_fields_of_added_sets_are_hidden_too() {
    let mut file = set([gadgets(None)]);
    // `note` gets options { 76569463: true }: field 8 of the field, appended to its encoding.
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
    // The lengths around it: of the field, the message, the file. All are below 128.
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
