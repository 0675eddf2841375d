//! Encoding of `Resource` messages, used by the incremental variant and as wrappers of resources
//! with a TTL in the state-of-the-world variant.
// B08

use alloc::vec::Vec;
use core::time::Duration;

use crate::{
    cache_control::CacheControl,
    text::ResourceName,
    wire::{encode, resource::WRAPPER},
};

/// `Resource` message to be encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceMessage<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a [u8],
    pub(crate) aliases: &'a [ResourceName],
    pub(crate) ttl: Option<Duration>,
    pub(crate) cache_control: CacheControl,
    /// Resource packed in an `Any`, encoded as the field `resource`. Empty in a heartbeat.
    pub(crate) framed: &'a [u8],
}

/// Maximum size of an entry's tags, lengths and version, in bytes.
pub(crate) const HEAD: usize = 48;
/// Maximum size of an enclosing `Any` and a TTL, in bytes.
pub(crate) const PACKING: usize = WRAPPER.len() + 48;

const VERSION: u32 = 1;
const NAME: u32 = 3;
const ALIASES: u32 = 4;
const TTL: u32 = 6;
const CACHE_CONTROL: u32 = 7;
/// Encoded `CacheControl` message that sets `do_not_cache`.
const DO_NOT_CACHE: &[u8] = &[1 << 3, 1];

const ANY_TYPE_URL: u32 = 1;
const ANY_VALUE: u32 = 2;

impl<'a> ResourceMessage<'a> {
    /// Returns an entry with only a name.
    pub(crate) fn named(name: &'a ResourceName) -> Self {
        Self {
            name: name.as_str(),
            version: &[],
            aliases: &[],
            ttl: None,
            cache_control: CacheControl::Cacheable,
            framed: &[],
        }
    }

    /// Appends the message as the field `number`.
    pub(crate) fn write(&self, out: &mut Vec<u8>, number: u32) {
        let len = self.len();
        out.reserve(encode::block_len(number, len));
        encode::block_head(out, number, len);
        self.write_fields(out);
    }

    /// Appends the message, packed in an `Any`, as the field `number`.
    pub(crate) fn write_packed(&self, out: &mut Vec<u8>, number: u32) {
        let len = encode::block_len(ANY_TYPE_URL, WRAPPER.len())
            + encode::block_len(ANY_VALUE, self.len());
        out.reserve(encode::block_len(number, len));
        encode::block_head(out, number, len);
        encode::block(out, ANY_TYPE_URL, WRAPPER.as_bytes());
        encode::block_head(out, ANY_VALUE, self.len());
        self.write_fields(out);
    }

    fn len(&self) -> usize {
        let ttl = self.ttl.map_or(0, |ttl| encode::block_len(TTL, duration(ttl).len()));
        let version = match self.version {
            [] => 0,
            version => encode::block_len(VERSION, version.len()),
        };
        let name = encode::block_len(NAME, self.name.len());
        let cache_control = match self.cache_control {
            CacheControl::Cacheable => 0,
            CacheControl::DoNotCache => encode::block_len(CACHE_CONTROL, DO_NOT_CACHE.len()),
        };
        name + version + aliases_len(self.aliases) + ttl + cache_control + self.framed.len()
    }

    fn write_fields(&self, out: &mut Vec<u8>) {
        encode::block(out, NAME, self.name.as_bytes());
        if !self.version.is_empty() {
            encode::block(out, VERSION, self.version);
        }
        for alias in self.aliases {
            encode::block(out, ALIASES, alias.as_str().as_bytes());
        }
        if let Some(ttl) = self.ttl {
            encode::block(out, TTL, &duration(ttl));
        }
        if let CacheControl::DoNotCache = self.cache_control {
            encode::block(out, CACHE_CONTROL, DO_NOT_CACHE);
        }
        out.extend_from_slice(self.framed);
    }
}

/// Encoded size of the aliases, in bytes.
pub(crate) fn aliases_len(aliases: &[ResourceName]) -> usize {
    aliases.iter().map(|alias| encode::block_len(ALIASES, alias.as_str().len())).sum()
}

/// Encodes a `google.protobuf.Duration`.
fn duration(ttl: Duration) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    encode::number(&mut out, 1, ttl.as_secs());
    encode::number(&mut out, 2, u64::from(ttl.subsec_nanos()));
    out
}
