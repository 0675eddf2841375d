//! Walk through a resource along the [schema](super::schema) that reports its references.

use super::{
    Reference, Source, Target,
    consistency::without_context,
    schema::{self, Message, Step},
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
const DEEPEST: usize = 100;

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
        if self.depth == DEEPEST {
            return Err(Malformed::Depth { limit: DEEPEST });
        }
        self.depth += 1;
        if let Some(rule) = message.rule {
            rule(self, bytes)?;
        }
        for field in Fields::of(bytes) {
            let field = field?;
            if let Some(step) = message.step(field.number) {
                self.step(step, field)?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn step(&mut self, step: Step, field: Field<'a>) -> Result<(), Malformed> {
        match step {
            Step::Into(message) => self.message(message, field.block()?),
            Step::Any => self.any(field.block()?),
            Step::Name(type_url) => {
                self.name(type_url, field.string()?, Source::Unstated);
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
    pub(super) fn name(&mut self, type_url: &'static str, name: &'a str, source: Source) {
        let collection =
            if is_xdstp(name) { without_context(name).strip_suffix("/*") } else { None };
        let target = collection.map_or(Target::Name(name), Target::Below);
        if !name.is_empty() {
            self.found(type_url, target, source);
        }
    }

    pub(super) fn found(&mut self, type_url: &'static str, target: Target<'a>, source: Source) {
        (self.found)(Reference { type_url, target, source });
    }
}
