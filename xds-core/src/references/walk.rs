//! Walk through a resource along the [schema](super::schema) that reports its references.

use super::{
    ConfigSource, Reference, ReferenceTarget,
    consistency::without_context,
    schema::{self, FieldContent, Message},
};
use crate::{
    wire::{
        Malformed,
        resource::RawResource,
        walk::{Field, Fields},
    },
    xdstp::is_xdstp,
};

/// Maximum nesting depth of messages, including the resource. Other decoders have the same limit,
/// but count anew in each `Any`.
const MAX_DEPTH: usize = 100;

/// State of a walk through one resource.
pub(super) struct Walk<'a, 'f> {
    found: &'f mut dyn FnMut(Reference<'a>),
    depth: usize,
}

impl<'a, 'f> Walk<'a, 'f> {
    pub(super) fn new(found: &'f mut dyn FnMut(Reference<'a>)) -> Self {
        Self { found, depth: 0 }
    }

    /// Walks through a resource of this type; an unknown type is ignored.
    pub(super) fn resource(&mut self, type_url: &str, resource: &'a [u8]) -> Result<(), Malformed> {
        match schema::by_type_url(type_url.as_bytes()) {
            Some(message) => self.message(message, resource),
            None => Ok(()),
        }
    }

    pub(super) fn message(
        &mut self,
        message: &'static Message,
        bytes: &'a [u8],
    ) -> Result<(), Malformed> {
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
        match schema::by_type_url(any.type_url) {
            Some(message) => self.message(message, any.value),
            None => Ok(()),
        }
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
