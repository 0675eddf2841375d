//! A `Resource` message: what the incremental variant sends, and what a resource with a TTL comes in
//! otherwise (B08).

use alloc::vec::Vec;
use core::time::Duration;

use crate::{
    cache_control::CacheControl,
    text::ResourceName,
    wire::{encode, resource::WRAPPER},
};

/// One `Resource`, to be encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a [u8],
    pub(crate) aliases: &'a [ResourceName],
    pub(crate) ttl: Option<Duration>,
    pub(crate) cache_control: CacheControl,
    /// The resource packed in an `Any`, as the field `resource`; nothing in a heartbeat.
    pub(crate) framed: &'a [u8],
}

/// What the tags, lengths and the version of an entry take at most.
pub(crate) const HEAD: usize = 48;
/// What an `Any` around it and a TTL take at most.
pub(crate) const PACKING: usize = WRAPPER.len() + 48;

const VERSION: u32 = 1;
const NAME: u32 = 3;
const ALIASES: u32 = 4;
const TTL: u32 = 6;
const CACHE_CONTROL: u32 = 7;
/// A `CacheControl` message that sets `do_not_cache`.
const DO_NOT_CACHE: &[u8] = &[1 << 3, 1];

const ANY_TYPE_URL: u32 = 1;
const ANY_VALUE: u32 = 2;

impl<'a> Entry<'a> {
    /// One that has a name only.
    pub(crate) fn named(name: &'a ResourceName) -> Self {
        Self {
            name: name.as_str(),
            version: &[],
            aliases: &[],
            ttl: None,
            cache_control: CacheControl::MayKeep,
            framed: &[],
        }
    }

    /// Appends the message as the field `number`.
    pub(crate) fn write(&self, out: &mut Vec<u8>, number: u32) {
        encode::block_head(out, number, self.len());
        self.write_fields(out);
    }

    /// The same, packed in an `Any`.
    pub(crate) fn write_packed(&self, out: &mut Vec<u8>, number: u32) {
        let len = encode::block_len(ANY_TYPE_URL, WRAPPER.len())
            + encode::block_len(ANY_VALUE, self.len());
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
            CacheControl::MayKeep => 0,
            CacheControl::DoNotKeep => encode::block_len(CACHE_CONTROL, DO_NOT_CACHE.len()),
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
        if let CacheControl::DoNotKeep = self.cache_control {
            encode::block(out, CACHE_CONTROL, DO_NOT_CACHE);
        }
        out.extend_from_slice(self.framed);
    }
}

/// What aliases take.
pub(crate) fn aliases_len(aliases: &[ResourceName]) -> usize {
    aliases.iter().map(|alias| encode::block_len(ALIASES, alias.as_str().len())).sum()
}

/// A `google.protobuf.Duration`.
fn duration(ttl: Duration) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    encode::number(&mut out, 1, ttl.as_secs());
    encode::number(&mut out, 2, u64::from(ttl.subsec_nanos()));
    out
}
