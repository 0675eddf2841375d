//! `xds compat`.

use std::fs;

use crate::support::{Ended, TempDir, run};
use serde_json::Value as Json;
use xds_format::Schema;
use xds_format::prost_reflect::prost::Message as _;
use xds_format::prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

/// Descriptor set with `acme.v1.Thing` and string fields, each given as `name=number`.
fn thing(package: &str, fields: &str) -> Vec<u8> {
    let field = |field: &str| {
        let (name, number) = field.split_once('=').unwrap();
        FieldDescriptorProto {
            name: Some(name.to_owned()),
            number: Some(number.parse().unwrap()),
            label: Some(Label::Optional.into()),
            r#type: Some(Type::String.into()),
            ..FieldDescriptorProto::default()
        }
    };
    let message = DescriptorProto {
        name: Some("Thing".to_owned()),
        field: fields.split(' ').map(field).collect(),
        ..DescriptorProto::default()
    };
    let file = FileDescriptorProto {
        name: Some("thing.proto".to_owned()),
        package: Some(package.to_owned()),
        message_type: vec![message],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    };
    FileDescriptorSet { file: vec![file] }.encode_to_vec()
}

fn compat(old: &[u8], new: &[u8], options: &[&str]) -> Ended {
    let directory = TempDir::new();
    let paths = [("old.binpb", old), ("new.binpb", new)].map(|(name, set)| {
        let path = directory.join(name);
        fs::write(&path, set).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let mut args = vec!["compat", &paths[0], &paths[1]];
    args.extend(options);
    let mut ended = run(&args);
    ended.stderr = ended.stderr.replace(&format!("{}/", directory.path().display()), "");
    ended
}

#[test]
fn compat_break_names_element_rule_and_axes() {
    let (old, new) =
        (thing("acme.v1", "cluster_name=1 size=2"), thing("acme.v1", "cluster_names=1 size=3"));
    let ended = compat(&old, &new, &[]);
    assert_eq!(
        ended.stdout.lines().collect::<Vec<_>>(),
        [
            "break: acme.v1.Thing.cluster_name: is now called `cluster_names` (field-renamed; breaks text, code)",
            "break: acme.v1.Thing.size: number 2 is now 3 (field-renumbered; breaks binary)",
            "2 breaks: binary 1, text 1, code 1",
        ]
    );
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), "xds: 2 breaks"));
    println!("covers: S4.053");
}

#[test]
fn ignored_axes_do_not_fail_compat() {
    let (old, new) = (thing("acme.v1", "cluster_name=1"), thing("acme.v1", "cluster_names=1"));
    let ended = compat(&old, &new, &["--ignore", "code"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("(field-renamed; breaks text)\n"), "{}", ended.stdout);
    let ended = compat(&old, &new, &["--ignore", "code", "--ignore", "text"]);
    assert_eq!(
        (ended.code, ended.stdout.as_str(), ended.stderr.as_str()),
        (Some(0), "0 breaks", "")
    );
    let ended = compat(&old, &new, &["--ignore", "all"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("expected binary, text, type-url,"), "{}", ended.stderr);
}

#[test]
fn exempt_breaks_are_printed_and_do_not_fail_compat() {
    let ended = compat(&thing("acme.v1alpha", "a=1"), &thing("acme.v1alpha", "a=2"), &[]);
    assert_eq!(
        ended.stdout,
        "exempt: acme.v1alpha.Thing.a: number 1 is now 2 (field-renumbered; breaks binary; exempt: alpha)\n\
         0 breaks"
    );
    assert_eq!(ended.code, Some(0));
}

#[test]
fn compat_prints_breaks_as_json_objects() {
    let ended = compat(&thing("acme.v1", "a=1"), &thing("acme.v1", "a=2"), &["-o", "ndjson"]);
    let object: Json = serde_json::from_str(&ended.stdout).unwrap();
    for (field, value) in [
        ("event", "break"),
        ("element", "acme.v1.Thing.a"),
        ("rule", "field-renumbered"),
        ("change", "number 1 is now 2"),
    ] {
        assert_eq!(object[field], value, "{object}");
    }
    assert_eq!(object["axes"]["binary"], "broken");
    assert_eq!(object["axes"]["text"], "kept");
    assert_eq!(object["axes"].as_object().unwrap().len(), 8);
    assert_eq!(object["exemption"], Json::Null);
}

#[test]
fn envoy_schema_is_compatible_with_itself() {
    let set = Schema::envoy().pool().encode_to_vec();
    let ended = compat(&set, &set, &[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "0 breaks"), "{}", ended.stderr);
}

#[test]
fn invalid_descriptor_set_is_named() {
    let ended = compat(&thing("acme.v1", "a=1"), b"\x0a\x05", &[]);
    assert_eq!(ended.code, Some(1));
    let words = "xds: new.binpb: invalid descriptor set: the encoding is truncated: not an encoded";
    assert!(ended.stderr.starts_with(words), "{}", ended.stderr);
    let ended = compat(&thing("acme.v1", "a=1"), b"syntax = \"proto3\";\npackage acme.v1;\n", &[]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(
        ended.stderr,
        "xds: new.binpb: invalid descriptor set: the file is the source of a schema (.proto); compile the schema with \
         `protoc --include_imports --descriptor_set_out=FILE NAME.proto` or `buf build -o FILE`"
    );
    let ended = compat(b"", &thing("acme.v1", "a=1"), &[]);
    assert_eq!(ended.stderr, "xds: old.binpb: the descriptor set is empty");
    let ended = run(&["compat", "no/such/file", "no/such/file"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.starts_with("xds: cannot read no/such/file: "), "{}", ended.stderr);
}
