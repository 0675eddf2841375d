//! Resources for people to read: JSON, YAML and proto text, secrets hidden.

mod json;
mod redact;
mod text;
mod yaml;

use prost_reflect::{DynamicMessage, MapKey, MessageDescriptor, Value};

use crate::check;
use crate::error::{ErrorKind, Fault, FormatError, Path};
use crate::schema::Schema;

pub use redact::has_sensitive_fields;

type Result<T> = core::result::Result<T, Box<Fault>>;

/// What stands in the place of a hidden value.
pub const REDACTED: &str = "[redacted]";

/// The key of the bytes, in base64, of an `Any` that JSON has no form for. No reader takes it for a field.
pub const UNKNOWN_TYPE: &str = "[unknown type]";

/// How resources are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrintOptions {
    /// How fields are called in JSON and YAML.
    pub field_names: FieldNames,
    /// What happens to secrets.
    pub redaction: Redaction,
    /// What happens in JSON and YAML to an `Any` that they have no form for.
    pub unknown_types: UnknownTypes,
}

impl PrintOptions {
    /// These options with other field names.
    #[must_use]
    pub fn with_field_names(self, field_names: FieldNames) -> Self {
        Self { field_names, ..self }
    }

    /// These options with secrets hidden or shown.
    #[must_use]
    pub fn with_redaction(self, redaction: Redaction) -> Self {
        Self { redaction, ..self }
    }

    /// These options with types that the schema lacks marked or refused.
    #[must_use]
    pub fn with_unknown_types(self, unknown_types: UnknownTypes) -> Self {
        Self { unknown_types, ..self }
    }
}

/// The spelling of field names in JSON and YAML; readers must accept both (S4.056).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldNames {
    /// As in the .proto files, `connect_timeout`: what the Envoy world writes.
    #[default]
    Proto,
    /// lowerCamelCase, `connectTimeout`: the default of the canonical mapping.
    Json,
}

/// What happens in JSON and YAML to an `Any` that they have no form for: the schema lacks its type, or its type URL
/// names none. [`unprintable`](crate::unprintable) lists them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownTypes {
    /// It prints as `{"@type": url, "[unknown type]": base64}`, which people understand and no reader takes back.
    #[default]
    Marked,
    /// It is an error, [`ErrorKind::UnprintableAny`]. For output that a program reads.
    Refused,
}

/// What happens to secrets in print.
///
/// Hidden are the fields annotated `udpa.annotations.sensitive` (B16) and every inline `DataSource`
/// within an `envoy.extensions.transport_sockets.tls.v3.Secret`, also inside any `Any` or
/// `TypedStruct` whose type is known. What is inside an `Any` of a type that the schema does not
/// have cannot be told, and is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Redaction {
    /// Secrets print as [`REDACTED`]; lists and maps of them keep their shape.
    #[default]
    Hidden,
    /// Everything prints. For output that a program reads back.
    Shown,
}

/// A resource in canonical proto3 JSON, as it would stand in an `Any`: with `@type` first, then its
/// fields by number.
///
/// An `Any` that is present and holds nothing prints as `{}`. A type that the schema lacks, here or in any `Any` inside,
/// is marked or an error: [`UnknownTypes`]. Unknown fields do not print.
///
/// # Errors
///
/// Those of [`decode_check`](crate::decode_check) for a known type; [`ErrorKind::UnprintableAny`] with the path of the
/// first such `Any` if [`UnknownTypes::Refused`] is asked for.
pub fn to_json(
    schema: &Schema,
    type_url: &str,
    bytes: &[u8],
    options: &PrintOptions,
) -> core::result::Result<serde_json::Value, FormatError> {
    let any = decode_any(schema, type_url, bytes, options.unknown_types)?;
    json::Printer::new(schema, options).typed(&any).map_err(|fault| fault.in_source("", None))
}

/// [`to_json`] as indented text, with a newline at the end.
///
/// # Errors
///
/// As [`to_json`].
pub fn to_json_string(
    schema: &Schema,
    type_url: &str,
    bytes: &[u8],
    options: &PrintOptions,
) -> core::result::Result<String, FormatError> {
    Ok(format!("{:#}\n", to_json(schema, type_url, bytes, options)?))
}

/// [`to_json`] as YAML. [`parse`](crate::parse) reads it back.
///
/// # Errors
///
/// As [`to_json`].
pub fn to_yaml(
    schema: &Schema,
    type_url: &str,
    bytes: &[u8],
    options: &PrintOptions,
) -> core::result::Result<String, FormatError> {
    Ok(yaml::print(&to_json(schema, type_url, bytes, options)?))
}

