//! Walk through a resource that reports its references.
//!
//! The [schema](super::schema) describes the messages, and its [rules](super::sources) call the walk.

use super::reference::{ConfigSource, Reference, ReferenceTarget};
use crate::{
    wire::{
        Malformed,
        resource::RawResource,
        walk::{Field, Fields},
    },
    xdstp::{is_xdstp, without_context},
};

/// Message with the fields that lead to references.
pub(super) struct Message {
    /// Full name of the message.
    name: &'static str,
    fields: &'static [(u32, FieldContent)],
    /// Rule for references that depend on several fields.
    rule: Option<Rule>,
}

/// Content of a field.
#[derive(Clone, Copy)]
pub(super) enum FieldContent {
    Nested(&'static Message),
    /// Any message (`google.protobuf.Any`).
    Any,
    /// Name of a resource of this type.
    Name(&'static str),
}

pub(super) type Rule = for<'a> fn(&mut Walk<'a, '_>, &'a [u8]) -> Result<(), Malformed>;

impl Message {
    pub(super) const fn new(name: &'static str, fields: &'static [(u32, FieldContent)]) -> Self {
        Self { name, fields, rule: None }
    }

    pub(super) const fn with_rule(self, rule: Rule) -> Self {
        Self { rule: Some(rule), ..self }
    }

    fn content(&self, field: u32) -> Option<FieldContent> {
        self.fields.iter().find(|&&(number, _)| number == field).map(|&(_, content)| content)
    }
}

/// Maximum nesting depth of messages, including the resource. Other decoders have the same limit,
/// but count anew in each `Any`.
const MAX_DEPTH: usize = 100;

/// State of a walk through one resource.
pub(super) struct Walk<'a, 'f> {
    /// Messages that may be a resource or the content of an `Any`.
    known: &'static [&'static Message],
    found: &'f mut dyn FnMut(Reference<'a>),
    depth: usize,
}

impl<'a, 'f> Walk<'a, 'f> {
    pub(super) fn new(
        known: &'static [&'static Message],
        found: &'f mut dyn FnMut(Reference<'a>),
    ) -> Self {
        Self { known, found, depth: 0 }
    }

    /// Walks through a message of this type; an unknown type is ignored.
    pub(super) fn resource(&mut self, type_url: &str, resource: &'a [u8]) -> Result<(), Malformed> {
        match self.known_message(type_url.as_bytes()) {
            Some(message) => self.message(message, resource),
            None => Ok(()),
        }
    }

    fn message(&mut self, message: &'static Message, bytes: &'a [u8]) -> Result<(), Malformed> {
        if self.depth == MAX_DEPTH {
            return Err(Malformed::Depth { limit: MAX_DEPTH });
        }
        self.depth += 1;
        if let Some(rule) = message.rule {
            rule(self, bytes)?;
        }
        for field in Fields::of(bytes) {
            let field = field?;
            if let Some(content) = message.content(field.number) {
                self.follow(content, field)?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn follow(&mut self, content: FieldContent, field: Field<'a>) -> Result<(), Malformed> {
        match content {
            FieldContent::Nested(message) => self.message(message, field.block()?),
            FieldContent::Any => self.any(field.block()?),
            FieldContent::Name(type_url) => {
                self.name(type_url, field.string()?, ConfigSource::Unspecified);
                Ok(())
            }
        }
    }

    pub(super) fn any(&mut self, any: &'a [u8]) -> Result<(), Malformed> {
        let any = RawResource::parse(any)?;
        match self.known_message(any.type_url) {
            Some(message) => self.message(message, any.value),
            None => Ok(()),
        }
    }

    fn known_message(&self, type_url: &[u8]) -> Option<&'static Message> {
        let name = type_url.rsplit(|&byte| byte == b'/').next()?;
        self.known.iter().find(|message| message.name.as_bytes() == name).copied()
    }

    /// Reports a name. An empty name is ignored, and the name of a collection refers to its
    /// members.
    pub(super) fn name(&mut self, type_url: &'static str, name: &'a str, source: ConfigSource) {
        let collection =
            if is_xdstp(name) { without_context(name).strip_suffix("/*") } else { None };
        let target = collection.map_or(ReferenceTarget::Name(name), ReferenceTarget::Prefix);
        if !name.is_empty() {
            self.found(type_url, target, source);
        }
    }

    pub(super) fn found(
        &mut self,
        type_url: &'static str,
        target: ReferenceTarget<'a>,
        source: ConfigSource,
    ) {
        (self.found)(Reference { type_url, target, source });
    }
}
