//! Builder of documents: unwraps and names each resource, and rejects duplicates.

use core::time::Duration;
use std::collections::HashSet;

use bytes::Bytes;

use crate::encode::read_seconds;
use crate::error::{ErrorKind, Fault, Path, abbreviate};
use crate::resource::document::{
    Document, RESPONSE_NONCE, RESPONSE_TYPE_URL, RESPONSE_VERSION_INFO, Resource, WRAPPER_ALIASES,
    WRAPPER_NAME, WRAPPER_RESOURCE, WRAPPER_TTL, WRAPPER_VERSION, Wrapper, read_any,
};
use crate::resource::name::name_of;
use crate::schema::{DISCOVERY_RESPONSE, RESOURCE_WRAPPER, Schema};
use crate::wire::{Fields, Payload, WireError, last_string};

/// Builder of a document.
pub(crate) struct Collector<'s> {
    schema: &'s Schema,
    document: Document,
    seen: HashSet<(String, String)>,
    /// Type URL of the current response; empty if it has none.
    expected_type: String,
}

/// Position and path of a resource, for errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'p> {
    pub(crate) offset: Option<usize>,
    pub(crate) path: &'p Path<'p>,
}

impl Place<'_> {
    fn fault(&self, kind: ErrorKind) -> Box<Fault> {
        Fault::new(self.offset, self.path, kind)
    }
}

impl<'s> Collector<'s> {
    pub(crate) fn new(schema: &'s Schema) -> Self {
        Self {
            schema,
            document: Document::default(),
            seen: HashSet::new(),
            expected_type: String::new(),
        }
    }

    pub(crate) fn finish(self) -> Document {
        self.document
    }

    /// Starts a response, given the encoding of its fields other than `resources`.
    pub(crate) fn response(&mut self, head: &[u8], place: Place<'_>) -> Result<(), Box<Fault>> {
        let string =
            |number| last_string(head, number).map_err(|e| place.fault(corrupt_response(e)));
        let version = string(RESPONSE_VERSION_INFO)?;
        match &self.document.version_info {
            _ if version.is_empty() => {}
            None => self.document.version_info = Some(version.to_owned()),
            Some(first) if first == version => {}
            Some(first) => {
                let (first, second) = (abbreviate(first), abbreviate(version));
                return Err(place.fault(ErrorKind::VersionConflict { first, second }));
            }
        }
        self.document.nonce =
            Some(string(RESPONSE_NONCE)?.to_owned()).filter(|nonce| !nonce.is_empty());
        self.expected_type = string(RESPONSE_TYPE_URL)?.to_owned();
        let announced = Some(self.expected_type.clone()).filter(|type_url| !type_url.is_empty());
        self.document.type_url = match self.document.type_url.take() {
            first if self.document.responses == 0 || first == announced => announced,
            _ => None,
        };
        self.document.responses += 1;
        Ok(())
    }

    /// Marks the following resources as outside any response.
    pub(crate) fn no_response(&mut self) {
        self.expected_type.clear();
    }

    /// Adds one element of `resources`.
    pub(crate) fn push(
        &mut self,
        type_url: &str,
        value: Vec<u8>,
        place: Place<'_>,
    ) -> Result<(), Box<Fault>> {
        let resource = self.resource(type_url, value, place)?;
        if !self.expected_type.is_empty() && self.expected_type != resource.type_url {
            return Err(place.fault(ErrorKind::TypeMismatch {
                expected: abbreviate(&self.expected_type),
                found: abbreviate(&resource.type_url),
            }));
        }
        if !self.seen.insert((resource.type_url.clone(), resource.name.clone())) {
            return Err(place.fault(ErrorKind::DuplicateResource {
                type_url: resource.type_url,
                name: abbreviate(&resource.name),
            }));
        }
        self.document.resources.push(resource);
        Ok(())
    }

    fn resource(
        &self,
        type_url: &str,
        value: Vec<u8>,
        place: Place<'_>,
    ) -> Result<Resource, Box<Fault>> {
        if type_url.rsplit_once('/').map(|(_, name)| name) != Some(RESOURCE_WRAPPER) {
            let message = self.schema.require_url(type_url).map_err(|kind| place.fault(kind))?;
            let name =
                name_of(&message, type_url, &value).map_err(|kind| place.fault(kind))?.to_owned();
            return Ok(Resource {
                type_url: type_url.to_owned(),
                name,
                bytes: value.into(),
                wrapper: None,
            });
        }

        let parts = WrapperParts::read(&value)
            .map_err(|e| place.fault(ErrorKind::corrupt(RESOURCE_WRAPPER, e)))?;
        let Some((type_url, bytes)) = parts.resource else {
            return Err(place.fault(ErrorKind::EmptyWrapper));
        };
        let message = self.schema.require_url(type_url).map_err(|kind| place.fault(kind))?;
        let name = match parts.name {
            "" => name_of(&message, type_url, bytes).map_err(|kind| place.fault(kind))?,
            name => name,
        };
        Ok(Resource {
            type_url: type_url.to_owned(),
            name: name.to_owned(),
            bytes: Bytes::copy_from_slice(bytes),
            wrapper: Some(parts.wrapper),
        })
    }
}

fn corrupt_response(reason: WireError) -> ErrorKind {
    ErrorKind::corrupt(DISCOVERY_RESPONSE, reason)
}

#[derive(Default)]
struct WrapperParts<'b> {
    name: &'b str,
    resource: Option<(&'b str, &'b [u8])>,
    wrapper: Wrapper,
}

impl<'b> WrapperParts<'b> {
    fn read(bytes: &'b [u8]) -> Result<Self, WireError> {
        let mut parts = Self::default();
        for field in Fields::new(bytes) {
            let field = field?;
            let Payload::Len(value) = field.payload else { continue };
            let text = || core::str::from_utf8(value).unwrap_or_default();
            match field.number {
                WRAPPER_VERSION => parts.wrapper.version = text().to_owned(),
                WRAPPER_RESOURCE => parts.resource = Some(read_any(value)?),
                WRAPPER_NAME => parts.name = text(),
                WRAPPER_ALIASES => parts.wrapper.aliases.push(text().to_owned()),
                WRAPPER_TTL => {
                    let ttl = read_seconds(value);
                    // A negative TTL counts as zero.
                    let seconds = u64::try_from(ttl.seconds).unwrap_or_default();
                    let nanos = u32::try_from(ttl.nanos).unwrap_or_default();
                    parts.wrapper.ttl = Some(Duration::new(seconds, nanos.min(999_999_999)));
                }
                _ => {}
            }
        }
        Ok(parts)
    }
}
