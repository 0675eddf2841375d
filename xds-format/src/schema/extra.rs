//! `TypedStruct`, in both its packages: a type URL and the value as a `Struct`, for configuration
//! of types that the writer or the reader has no descriptors of. Nothing in the Envoy API imports
//! these files, so descriptor sets made from that API lack them.

use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};
use prost_reflect::{DescriptorError, DescriptorPool, FileDescriptor};

const STRUCT_FILE: &str = "google/protobuf/struct.proto";
const STRUCT: &str = ".google.protobuf.Struct";

/// The short name, the same in both packages.
pub(crate) const TYPED_STRUCT: [&str; 2] = ["xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"];

/// Adds those that the pool lacks, if it has what they are made of.
pub(crate) fn add_missing(pool: &mut DescriptorPool) -> Result<(), DescriptorError> {
    if pool.get_file_by_name(STRUCT_FILE).is_none() {
        return Ok(());
    }
    for full_name in TYPED_STRUCT {
        let file = typed_struct_file(full_name);
        if pool.get_message_by_name(full_name).is_none()
            && pool.get_file_by_name(file.name()).is_none()
        {
            pool.add_file_descriptor_proto(file)?;
        }
    }
    Ok(())
}

/// Whether a file was added here and is none of the schema's own.
pub(crate) fn is_added(file: &FileDescriptor) -> bool {
    TYPED_STRUCT.into_iter().any(|name| *file.file_descriptor_proto() == typed_struct_file(name))
}

fn typed_struct_file(full_name: &str) -> FileDescriptorProto {
    let (package, name) = full_name.rsplit_once('.').expect("the names above have a package");
    FileDescriptorProto {
        name: Some(format!("{}/typed_struct.proto", package.replace('.', "/"))),
        package: Some(package.to_owned()),
        dependency: vec![STRUCT_FILE.to_owned()],
        message_type: vec![DescriptorProto {
            name: Some(name.to_owned()),
            field: vec![
                field("type_url", 1, Type::String, None),
                field("value", 2, Type::Message, Some(STRUCT)),
            ],
            ..DescriptorProto::default()
        }],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    }
}

fn field(name: &str, number: i32, kind: Type, type_name: Option<&str>) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(kind.into()),
        type_name: type_name.map(str::to_owned),
        ..FieldDescriptorProto::default()
    }
}
