//! Encoded resources of one response, shared by clients that lack the same changes.

use alloc::{sync::Arc, vec::Vec};
use core::{num::NonZeroU64, time::Duration};

use bytes::Bytes;

use super::resource_message::{HEAD, PACKING, ResourceMessage, aliases_len};
use crate::{
    server::store::{
        resource_options::{PLAIN, ResourceOptions},
        version::{
            content::ContentHash,
            digits::{REVISION_LEN, VersionDigits},
        },
    },
    service::Variant,
    source_version,
    text::{ResourceName, TypeUrl, Version},
    wire::{
        encode,
        request::NameForm,
        walk::{Fields, fields},
    },
};

/// Field number of a resource in both response messages and in the incremental `Resource`
/// message. One encoding serves all three because they use the same number.
const RESOURCES: u32 = 2;
const REMOVED_RESOURCES: u32 = 6;
const REMOVED_RESOURCE_NAMES: u32 = 8;

/// Bytes of a resource, stored once.
#[derive(Clone, Debug)]
pub(crate) struct Payload {
    /// Resource packed in an `Any`, encoded as the field `resources` of a `DiscoveryResponse`. A
    /// response is the concatenation of these.
    pub(crate) framed: Bytes,
    /// Resource itself, the end of `framed`.
    pub(crate) value: Bytes,
    /// Options of the resource, if there are any.
    options: Option<Arc<ResourceOptions>>,
    /// Hash of the value and the options.
    pub(crate) hash: ContentHash,
    /// Revision of the source at which the resource was changed last.
    pub(crate) source_revision: Option<NonZeroU64>,
}

const ANY_TYPE_URL: u32 = 1;
const ANY_VALUE: u32 = 2;

impl Payload {
    /// Creates a payload. `hash` is that of `value` and `options`.
    pub(crate) fn new(
        type_url: &TypeUrl,
        value: &Bytes,
        options: &ResourceOptions,
        hash: ContentHash,
    ) -> Self {
        let type_url = type_url.as_str();
        let any_len = encode::block_len(ANY_TYPE_URL, type_url.len())
            + encode::block_len(ANY_VALUE, value.len());
        let mut framed = Vec::with_capacity(encode::block_len(RESOURCES, any_len));
        encode::block_head(&mut framed, RESOURCES, any_len);
        encode::block(&mut framed, ANY_TYPE_URL, type_url.as_bytes());
        encode::block(&mut framed, ANY_VALUE, value);
        let framed = Bytes::from(framed);
        #[expect(clippy::disallowed_methods, reason = "`framed` ends with `value`")]
        let value = framed.slice(framed.len() - value.len()..);
        let options = (!options.is_plain()).then(|| Arc::new(options.clone()));
        Self { hash, framed, value, options, source_revision: None }
    }

    /// Whether this payload has this value and these options.
    pub(crate) fn is(&self, value: &Bytes, options: &ResourceOptions) -> bool {
        self.value == value && self.options() == options
    }

    /// Returns the options of the resource.
    pub(crate) fn options(&self) -> &ResourceOptions {
        self.options.as_deref().unwrap_or(&PLAIN)
    }

    /// Returns the version of the resource.
    // S0.115
    pub(crate) fn version(&self) -> Version {
        match self.own_version() {
            Some(own) => own.clone(),
            None => Version::new(self.version_digits().as_str()),
        }
    }

    /// Whether `text` is the version of the resource.
    pub(crate) fn is_version(&self, text: &str) -> bool {
        match self.own_version() {
            Some(own) => own.as_str() == text,
            None => self.hash.digits() == *source_version::split(text).1.as_bytes(),
        }
    }

    /// Returns the version of a resource without a version of the application.
    fn version_digits(&self) -> VersionDigits {
        VersionDigits::new(self.source_revision, self.hash)
    }

    /// Returns the version set by the application, if there is one.
    pub(crate) fn own_version(&self) -> Option<&Version> {
        self.options().version.as_ref()
    }

