//! Reader of `Resource`, which incremental responses contain, and which may wrap an `Any` in
//! state-of-the-world responses.
// B08

use core::time::Duration;

use thiserror::Error;

use super::walk::{Fields, Malformed, fields, string_field};
use crate::cache_control::CacheControl;

/// Type URL of an `Any` that contains a [`ResourceWrapper`] resource.
pub(crate) const WRAPPER: &str = "type.googleapis.com/envoy.service.discovery.v3.Resource";
/// Type URL of the wrapper in version 2 of the API.
const V2_WRAPPER: &str = "type.googleapis.com/envoy.api.v2.Resource";

/// Content of an `Any`: type and bytes of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawResource<'a> {
    pub(crate) type_url: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// `Resource` message that was read once.
///
/// Its `Any` and its TTL are validated separately, so that an error in them is attributed to the
/// name of the resource.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResourceWrapper<'a> {
    /// Empty if the name is only in the resource itself.
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    /// Encoded `envoy.config.core.v3.Metadata`, if present.
    // B12
    pub(crate) metadata: Option<&'a [u8]>,
    pub(crate) cache_control: CacheControl,
    has_aliases: bool,
    any: Option<&'a [u8]>,
    ttl: Option<&'a [u8]>,
    message: &'a [u8],
}

/// Aliases of a [`ResourceWrapper`] resource, read in place; `None` if it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawAliases<'a>(Option<&'a [u8]>);

/// Error of reading a TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum InvalidTtl {
    #[error("ttl: {0}")]
    Malformed(#[from] Malformed),
    #[error("ttl: must not be negative, and must have less than 1000000000 nanoseconds")]
    OutOfRange,
}

const VERSION: u32 = 1;
const RESOURCE: u32 = 2;
const NAME: u32 = 3;
const ALIASES: u32 = 4;
const TTL: u32 = 6;
const CACHE_CONTROL: u32 = 7;
const RESOURCE_NAME: u32 = 8;
const METADATA: u32 = 9;

impl<'a> RawResource<'a> {
    #[inline]
    pub(crate) fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut any = Self::default();
        for field in Fields::of(message) {
            let field = field?;
            match field.number {
                1 => any.type_url = field.block()?,
                2 => any.value = field.block()?,
                _ => {}
            }
        }
        Ok(any)
    }

    /// Whether this is a [`ResourceWrapper`] resource.
    #[inline]
    pub(crate) fn is_wrapper(&self) -> bool {
        self.type_url == WRAPPER.as_bytes() || self.type_url == V2_WRAPPER.as_bytes()
    }
}

impl<'a> ResourceWrapper<'a> {
    pub(crate) fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut wrapped = Self { message, ..Self::default() };
        let mut long_name = "";
        for field in Fields::of(message) {
            let field = field?;
            match field.number {
                VERSION => wrapped.version = field.string()?,
                RESOURCE => wrapped.any = Some(field.block()?),
                NAME => wrapped.name = field.string()?,
                ALIASES => {
                    field.string()?;
                    wrapped.has_aliases = true;
                }
                TTL => wrapped.ttl = Some(field.block()?),
                CACHE_CONTROL => wrapped.cache_control = cache_control(field.block()?)?,
                RESOURCE_NAME => long_name = string_field(field.block()?, 1)?,
                METADATA => wrapped.metadata = Some(field.block()?),
                _ => {}
            }
        }
        // Either field may contain the name (B11).
        if wrapped.name.is_empty() {
            wrapped.name = long_name;
        }
        Ok(wrapped)
    }

    /// Returns the resource itself; `None` in a heartbeat, and for an alias without a resource.
    // X05
    pub(crate) fn any(&self) -> Option<Result<RawResource<'a>, Malformed>> {
        self.any.map(RawResource::parse)
    }

    /// Returns the aliases of the resource.
    // X06
    pub(crate) fn aliases(&self) -> RawAliases<'a> {
        RawAliases(self.has_aliases.then_some(self.message))
    }

    /// Returns the time for which the resource may be used unless it is sent again; `None` for no
    /// limit.
    // B09
    pub(crate) fn ttl(&self) -> Result<Option<Duration>, InvalidTtl> {
        self.ttl.map(duration).transpose()
    }
}

impl<'a> RawAliases<'a> {
    pub(crate) fn iter(self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.0.into_iter().flat_map(|message| strings(message, ALIASES))
    }
}

/// Returns the values of a repeated string field of a message that is known to be valid.
pub(crate) fn strings<'a>(
    message: &'a [u8],
    number: u32,
) -> impl Iterator<Item = &'a str> + use<'a> {
    fields(message, number).filter_map(|field| field.string().ok())
}

fn cache_control(message: &[u8]) -> Result<CacheControl, Malformed> {
    const DO_NOT_CACHE: u32 = 1;

    let mut read = CacheControl::Cacheable;
    for field in Fields::of(message) {
        let field = field?;
        if field.number == DO_NOT_CACHE {
            read = match field.number()? {
                0 => CacheControl::Cacheable,
                _ => CacheControl::DoNotCache,
            };
        }
    }
    Ok(read)
}

