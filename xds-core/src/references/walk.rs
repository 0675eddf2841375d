//! Goes through a resource along the [schema](super::schema) and tells what it finds.

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

/// How deep messages may lie in one another, the resource itself included: what other decoders take,
/// though they begin anew at each `Any`.
const DEEPEST: usize = 100;

/// One walk through one resource.
pub(super) struct Walk<'a, 'f> {
    found: &'f mut dyn FnMut(Reference<'a>),
    depth: usize,
}

impl<'a, 'f> Walk<'a, 'f> {
    pub(super) fn new(found: &'f mut dyn FnMut(Reference<'a>)) -> Self {
        Self { found, depth: 0 }
    }

    /// A resource of this type; unless that is known, nothing is looked at.
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

    /// A name that stands in the resource. An empty one is none; that of a collection stands for its
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