    /// Returns the TTL of the resource.
    pub(crate) fn ttl(&self) -> Option<Duration> {
        self.options().ttl
    }

    /// Returns the type URL in the encoding.
    pub(crate) fn type_url(&self) -> &[u8] {
        let any = Fields::of(&self.framed).next();
        let any = any.and_then(|field| field.ok()?.block().ok()).unwrap_or_default();
        fields(any, ANY_TYPE_URL).find_map(|field| field.block().ok()).unwrap_or_default()
    }
}

/// Encoding in which a client is sent resources. Clients with the same encoding share bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoding {
    pub(crate) variant: Variant,
    pub(crate) ttls: Ttls,
}

/// Whether a client is sent the TTLs of resources.
// M159, M160
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ttls {
    Sent,
    Omitted,
}

/// Encoded resources of one response and names of removed ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponseBody {
    pub(crate) bytes: Bytes,
    pub(crate) resources: usize,
    pub(crate) removed: usize,
}

impl ResponseBody {
    pub(crate) fn is_empty(&self) -> bool {
        self.resources + self.removed == 0
    }
}

/// Builder of a response body.
#[derive(Debug)]
pub(crate) struct BodyBuilder {
    encoding: Encoding,
    /// First resource, while it is the only one, to avoid copying it.
    only: Option<Bytes>,
    bytes: Vec<u8>,
    resources: usize,
    removed: usize,
    limit: usize,
    /// Size of the other contents of the response, in bytes.
    reserved: usize,
}

/// Whether an item fitted into a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FitResult {
    Added,
    Full,
}

impl BodyBuilder {
    /// Returns a builder for at most `limit` bytes. One resource, name or error always fits, so a
    /// longer one is sent alone.
    pub(crate) fn new(encoding: Encoding, limit: usize) -> Self {
        let (only, bytes) = (None, Vec::new());
        Self { encoding, only, bytes, resources: 0, removed: 0, limit, reserved: 0 }
    }

    /// Returns a builder without limit and with a capacity of `bytes`.
    pub(crate) fn with_capacity(encoding: Encoding, bytes: usize) -> Self {
        let mut parts = Self::new(encoding, usize::MAX);
        parts.bytes.reserve_exact(bytes);
        parts
    }

    /// Returns a builder with the contents of a state-of-the-world body and room for `more`
    /// bytes.
    pub(crate) fn from_body(body: &ResponseBody, ttls: Ttls, more: usize) -> Self {
        let encoding = Encoding { variant: Variant::StateOfTheWorld, ttls };
        let mut parts = Self::with_capacity(encoding, body.bytes.len().saturating_add(more));
        parts.bytes.extend_from_slice(&body.bytes);
        parts.resources = body.resources;
        parts
    }

    /// Adds a resource, if it fits.
    pub(crate) fn push(&mut self, name: &ResourceName, payload: &Payload) -> FitResult {
        let ttl = payload.ttl().filter(|_| self.encoding.ttls == Ttls::Sent);
        if self.encoding.variant == Variant::Incremental || ttl.is_some() {
            let aliases = match self.encoding.variant {
                Variant::Incremental => &*payload.options().aliases,
                Variant::StateOfTheWorld => &[],
            };
            let (digits, own) = (payload.version_digits(), payload.own_version());
            return self.push_entry(ResourceMessage {
                name: name.as_str(),
                version: own.map_or(digits.as_bytes(), |own| own.as_str().as_bytes()),
                aliases,
                ttl,
                cache_control: payload.options().cache_control,
                framed: &payload.framed,
            });
        }
        if !self.has_room(payload.framed.len()) {
            return FitResult::Full;
        }
        self.resources += 1;
        if self.is_blank() {
            self.only = Some(payload.framed.clone());
        } else {
            self.buffer().extend_from_slice(&payload.framed);
        }
        FitResult::Added
    }