/// Decodes a `google.protobuf.Duration` that must not be negative.
fn duration(message: &[u8]) -> Result<Duration, InvalidTtl> {
    const SECONDS: u32 = 1;
    const NANOS: u32 = 2;
    let (mut seconds, mut nanos) = (0u64, 0u64);
    for field in Fields::of(message) {
        let field = field?;
        match field.number {
            SECONDS => seconds = field.number()?,
            NANOS => nanos = field.number()?,
            _ => {}
        }
    }
    // Negative numbers occupy the upper half of the varint range.
    let is_negative = i64::try_from(seconds).is_err();
    match u32::try_from(nanos) {
        Ok(nanos) if nanos < 1_000_000_000 && !is_negative => Ok(Duration::new(seconds, nanos)),
        _ => Err(InvalidTtl::OutOfRange),
    }
}

#[cfg(test)]
mod tests {
    use alloc::{string::String, vec, vec::Vec};

    use prost::{Message as _, Name as _};

    use crate::proto;
    use crate::wire::resource::*;

    fn wrapper() -> proto::Resource {
        proto::Resource {
            name: String::from("foo"),
            version: String::from("7"),
            aliases: vec![String::from("a"), String::from("b")],
            resource: Some(proto::Any {
                type_url: String::from("t/x"),
                value: bytes::Bytes::from_static(b"body"),
            }),
            ttl: Some(proto::Duration { seconds: 10, nanos: 5 }),
            cache_control: Some(proto::resource::CacheControl { do_not_cache: true }),
            metadata: Some(proto::Metadata::default()),
            ..Default::default()
        }
    }

    #[test]
    fn resource_wrapper_encoded_by_prost_is_parsed_in_place() {
        assert_eq!(WRAPPER, proto::Resource::type_url());
        let message = wrapper().encode_to_vec();
        let wrapped = ResourceWrapper::parse(&message).unwrap();
        assert_eq!((wrapped.name, wrapped.version), ("foo", "7"));
        assert_eq!(wrapped.aliases().iter().collect::<Vec<_>>(), ["a", "b"]);
        let any = wrapped.any().unwrap().unwrap();
        assert_eq!((any.type_url, any.value), (&b"t/x"[..], &b"body"[..]));
        assert_eq!(wrapped.ttl(), Ok(Some(Duration::new(10, 5))));
        assert_eq!(wrapped.cache_control, CacheControl::DoNotCache);
        assert_eq!(wrapped.metadata, Some(&[][..]));
    }

    #[test]
    fn unset_fields_parse_as_defaults() {
        let wrapped = ResourceWrapper::parse(&[]).unwrap();
        assert_eq!((wrapped.name, wrapped.version), ("", ""));
        assert!(wrapped.any().is_none() && wrapped.metadata.is_none());
        assert_eq!(wrapped.cache_control, CacheControl::Cacheable);
        assert_eq!(wrapped.ttl(), Ok(None));
    }

    #[test]
    fn resource_name_field_is_used_if_name_is_unset() {
        let long = |name: &str| {
            let long_name =
                proto::ResourceName { name: String::from("long"), ..Default::default() };
            proto::Resource {
                name: String::from(name),
                resource_name: Some(long_name),
                ..Default::default()
            }
            .encode_to_vec()
        };
        assert_eq!(ResourceWrapper::parse(&long("")).unwrap().name, "long");
        assert_eq!(ResourceWrapper::parse(&long("short")).unwrap().name, "short");
    }

    #[test]
    fn malformed_any_or_ttl_does_not_lose_the_name() {
        let message = [0x1a, 1, b'x', 0x12, 2, 0x0a, 9, 0x32, 1, 0x08];
        let wrapped = ResourceWrapper::parse(&message).unwrap();
        assert_eq!(wrapped.name, "x");
        assert_eq!(wrapped.any(), Some(Err(Malformed::Truncated { at: 0 })));
        assert_eq!(wrapped.ttl(), Err(InvalidTtl::Malformed(Malformed::Truncated { at: 0 })));
        assert_eq!(
            ResourceWrapper::parse(&[0x22, 1, 0xff]).unwrap_err(),
            Malformed::Utf8 { field: 4 }
        );
    }

    #[test]
    fn ttl_outside_of_the_duration_range_is_rejected() {
        let ttl = |seconds, nanos| {
            let ttl = Some(proto::Duration { seconds, nanos });
            let message = proto::Resource { ttl, ..Default::default() }.encode_to_vec();
            ResourceWrapper::parse(&message).unwrap().ttl()
        };
        assert_eq!(ttl(0, 0), Ok(Some(Duration::ZERO)));
        assert_eq!(
            ttl(i64::MAX, 999_999_999),
            Ok(Some(Duration::new(i64::MAX as u64, 999_999_999)))
        );
        for (seconds, nanos) in [(-1, 0), (0, -1), (1, 1_000_000_000), (i64::MIN, i32::MIN)] {
            assert_eq!(ttl(seconds, nanos), Err(InvalidTtl::OutOfRange), "{seconds} {nanos}");
        }
    }
}
