//! Files read as messages of any type, without the requirements on resources.

use bytes::Bytes;

use super::{Result, text, utf8};
use crate::encode::{Dialect, Encoder, Location, TYPE_KEY};
use crate::error::{ErrorKind, Fault, FormatError, Path};
use crate::format::Format;
use crate::options::ParseOptions;
use crate::parse::shapes::is_response;
use crate::resource::check;
use crate::resource::document::{RESPONSE_RESOURCES, RESPONSE_TYPE_URL, any, put_string};
use crate::schema::{DISCOVERY_RESPONSE, Schema};
use crate::tree::{Node, Value, json, member, text as text_tree, yaml};
use crate::wire;

/// Prefix of the type URL of a message whose type is known by its full name.
const TYPE_URL_PREFIX: &str = "type.googleapis.com";

/// A message with its type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypedMessage {
    /// Type URL. With the prefix `type.googleapis.com` if the file does not state one.
    pub type_url: String,
    /// Encoded message.
    pub bytes: Bytes,
}

impl TypedMessage {
    fn new(full_name: &str, bytes: Vec<u8>) -> Self {
        Self { type_url: format!("{TYPE_URL_PREFIX}/{full_name}"), bytes: bytes.into() }
    }

    /// Packs messages into the `resources` of one `DiscoveryResponse`. Its `type_url` is set if all
    /// of them have the same type.
    #[must_use]
    pub fn response_of(messages: &[Self]) -> Self {
        let mut out = Vec::new();
        for message in messages {
            let any = any(&message.type_url, &message.bytes);
            wire::put_len(&mut out, RESPONSE_RESOURCES, &any);
        }
        if let [first, others @ ..] = messages
            && others.iter().all(|it| it.type_url == first.type_url)
        {
            put_string(&mut out, RESPONSE_TYPE_URL, &first.type_url);
        }
        Self::new(DISCOVERY_RESPONSE, out)
    }
}

/// Reads the messages of a file, in file order.
///
/// [`parse_with`](crate::parse_with) reads the same files as resources. This function keeps every
/// field of a response, and reads messages that are not resources. It requires no names, and the
/// same message may occur twice.
///
/// `untyped` is the full name of the message type that is used where the input states none:
///
/// - JSON and YAML: objects without `@type`. If `untyped` is `None`, such objects must be responses
///   (an object with `resources`). Each element of a list, and each document of YAML, is one
///   message.
/// - Proto text without a header. Default: `DiscoveryResponse`.
/// - Binary input. Default: `DiscoveryResponse`.
///
/// # Errors
///
/// Returns the errors of [`parse`](crate::parse()) that concern a single message, and
/// [`ErrorKind::UnknownType`] if the schema lacks `untyped`.
pub fn parse_messages(
    schema: &Schema,
    source_name: &str,
    untyped: Option<&str>,
    format: Format,
    input: &[u8],
    options: ParseOptions,
) -> Result<Vec<TypedMessage>, FormatError> {
    if format == Format::Binary {
        let message = binary(schema, untyped, input).map_err(|it| it.in_source(source_name, None));
        return Ok(vec![message?]);
    }
    let text = utf8(source_name, input)?;
    let read = || {
        let (dialect, nodes) = match format {
            Format::Json => (Dialect::Json, vec![json::parse(text, options.leniency)?]),
            Format::Yaml => (Dialect::Yaml, yaml::parse(text, options.leniency)?),
            _ => return Ok(vec![proto_text(schema, untyped, text)?]),
        };
        let reader =
            MessageReader { encoder: Encoder { schema, dialect, options, faults: None }, untyped };
        reader.documents(&nodes)
    };
    read().map_err(|fault: Box<Fault>| fault.in_source(source_name, Some(text)))
}

fn binary(schema: &Schema, untyped: Option<&str>, input: &[u8]) -> Result<TypedMessage> {
    if input.is_empty() && untyped.is_none() {
        return Err(Fault::new(None, &Path::Root, ErrorKind::Empty));
    }
    let full_name = untyped.unwrap_or(DISCOVERY_RESPONSE);
    let message = schema.require(full_name).map_err(|kind| Fault::new(None, &Path::Root, kind))?;
    check::message(schema, &message, input, &Path::Root)?;
    Ok(TypedMessage::new(full_name, input.to_vec()))
}

fn proto_text(schema: &Schema, untyped: Option<&str>, text: &str) -> Result<TypedMessage> {
    let node = text_tree::parse(text)?;
    let header = text::header(text);
    if header.is_none() && untyped.is_none() && node.value == Value::Object(Vec::new()) {
        return Err(Fault::new(None, &Path::Root, ErrorKind::Empty));
    }
    let message = match header {
        Some(name) => text::message_of_header(schema, text, name)?,
        None => schema
            .require(untyped.unwrap_or(DISCOVERY_RESPONSE))
            .map_err(|kind| Fault::new(None, &Path::Root, kind))?,
    };
    if header.is_none() && untyped.is_none() {
        text::check_headerless(&message, &node.value)?;
    }
    let mut bytes = Vec::new();
    let encoder =
        Encoder { schema, dialect: Dialect::Text, options: ParseOptions::default(), faults: None };
    encoder.message(&message, &node, Location::top(&Path::Root), &mut bytes)?;
    // An `Any` may be given as bytes, which the encoder does not check.
    check::message(schema, &message, &bytes, &Path::Root)?;
    Ok(TypedMessage::new(message.full_name(), bytes))
}

/// MessageReader of JSON and YAML.
struct MessageReader<'s> {
    encoder: Encoder<'s>,
    untyped: Option<&'s str>,
}

impl MessageReader<'_> {
    fn documents(&self, nodes: &[Node<'_>]) -> Result<Vec<TypedMessage>> {
        // Empty YAML documents (before the first `---`, between two, after the last) are null.
        let mut documents = nodes.iter().filter(|node| node.value != Value::Null).peekable();
        if documents.peek().is_none() {
            return Err(Fault::new(None, &Path::Root, ErrorKind::Empty));
        }
        let mut messages = Vec::new();
        for node in documents {
            match &node.value {
                Value::List(elements) => {
                    for (index, element) in elements.iter().enumerate() {
                        messages.push(self.message(element, &Path::Index(&Path::Root, index))?);
                    }
                }
                _ => messages.push(self.message(node, &Path::Root)?),
            }
        }
        Ok(messages)
    }

    fn message(&self, node: &Node<'_>, path: &Path<'_>) -> Result<TypedMessage> {
        let at = Location::top(path);
        let members = match &node.value {
            Value::Object(members) => members.as_slice(),
            _ => &[],
        };
        let full_name = match self.untyped {
            _ if member(members, TYPE_KEY).is_some() => {
                let read = self.encoder.typed_object(node, at)?;
                let type_url = read.type_url.to_owned();
                return Ok(TypedMessage { type_url, bytes: read.value.into() });
            }
            Some(full_name) => full_name,
            None if is_response(members) => DISCOVERY_RESPONSE,
            None => {
                let found = match &node.value {
                    Value::Object(_) => "an object with neither".to_owned(),
                    other => other.kind().to_owned(),
                };
                return Err(Fault::new(node.offset, path, ErrorKind::UnexpectedShape { found }));
            }
        };
        let message = self
            .encoder
            .schema
            .require(full_name)
            .map_err(|kind| Fault::new(node.offset, path, kind))?;
        let mut bytes = Vec::new();
        self.encoder.message(&message, node, at, &mut bytes)?;
        Ok(TypedMessage::new(full_name, bytes))
    }
}
