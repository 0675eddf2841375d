//! Checks that a resource and the messages nested in it decode.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

use super::document::read_any;
use crate::encode::{Location, MAX_MESSAGE_DEPTH, MAX_TOTAL_DEPTH};
use crate::error::{ErrorKind, Fault, FormatError, Path, Result, abbreviate};
use crate::schema::{Schema, is_private_message};
use crate::wire::{Field, Fields, Payload, WireError, last_string, read_varint};

/// Maximum number of unprintable parts listed for a resource.
const MOST_UNPRINTABLE: usize = 100;

/// Checks that a resource decodes as its type URL states, including every nested `Any` of a known
/// type.
///
/// A client that accepts resources without decoding them may use this as its validator: bytes that
/// pass are accepted by prost's decoders. Nested `Any`s of unknown types and unknown fields are not
/// checked. Rules beyond the encoding (a port above 65535) are not checked either.
// S4.050
///
/// # Errors
///
/// - [`ErrorKind::UnknownType`] or [`ErrorKind::InvalidTypeUrl`] for the type URL of the resource;
/// - [`ErrorKind::Corrupt`], with the path of the message that does not decode;
/// - [`ErrorKind::TooDeep`].
pub fn decode_check(schema: &Schema, type_url: &str, bytes: &[u8]) -> Result<(), FormatError> {
    let checked = match schema.require_url(type_url) {
        Ok(resource) => message(schema, &resource, bytes, &Path::Root),
        Err(kind) => Err(Fault::new(None, &Path::Root, kind)),
    };
    checked.map_err(|fault| fault.in_source("", None))
}

/// Performs [`decode_check`] for a part of a file.
pub(crate) fn message(
    schema: &Schema,
    message: &MessageDescriptor,
    bytes: &[u8],
    path: &Path<'_>,
) -> Result<()> {
    let mut checker = Checker { schema, unprintable: None, unknown_fields: None };
    checker.message(message, bytes, Location::top(path))
}

/// Lists the `Any`s of a resource that have no JSON or YAML form, in the order of the bytes, at
/// most 100.
///
/// JSON writes an `Any` as the fields of its message, which requires a type URL and a schema with
/// that type. An `Any` with neither type URL nor value is written as `{}`. The text format can
/// write any `Any`, if need be as bytes.
///
/// # Errors
///
/// Returns the errors of [`decode_check`], if the type is known. A resource of an unknown type is
/// itself listed as unprintable.
pub fn unprintable(
    schema: &Schema,
    type_url: &str,
    bytes: &[u8],
) -> Result<Vec<FormatError>, FormatError> {
    let listed = match schema.message_of(type_url) {
        Some(resource) => list_unprintable(schema, &resource, bytes, &Path::Root),
        None => Ok(vec![*unprintable_any(type_url, &Path::Root)]),
    };
    let listed = listed.map_err(|fault| fault.in_source("", None))?;
    Ok(listed.into_iter().map(|fault| fault.in_source("", None)).collect())
}

/// Performs [`unprintable`] for a part of a file.
pub(crate) fn list_unprintable(
    schema: &Schema,
    message: &MessageDescriptor,
    bytes: &[u8],
    path: &Path<'_>,
) -> Result<Vec<Fault>> {
    let mut checker = Checker { schema, unprintable: Some(Vec::new()), unknown_fields: None };
    checker.message(message, bytes, Location::top(path))?;
    Ok(checker.unprintable.unwrap_or_default())
}

/// Lists the fields of a message that the schema lacks, in the order of the bytes, at most 100. No
/// text format prints them, so converting the message to text loses them.
///
/// Fields of a nested `Any` are included if the schema has its type.
///
/// # Errors
///
/// Returns the errors of [`decode_check`].
pub fn unknown_fields(
    schema: &Schema,
    type_url: &str,
    bytes: &[u8],
) -> Result<Vec<FormatError>, FormatError> {
    let list = || {
        let message =
            schema.require_url(type_url).map_err(|kind| Fault::new(None, &Path::Root, kind))?;
        let mut checker = Checker { schema, unprintable: None, unknown_fields: Some(Vec::new()) };
        checker.message(&message, bytes, Location::top(&Path::Root))?;
        Ok(checker.unknown_fields.unwrap_or_default())
    };
    let listed = list().map_err(|fault: Box<Fault>| fault.in_source("", None))?;
    Ok(listed.into_iter().map(|fault| fault.in_source("", None)).collect())
}

pub(crate) fn unprintable_any(type_url: &str, path: &Path<'_>) -> Box<Fault> {
    let kind = ErrorKind::UnprintableAny { type_url: abbreviate(type_url) };
    let kind = if path.is_private() { kind.without_malformed_url() } else { kind };
    Fault::new(None, path, kind)
}

struct Checker<'s> {
    schema: &'s Schema,
    /// `Any`s without a JSON form; `None` if the caller does not need them.
    unprintable: Option<Vec<Fault>>,
    /// Fields that the schema lacks; `None` if the caller does not need them.
    unknown_fields: Option<Vec<Fault>>,
}

/// Creates the error for a message that does not decode.
fn corrupt(path: &Path<'_>, message: &MessageDescriptor, reason: String) -> Box<Fault> {
    let message = message.full_name().to_owned();
    Fault::new(None, path, ErrorKind::Corrupt { message, reason })
}

