//! Printing of resources as JSON, YAML and proto text, with secrets hidden.

mod json;
mod redact;
mod text;
mod yaml;

use std::borrow::Cow;

use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value,
};

use crate::error::{ErrorKind, Fault, FormatError, Path, Result};
use crate::path::REDACTED;
use crate::resource::check;
use crate::schema::Schema;

pub use redact::has_sensitive_fields;

/// JSON key of the base64 bytes of an `Any` that has no JSON form. It is not a valid field name.
pub const UNKNOWN_TYPE: &str = "[unknown type]";

/// Options for printing resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrintOptions {
    /// Spelling of field names in JSON and YAML. Default: [`FieldNames::Proto`].
    pub field_names: FieldNames,
    /// Treatment of secrets. Default: [`Redaction::Hidden`].
    pub redaction: Redaction,
    /// Treatment of an `Any` that has no JSON or YAML form. Default: [`UnknownTypes::Marked`].
    pub unknown_types: UnknownTypes,
}

impl PrintOptions {
    /// Returns these options with the given field names.
    #[must_use]
    pub fn with_field_names(self, field_names: FieldNames) -> Self {
        Self { field_names, ..self }
    }

    /// Returns these options with secrets hidden or shown.
    #[must_use]
    pub fn with_redaction(self, redaction: Redaction) -> Self {
        Self { redaction, ..self }
    }

    /// Returns these options with unknown types marked or rejected.
    #[must_use]
    pub fn with_unknown_types(self, unknown_types: UnknownTypes) -> Self {
        Self { unknown_types, ..self }
    }
}

/// Spelling of field names in JSON and YAML. Readers must accept both.
// S4.056
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldNames {
    /// Names of the .proto files, such as `connect_timeout`, as in Envoy's documentation.
    #[default]
    Proto,
    /// lowerCamelCase, such as `connectTimeout`, the default of the canonical mapping.
    Json,
}

/// Treatment of an `Any` that has no JSON or YAML form, because the schema lacks its type or its
/// type URL is invalid. [`unprintable`](crate::unprintable) lists them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownTypes {
    /// Prints `{"@type": url, "[unknown type]": base64}`, which is readable but cannot be parsed
    /// back.
    #[default]
    Marked,
    /// Fails with [`ErrorKind::UnprintableAny`]. For output that a program reads.
    Refused,
}

/// Treatment of secrets in output.
///
/// Secrets are the fields annotated with `udpa.annotations.sensitive`, and every inline
/// `DataSource` within an `envoy.extensions.transport_sockets.tls.v3.Secret`. They are also found
/// inside an `Any` or a `TypedStruct` of a known type. An `Any` of an unknown type is printed
/// unless it is inside a `Secret`, because its content cannot be examined.
// B16
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Redaction {
    /// Prints [`REDACTED`] in place of a secret. Lists and maps of secrets keep their shape.
    #[default]
    Hidden,
    /// Prints secrets. For output that a program reads back.
    Shown,
}

/// Converts a resource to canonical proto3 JSON, as in an `Any`: `@type` first, then the fields by
/// number.
///
/// An empty `Any` prints as `{}`. [`UnknownTypes`] determines the output for a type that the schema
/// lacks, in the resource or in a nested `Any`. Unknown fields are not printed.
///
/// # Errors
///
/// Returns the errors of [`decode_check`](crate::decode_check) if the type is known;
/// [`ErrorKind::UnprintableAny`] with the path of the first unprintable `Any`, with
/// [`UnknownTypes::Refused`].
pub fn to_json(
    schema: &Schema,
    type_url: &str,
    bytes: &[u8],
    options: &PrintOptions,
) -> Result<serde_json::Value, FormatError> {
    let any = decode_any(schema, type_url, bytes, options.unknown_types)?;
    json::JsonPrinter::new(schema, options).typed(&any).map_err(|fault| fault.in_source("", None))
}

/// Converts a resource as [`to_json`] does, to indented text with a final newline.
///
/// # Errors
///
/// Returns the errors of [`to_json`].
pub fn to_json_string(
    schema: &Schema,
    type_url: &str,
    bytes: &[u8],
    options: &PrintOptions,
) -> Result<String, FormatError> {
    Ok(format!("{:#}\n", to_json(schema, type_url, bytes, options)?))
}

/// Converts a resource as [`to_json`] does, to YAML that [`parse`](crate::parse) can read back.
///
/// # Errors
///
/// Returns the errors of [`to_json`].
pub fn to_yaml(
    schema: &Schema,
    type_url: &str,
    bytes: &[u8],
    options: &PrintOptions,
) -> Result<String, FormatError> {
    Ok(yaml::print(&to_json(schema, type_url, bytes, options)?))
}

