//! Compatibility of field types in bytes and in text.

use prost_reflect::{FieldDescriptor, Kind};

use super::pairs::Pairs;

/// Effect of a change of type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retype {
    /// Whether the bytes of one type can be read as the other.
    pub(crate) same_bytes: bool,
    /// Whether text of one type can be read as the other.
    pub(crate) same_text: bool,
}

/// Groups of types with the same encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Varint,
    ZigZag,
    Fixed32,
    Fixed64,
    Float,
    Double,
    Text,
    Message,
    Group,
}

/// Returns the effect of the change between the types of two fields; `None` if they have the same
/// type.
pub(crate) fn retyped(
    old: &FieldDescriptor,
    new: &FieldDescriptor,
    pairs: &Pairs,
) -> Option<Retype> {
    let (old_kind, new_kind) = (old.kind(), new.kind());
    let is_same = match (&old_kind, &new_kind) {
        (Kind::Message(one), Kind::Message(other)) => {
            pairs.message(one.full_name()) == other.full_name() && old.is_group() == new.is_group()
        }
        (Kind::Enum(one), Kind::Enum(other)) => {
            pairs.enumeration(one.full_name()) == other.full_name()
        }
        (one, other) => one == other,
    };
    if is_same {
        return None;
    }
    let (was, is) = (encoding(old), encoding(new));
    let is_encoded_message = matches!(
        (&old_kind, &new_kind),
        (Kind::Message(_), Kind::Bytes) | (Kind::Bytes, Kind::Message(_))
    ) && was != Encoding::Group
        && is != Encoding::Group;
    let are_messages = matches!((&old_kind, &new_kind), (Kind::Message(_), Kind::Message(_)));
    Some(Retype {
        same_bytes: is_encoded_message || (was == is && !are_messages),
        same_text: (is_integer(&old_kind) && is_integer(&new_kind))
            || (is_float(&old_kind) && is_float(&new_kind)),
    })
}

fn encoding(field: &FieldDescriptor) -> Encoding {
    match field.kind() {
        Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Uint64 | Kind::Bool | Kind::Enum(_) => {
            Encoding::Varint
        }
        Kind::Sint32 | Kind::Sint64 => Encoding::ZigZag,
        Kind::Fixed32 | Kind::Sfixed32 => Encoding::Fixed32,
        Kind::Fixed64 | Kind::Sfixed64 => Encoding::Fixed64,
        Kind::Float => Encoding::Float,
        Kind::Double => Encoding::Double,
        Kind::String | Kind::Bytes => Encoding::Text,
        Kind::Message(_) if field.is_group() => Encoding::Group,
        Kind::Message(_) => Encoding::Message,
    }
}

fn is_integer(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Int32
            | Kind::Int64
            | Kind::Uint32
            | Kind::Uint64
            | Kind::Sint32
            | Kind::Sint64
            | Kind::Fixed32
            | Kind::Fixed64
            | Kind::Sfixed32
            | Kind::Sfixed64
    )
}

fn is_float(kind: &Kind) -> bool {
    matches!(kind, Kind::Float | Kind::Double)
}

/// Formats a type as in a .proto file.
pub(crate) fn name(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(enumeration) => enumeration.full_name().to_owned(),
        scalar => format!("{scalar:?}").to_lowercase(),
    }
}
