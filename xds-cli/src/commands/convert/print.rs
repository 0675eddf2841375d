//! Output of a conversion.

use serde_json::{Value as Json, json};
use xds_core::types;
use xds_format::{
    Format, FormatError, PrintOptions, Redaction, TypedMessage, UnknownTypes, json_to_yaml,
    message_to_json, resource_name, to_json, to_text, unknown_fields,
};

use crate::{
    failure::Failure,
    json_diff::differences,
    schema::schema,
    text::{escaped, type_name},
};

const RESPONSE: &str = "envoy.service.discovery.v3.DiscoveryResponse";
const WRAPPER: &str = "envoy.service.discovery.v3.Resource";

pub(super) struct Printer<'a> {
    /// Name of the input for errors.
    pub(super) source: &'a str,
    /// Full name of the type of messages that state none.
    pub(super) untyped: Option<&'a str>,
    pub(super) to: Format,
}

/// Output, and the messages that it consists of.
#[derive(Debug)]
pub(super) struct Printed {
    pub(super) content: Vec<u8>,
    pub(super) messages: Vec<TypedMessage>,
}

impl Printer<'_> {
    pub(super) fn print(&self, messages: Vec<TypedMessage>) -> Result<Printed, Failure> {
        if self.to != Format::Binary {
            self.refuse_unknown_fields(&messages)?;
        }
        match self.to {
            Format::Yaml => {
                let documents =
                    self.values(&messages)?.iter().map(json_to_yaml).collect::<Vec<_>>();
                let content = match documents.is_empty() {
                    true => "[]\n".to_owned(),
                    false => documents.join("---\n"),
                };
                Ok(Printed { content: content.into(), messages })
            }
            Format::Json => {
                if messages.len() > 1 && messages.iter().any(is_response) {
                    return Err(self.failure(&format!(
                        "JSON has no form for {} messages of which one is a DiscoveryResponse: use \
                         --to yaml",
                        messages.len()
                    )));
                }
                let mut values = self.values(&messages)?;
                let value = match values.len() {
                    1 => values.remove(0),
                    _ => Json::Array(values),
                };
                Ok(Printed { content: format!("{value:#}\n").into(), messages })
            }
            Format::Text => {
                let message = match &messages[..] {
                    [one] if has_header(one) => one.clone(),
                    _ => self.packed(&messages)?,
                };
                let text = to_text(schema(), &message.type_url, &message.bytes, &for_programs())
                    .map_err(|why| self.cannot(&message, &why))?;
                Ok(Printed { content: text.into(), messages: vec![message] })
            }
            _ => {
                let message = match (&messages[..], self.untyped) {
                    ([one], Some(name)) if full_name(one) == name => one.clone(),
                    (_, Some(name)) => {
                        return Err(self.failure(&format!(
                            "binary output with --type has one message of type {name}; the input \
                             has {}",
                            listed(&messages)
                        )));
                    }
                    ([one], None) if is_response(one) => one.clone(),
                    _ => self.packed(&messages)?,
                };
                if message.bytes.is_empty() && self.untyped.is_none() {
                    return Err(self.failure(
                        "a response without any field is an empty binary file, which no reader \
                         accepts",
                    ));
                }
                Ok(Printed { content: message.bytes.to_vec(), messages: vec![message] })
            }
        }
    }

    /// Packs resources into one response, for formats that hold one message.
    fn packed(&self, messages: &[TypedMessage]) -> Result<TypedMessage, Failure> {
        let to = self.to;
        let is_resource = |message: &TypedMessage| {
            full_name(message) == WRAPPER
                || resource_name(schema(), &message.type_url, &message.bytes).is_ok()
        };
        match messages.iter().find(|&message| is_response(message) || !is_resource(message)) {
            None => Ok(TypedMessage::response_of(messages)),
            Some(other) if messages.len() > 1 => Err(self.failure(&format!(
                "{to} holds one message or a list of resources; the input has {} messages, among \
                 them a {}: convert them one by one, or use --to yaml",
                messages.len(),
                full_name(other)
            ))),
            Some(other) => {
                let name = full_name(other);
                Err(self.failure(&format!(
                    "{to} holds a DiscoveryResponse, and a {name} is neither one nor a resource: \
                     use --type {name} to write the message alone"
                )))
            }
        }
    }

    /// Returns the JSON of each message, with `@type` unless readers know the type.
    fn values(&self, messages: &[TypedMessage]) -> Result<Vec<Json>, Failure> {
        let value = |message: &TypedMessage| {
            let name = full_name(message);
            let is_untyped = self.untyped == Some(&*name) && !is_discovered(message);
            let printed = match is_response(message) || is_untyped {
                true => message_to_json(schema(), &name, &message.bytes, &for_programs()),
                false => to_json(schema(), &message.type_url, &message.bytes, &for_programs()),
            };
            let mut value = printed.map_err(|why| self.cannot(message, &why))?;
            // Readers recognise a response by this key.
            if is_response(message) && value.get("resources").is_none() {
                value["resources"] = json!([]);
            }
            Ok(value)
        };
        messages.iter().map(value).collect()
    }

    fn refuse_unknown_fields(&self, messages: &[TypedMessage]) -> Result<(), Failure> {
        for message in messages {
            let found = unknown_fields(schema(), &message.type_url, &message.bytes);
            if let Some(why) = found.map_err(|why| self.cannot(message, &why))?.first() {
                let hint = "; --descriptors FILE adds types, and --to binary keeps the bytes";
                return Err(Failure::Convert(format!("{}{hint}", self.at(message, why))));
            }
        }
        Ok(())
    }

    fn cannot(&self, message: &TypedMessage, why: &FormatError) -> Failure {
        Failure::Convert(self.at(message, why))
    }

    fn at(&self, message: &TypedMessage, why: &FormatError) -> String {
        let type_name = match is_response(message) {
            true => "DiscoveryResponse",
            false => type_name(&message.type_url),
        };
        let name = resource_name(schema(), &message.type_url, &message.bytes);
        let name = name.map(|name| format!(" `{}`", escaped(&name))).unwrap_or_default();
        format!("{}: {}{name}: {why}", self.source, escaped(type_name))
    }

    fn failure(&self, why: &str) -> Failure {
        Failure::Convert(format!("{}: {why}", self.source))
    }
}