impl Checker<'_> {
    fn message(
        &mut self,
        message: &MessageDescriptor,
        bytes: &[u8],
        at: Location<'_>,
    ) -> Result<()> {
        for (depth, limit) in [(at.depth, MAX_MESSAGE_DEPTH), (at.total, MAX_TOTAL_DEPTH)] {
            if depth > limit {
                return Err(Fault::new(None, at.path, ErrorKind::TooDeep { limit }));
            }
        }
        let private = Path::Private(at.path);
        let at = if is_private_message(message) { Location { path: &private, ..at } } else { at };
        // Number of elements of each repeated message field so far, for paths.
        let mut counts: Vec<(u32, usize)> = Vec::new();
        for field in Fields::new(bytes) {
            let field = field.map_err(|e| corrupt(at.path, message, e.to_string()))?;
            let Some(descriptor) = message.get_field(field.number) else {
                self.unknown_field(message, field.number, at);
                continue;
            };
            self.field(message, &descriptor, field, &mut counts, at)?;
        }
        if message.full_name() == "google.protobuf.Any" {
            self.any(message, bytes, at)
        } else {
            Ok(())
        }
    }

    fn field(
        &mut self,
        message: &MessageDescriptor,
        descriptor: &FieldDescriptor,
        field: Field<'_>,
        counts: &mut Vec<(u32, usize)>,
        at: Location<'_>,
    ) -> Result<()> {
        let number = field.number;
        let wrong = |what: &str| {
            corrupt(at.path, message, format!("the field `{}` {what}", descriptor.name()))
        };
        match (descriptor.kind(), field.payload) {
            (Kind::Message(_), Payload::Group) if descriptor.is_group() => Ok(()),
            (Kind::Message(nested), Payload::Len(bytes)) if !descriptor.is_group() => {
                let field = Path::Field(at.path, descriptor.name());
                let private = Path::Private(&field);
                let path = match self.schema.is_private_field(descriptor) {
                    // A map entry has the path of its value.
                    _ if message.is_map_entry() => at.path,
                    true => &private,
                    false => &field,
                };
                let inner = |path| Location { path, depth: at.depth + 1, total: at.total + 1 };
                if descriptor.is_map() {
                    let key = last_string(bytes, 1).unwrap_or_default();
                    self.message(&nested, bytes, inner(&Path::Key(path, key)))
                } else if descriptor.is_list() {
                    self.message(&nested, bytes, inner(&Path::Index(path, count(counts, number))))
                } else {
                    self.message(&nested, bytes, inner(path))
                }
            }
            (Kind::String, Payload::Len(bytes)) => {
                core::str::from_utf8(bytes).map(drop).map_err(|_| wrong("is not valid UTF-8"))
            }
            (Kind::Bytes, Payload::Len(_)) => Ok(()),
            (kind, Payload::Len(packed)) if descriptor.is_list() && is_packable(&kind) => {
                check_packed(&kind, packed).map_err(|e| corrupt(at.path, message, e.to_string()))
            }
            (Kind::Double | Kind::Fixed64 | Kind::Sfixed64, Payload::Fixed64) => Ok(()),
            (Kind::Float | Kind::Fixed32 | Kind::Sfixed32, Payload::Fixed32) => Ok(()),
            (kind, Payload::Varint(_)) if is_varint(&kind) => Ok(()),
            _ => Err(wrong("has the wrong wire type")),
        }
    }

    fn unknown_field(&mut self, message: &MessageDescriptor, number: u32, at: Location<'_>) {
        if let Some(listed) = &mut self.unknown_fields
            && listed.len() < MOST_UNPRINTABLE
        {
            let message = message.full_name().to_owned();
            listed.push(*Fault::new(
                None,
                at.path,
                ErrorKind::UnprintableField { message, number },
            ));
        }
    }

    fn any(&mut self, message: &MessageDescriptor, bytes: &[u8], at: Location<'_>) -> Result<()> {
        let (type_url, value) =
            read_any(bytes).map_err(|e| corrupt(at.path, message, e.to_string()))?;
        match self.schema.message_of(type_url) {
            Some(inner) => {
                self.message(&inner, value, Location { depth: 0, total: at.total + 1, ..at })
            }
            None => {
                let is_empty = type_url.is_empty() && value.is_empty();
                if let Some(listed) = &mut self.unprintable
                    && !is_empty
                    && listed.len() < MOST_UNPRINTABLE
                {
                    listed.push(*unprintable_any(type_url, at.path));
                }
                Ok(())
            }
        }
    }
}

/// Returns the number of earlier elements of the field, and counts this one.
fn count(counts: &mut Vec<(u32, usize)>, number: u32) -> usize {
    match counts.iter_mut().find(|(counted, _)| *counted == number) {
        Some((_, count)) => {
            *count += 1;
            *count
        }
        None => {
            counts.push((number, 0));
            0
        }
    }
}

fn is_varint(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Int32
            | Kind::Int64
            | Kind::Uint32
            | Kind::Uint64
            | Kind::Sint32
            | Kind::Sint64
            | Kind::Bool
            | Kind::Enum(_)
    )
}

fn is_packable(kind: &Kind) -> bool {
    !matches!(kind, Kind::String | Kind::Bytes | Kind::Message(_))
}

fn check_packed(kind: &Kind, mut packed: &[u8]) -> Result<(), WireError> {
    let width = match kind {
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => 8,
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => 4,
        _ => {
            while !packed.is_empty() {
                read_varint(&mut packed)?;
            }
            return Ok(());
        }
    };
    if packed.len().is_multiple_of(width) { Ok(()) } else { Err(WireError::Truncated) }
}