/// Prints JSON, such as the result of [`message_to_json`], as one YAML document that
/// [`parse`](crate::parse()) reads as the same value.
#[must_use]
pub fn json_to_yaml(value: &serde_json::Value) -> String {
    yaml::print(value)
}

/// Converts a resource to the protobuf text format, with a header comment `# proto-message:
/// full.name` by which [`parse`](crate::parse) can read it back.
///
/// An `Any` of an unknown type prints its type URL and its value in bytes. [`parse`](crate::parse)
/// can read it back if it is nested in a resource of a known type.
///
/// # Errors
///
/// Returns the errors of [`decode_check`](crate::decode_check), if the type is known.
pub fn to_text(
    schema: &Schema,
    type_url: &str,
    bytes: &[u8],
    options: &PrintOptions,
) -> Result<String, FormatError> {
    let any = decode_any(schema, type_url, bytes, UnknownTypes::Marked)?;
    text::TextPrinter::new(schema, options).file(&any).map_err(|fault| fault.in_source("", None))
}

/// Converts a message to canonical proto3 JSON without `@type`, such as the body of a REST request
/// or response.
///
/// # Errors
///
/// Returns the errors of [`to_json`], and [`ErrorKind::UnknownType`] if the schema lacks
/// `full_name`.
pub fn message_to_json(
    schema: &Schema,
    full_name: &str,
    bytes: &[u8],
    options: &PrintOptions,
) -> Result<serde_json::Value, FormatError> {
    let print = || {
        let message =
            schema.require(full_name).map_err(|kind| Fault::new(None, &Path::Root, kind))?;
        check_printable(schema, &message, bytes, options.unknown_types)?;
        json::JsonPrinter::new(schema, options).message(&decode(message, bytes)?, Privacy::Public)
    };
    print().map_err(|fault| fault.in_source("", None))
}

/// Content of an `Any`.
enum Typed<'b> {
    /// An `Any` with neither a type URL nor a value.
    Nothing,
    Known(&'b str, DynamicMessage),
    /// A type that the schema lacks.
    Unknown(&'b str, &'b [u8]),
}

fn decode_any<'b>(
    schema: &Schema,
    type_url: &'b str,
    bytes: &'b [u8],
    unknown_types: UnknownTypes,
) -> Result<Typed<'b>, FormatError> {
    let decode = || match schema.message_of(type_url) {
        None if unknown_types == UnknownTypes::Refused => {
            Err(check::unprintable_any(type_url, &Path::Root))
        }
        None => Ok(Typed::Unknown(type_url, bytes)),
        // Checks every nested `Any` too: the printers rely on everything decoding within the
        // depth limits.
        Some(message) => {
            check_printable(schema, &message, bytes, unknown_types)?;
            Ok(Typed::Known(type_url, decode(message, bytes)?))
        }
    };
    decode().map_err(|fault: Box<Fault>| fault.in_source("", None))
}

/// Checks that a message decodes and, for [`UnknownTypes::Refused`], has a JSON form.
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

/// Decodes the content of an `Any`.
fn unpack<'m>(schema: &Schema, any: &'m DynamicMessage) -> Result<Typed<'m>> {
    let field = |number| match any.get_field_by_number(number) {
        Some(Cow::Borrowed(value)) => Some(value),
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

/// Whether a value is inside a `Secret`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Privacy {
    Public,
    Secret,
}

/// Returns the fields that a message has, ordered by number. Unlike `DynamicMessage::fields`, these
/// include numbers that are negative zero, which differs from the default.
pub(crate) fn fields(message: &DynamicMessage) -> Vec<(FieldDescriptor, Cow<'_, Value>)> {
    let mut fields: Vec<_> =
        message.fields().map(|(field, value)| (field, Cow::Borrowed(value))).collect();
    let descriptor = message.descriptor();
    let numbers = descriptor.fields().filter(|it| matches!(it.kind(), Kind::Double | Kind::Float));
    // Lists are no numbers, and a field with presence is among the fields already.
    let implicit = numbers.filter(|it| !it.is_list() && !it.supports_presence());
    let before = fields.len();
    fields.extend(implicit.filter_map(|field| {
        let is_negative_zero = match *message.get_field(&field) {
            Value::F32(number) => number == 0.0 && number.is_sign_negative(),
            Value::F64(number) => number == 0.0 && number.is_sign_negative(),
            _ => false,
        };
        let value = is_negative_zero.then(|| Cow::Owned(message.get_field(&field).into_owned()))?;
        Some((field, value))
    }));
    if fields.len() > before {
        fields.sort_by_key(|(field, _)| field.number());
    }
    fields
}

/// Returns the entries of a map field sorted by key, because the order of a hash map is random.
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
