//! Proto text files: a `DiscoveryResponse`, or the message type that a header comment states.

use prost_reflect::{FieldDescriptor, MessageDescriptor};

use super::collector::{Collector, Place};
use super::{Result, binary};

use crate::encode::{Dialect, Encoder, Location};
use crate::error::{ErrorKind, Fault, Path, abbreviate};
use crate::faults::Faults;
use crate::options::ParseOptions;
use crate::resource::check;
use crate::schema::{DISCOVERY_RESPONSE, Schema};
use crate::suggest::nearest;
use crate::tree::{Value, text as text_tree};

/// Header by which editors and linters of proto text recognise the message type.
const HEADER: &str = "proto-message:";
/// Prefix of the type URL for a message type from a header.
const TYPE_URL_PREFIX: &str = "type.googleapis.com";

/// Parses a file.
pub(crate) fn document(
    schema: &Schema,
    text: &str,
    faults: Option<&Faults>,
    collector: &mut Collector<'_>,
) -> Result<()> {
    let node = text_tree::parse(text)?;
    let header = header(text);
    if header.is_none() && node.value == Value::Object(Vec::new()) {
        return Err(Fault::new(None, &Path::Root, ErrorKind::Empty));
    }
    let full_name = header.unwrap_or(DISCOVERY_RESPONSE);
    let message = message_of_header(schema, text, full_name)?;
    if header.is_none() {
        check_headerless(&message, &node.value)?;
    }
    let mut bytes = Vec::new();
    let options = ParseOptions::default();
    let encoder = Encoder { schema, dialect: Dialect::Text, options, faults };
    encoder.message(&message, &node, Location::top(&Path::Root), &mut bytes)?;
    if encoder.fault_count() > 0 {
        return Ok(());
    }
    if full_name == DISCOVERY_RESPONSE {
        return binary::response(schema, &bytes, &resource_offsets(&node.value), collector);
    }
    // An `Any` may be given as bytes, which the encoder does not check.
    check::message(schema, &message, &bytes, &Path::Root)?;
    let type_url = format!("{TYPE_URL_PREFIX}/{full_name}");
    collector.push(&type_url, bytes, Place { offset: Some(0), path: &Path::Root })
}

/// Returns the byte offsets of the elements of `resources`.
fn resource_offsets(response: &Value<'_>) -> Vec<usize> {
    let Value::Object(members) = response else { return Vec::new() };
    let mut offsets = Vec::new();
    for member in members.iter().filter(|member| member.name == "resources") {
        match &member.value.value {
            Value::List(elements) => offsets.extend(elements.iter().map(|element| element.offset)),
            _ => offsets.push(member.offset),
        }
    }
    offsets
}

/// Rejects a file without a header that has only fields of another message.
pub(crate) fn check_headerless(message: &MessageDescriptor, value: &Value<'_>) -> Result<()> {
    let Value::Object(members) = value else { return Ok(()) };
    let fields: Vec<_> = message.fields().collect();
    let resembles = |name: &str| nearest(name, fields.iter().map(FieldDescriptor::name)).is_some();
    match members.first() {
        Some(first) if !members.iter().any(|member| resembles(&member.name)) => {
            let (field, message) = (abbreviate(&first.name), message.full_name().to_owned());
            let kind = ErrorKind::MissingHeader { field, message };
            Err(Fault::new(first.offset, &Path::Root, kind))
        }
        _ => Ok(()),
    }
}

/// Returns the message of the name in a header.
pub(crate) fn message_of_header(
    schema: &Schema,
    text: &str,
    full_name: &str,
) -> Result<MessageDescriptor> {
    schema.message(full_name).ok_or_else(|| {
        let suggestion = schema.suggestion(full_name);
        let kind = ErrorKind::UnknownHeader { name: abbreviate(full_name), suggestion };
        Fault::new(text.find(HEADER), &Path::Root, kind)
    })
}

/// Returns the message type stated in the comments before the first field.
pub(crate) fn header(text: &str) -> Option<&str> {
    text.lines()
        .map(str::trim)
        .take_while(|line| line.is_empty() || line.starts_with('#'))
        .find_map(|line| line.trim_start_matches('#').trim().strip_prefix(HEADER))
        .map(str::trim)
}