/// Options for output that is read back: secrets are shown, and every part has a form.
fn for_programs() -> PrintOptions {
    let options = PrintOptions::default().with_redaction(Redaction::Shown);
    options.with_unknown_types(UnknownTypes::Refused)
}

fn full_name(message: &TypedMessage) -> String {
    let known = schema().message_of(&message.type_url);
    known.map_or_else(|| message.type_url.clone(), |it| it.full_name().to_owned())
}

fn is_response(message: &TypedMessage) -> bool {
    full_name(message) == RESPONSE
}

/// Whether the type is one of a discovery service, whose resources are written with `@type`.
fn is_discovered(message: &TypedMessage) -> bool {
    types::short_name(&message.type_url).is_some()
}

/// Whether the header of a text file expresses the type URL.
fn has_header(message: &TypedMessage) -> bool {
    message.type_url.strip_prefix("type.googleapis.com/") == Some(&*full_name(message))
}

fn listed(messages: &[TypedMessage]) -> String {
    match messages {
        [] => "no message".to_owned(),
        [one] => format!("a {}", full_name(one)),
        several => format!("{} messages", several.len()),
    }
}

/// Returns the path of the first field that differs between two lists of messages.
pub(super) fn first_difference(
    before: &[TypedMessage],
    after: &[TypedMessage],
) -> Result<Option<String>, Failure> {
    let value = |messages: &[TypedMessage]| {
        let all = messages.iter().map(|it| {
            let options = PrintOptions::default().with_redaction(Redaction::Shown);
            to_json(schema(), &it.type_url, &it.bytes, &options)
        });
        let all: Result<Vec<_>, _> = all.collect();
        all.map(Json::Array).map_err(|why| Failure::Convert(why.to_string()))
    };
    let (before, after) = (value(before)?, value(after)?);
    Ok(differences(&before, &after).into_iter().next().map(|it| it.path))
}