    /// Adds a heartbeat, that is, a resource without content. Aliases are omitted, because
    /// without content they would state that they refer to no resource.
    // M161, M162
    pub(crate) fn push_heartbeat(&mut self, name: &ResourceName, payload: &Payload) -> FitResult {
        let (digits, own) = (payload.version_digits(), payload.own_version());
        let version = own.map_or(digits.as_bytes(), |own| own.as_str().as_bytes());
        self.push_entry(ResourceMessage {
            version,
            ttl: payload.ttl(),
            ..ResourceMessage::named(name)
        })
    }

    fn push_entry(&mut self, entry: ResourceMessage<'_>) -> FitResult {
        let packing = if entry.ttl.is_some() { PACKING } else { 0 };
        let len = entry.name.len() + HEAD + entry.version.len();
        let len = len + entry.framed.len() + aliases_len(entry.aliases);
        if !self.has_room(len + packing) {
            return FitResult::Full;
        }
        self.resources += 1;
        match self.encoding.variant {
            // A bare `Resource` is valid only in incremental responses.
            Variant::StateOfTheWorld => entry.write_packed(self.buffer(), RESOURCES),
            Variant::Incremental => entry.write(self.buffer(), RESOURCES),
        }
        FitResult::Added
    }

    /// Adds the name of a resource that was removed or does not exist, if it fits.
    pub(crate) fn remove(&mut self, name: &ResourceName, name_form: NameForm) -> FitResult {
        const NAME: u32 = 1;

        let name = name.as_str().as_bytes();
        let (number, len) = match name_form {
            NameForm::Names => (REMOVED_RESOURCES, name.len()),
            NameForm::Locators => (REMOVED_RESOURCE_NAMES, encode::block_len(NAME, name.len())),
        };
        if !self.has_room(encode::block_len(number, len)) {
            return FitResult::Full;
        }
        self.removed += 1;
        let bytes = self.buffer();
        match name_form {
            NameForm::Names => encode::block(bytes, number, name),
            NameForm::Locators => {
                encode::block_head(bytes, number, len);
                encode::block(bytes, NAME, name);
            }
        }
        FitResult::Added
    }

    /// Adds a resource with only a name, which states that it does not exist, if it fits.
    // X05
    pub(crate) fn push_absence(&mut self, name: &ResourceName) -> FitResult {
        if !self.has_room(name.as_str().len() + HEAD) {
            return FitResult::Full;
        }
        self.removed += 1;
        ResourceMessage::named(name).write(self.buffer(), RESOURCES);
        FitResult::Added
    }

    /// Reserves space for contents in another part of the response.
    pub(crate) fn reserve(&mut self, more: usize) -> FitResult {
        if !self.has_room(more) {
            return FitResult::Full;
        }
        self.reserved += more;
        FitResult::Added
    }

    pub(crate) fn into_body(self) -> ResponseBody {
        let bytes = self.only.unwrap_or_else(|| self.bytes.into());
        ResponseBody { bytes, resources: self.resources, removed: self.removed }
    }

    /// Returns the size limit in bytes. A single item may exceed it.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    fn has_room(&self, more: usize) -> bool {
        let used = self.only.as_ref().map_or(self.bytes.len(), Bytes::len) + self.reserved;
        used == 0 || used.saturating_add(more) <= self.limit
    }

    fn is_blank(&self) -> bool {
        self.only.is_none() && self.bytes.is_empty() && self.bytes.capacity() == 0
    }

    fn buffer(&mut self) -> &mut Vec<u8> {
        if let Some(only) = self.only.take() {
            self.bytes.extend_from_slice(&only);
        }
        &mut self.bytes
    }
}

/// Maximum size of a resource in an incremental response without a TTL, in bytes.
pub(crate) fn entry_len(name: &ResourceName, payload: &Payload) -> usize {
    let version = payload.own_version().map_or(0, |version| version.as_str().len());
    let version = version + payload.source_revision.map_or(0, |_| REVISION_LEN);
    let aliases = aliases_len(&payload.options().aliases);
    name.as_str().len() + HEAD + version + payload.framed.len() + aliases
}