/// A resource in the protobuf text format, with the header comment `# proto-message: full.name` by
/// which [`parse`](crate::parse) reads it back.
///
/// A type that the schema lacks prints with its type URL and its value in bytes, which [`parse`](crate::parse) reads back
/// inside of another type.
///
/// # Errors
///
/// Those of [`decode_check`](crate::decode_check) for a known type.
pub fn to_text(
    schema: &Schema,
    type_url: &str,
    bytes: &[u8],
    options: &PrintOptions,
) -> core::result::Result<String, FormatError> {
    let any = decode_any(schema, type_url, bytes, UnknownTypes::Marked)?;
    text::Printer::new(schema, options).file(&any).map_err(|fault| fault.in_source("", None))
}

/// A message in canonical proto3 JSON, without `@type`: the body of a REST request or response.
///
/// # Errors
///
/// As [`to_json`], and [`ErrorKind::UnknownType`] when the schema lacks `full_name`.
pub fn message_to_json(
    schema: &Schema,
    full_name: &str,
    bytes: &[u8],
    options: &PrintOptions,
) -> core::result::Result<serde_json::Value, FormatError> {
    let print = || {
        let message =
            schema.require(full_name).map_err(|kind| Fault::new(None, &Path::Root, kind))?;
        check_printable(schema, &message, bytes, options.unknown_types)?;
        json::Printer::new(schema, options).message(&decode(message, bytes)?, Privacy::Public)
    };
    print().map_err(|fault| fault.in_source("", None))
}

/// What an `Any` holds.
enum Typed<'b> {
    /// Neither a type URL nor a value.
    Nothing,
    Known(&'b str, DynamicMessage),
    /// No such type in the schema.
    Unknown(&'b str, &'b [u8]),
}

fn decode_any<'b>(
    schema: &Schema,
    type_url: &'b str,
    bytes: &'b [u8],
    unknown_types: UnknownTypes,
) -> core::result::Result<Typed<'b>, FormatError> {
    let decode = || match schema.message_of(type_url) {
        None if unknown_types == UnknownTypes::Refused => {
            Err(check::unprintable_any(type_url, &Path::Root))
        }
        None => Ok(Typed::Unknown(type_url, bytes)),
        // All of it, down to the last `Any`: the printers then know that everything decodes and
        // nothing is too deep.
        Some(message) => {
            check_printable(schema, &message, bytes, unknown_types)?;
            Ok(Typed::Known(type_url, decode(message, bytes)?))
        }
    };
    decode().map_err(|fault: Box<Fault>| fault.in_source("", None))
}

/// Checks that a message decodes and, where asked for, that JSON has a form for all of it.
fn check_printable(
    schema: &Schema,
    message: &MessageDescriptor,
    bytes: &[u8],
    unknown_types: UnknownTypes,
) -> Result<()> {
    match unknown_types {
        UnknownTypes::Marked => check::message(schema, message, bytes, &Path::Root),
        UnknownTypes::Refused => {
            let listed = check::list_unprintable(schema, message, bytes, &Path::Root)?;
            listed.into_iter().next().map_or(Ok(()), |first| Err(Box::new(first)))
        }
    }
}

fn decode(message: MessageDescriptor, bytes: &[u8]) -> Result<DynamicMessage> {
    let name = message.full_name().to_owned();
    DynamicMessage::decode(message, bytes).map_err(|error| {
        Fault::new(
            None,
            &Path::Root,
            ErrorKind::Corrupt { message: name, reason: error.to_string() },
        )
    })
}

/// Splits a decoded `Any`.
fn unpack<'m>(schema: &Schema, any: &'m DynamicMessage) -> Result<Typed<'m>> {
    let field = |number| match any.get_field_by_number(number) {
        Some(std::borrow::Cow::Borrowed(value)) => Some(value),
        _ => None,
    };
    let type_url = field(1).and_then(Value::as_str).unwrap_or_default();
    let value = field(2).and_then(Value::as_bytes).map(|bytes| &bytes[..]).unwrap_or_default();
    match schema.message_of(type_url) {
        None if type_url.is_empty() && value.is_empty() => Ok(Typed::Nothing),
        None => Ok(Typed::Unknown(type_url, value)),
        Some(message) => Ok(Typed::Known(type_url, decode(message, value)?)),
    }
}

/// Are we inside a `Secret`?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Privacy {
    Public,
    Secret,
}

/// The entries of a map field in the order of their keys: a hash map would print in a new order
/// every time.
pub(crate) fn sorted(map: &std::collections::HashMap<MapKey, Value>) -> Vec<(&MapKey, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by(|(a, _), (b, _)| key_order(a).cmp(&key_order(b)));
    entries
}

fn key_order(key: &MapKey) -> (i128, &str) {
    match key {
        MapKey::Bool(value) => (i128::from(*value), ""),
        MapKey::I32(value) => (i128::from(*value), ""),
        MapKey::I64(value) => (i128::from(*value), ""),
        MapKey::U32(value) => (i128::from(*value), ""),
        MapKey::U64(value) => (i128::from(*value), ""),
        MapKey::String(value) => (0, value),
    }
}
