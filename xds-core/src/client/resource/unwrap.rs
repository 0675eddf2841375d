//! Resources taken out of their `Any` and of the `Resource` wrapper.
// B08

use alloc::string::String;
use core::time::Duration;

use super::v2_fields::{self, V2Check};
use crate::{
    cache_control::CacheControl,
    service::ApiVersion,
    wire::{
        resource::{RawAliases, RawResource, ResourceWrapper},
        walk,
    },
};

/// Resource of a response.
#[derive(Debug)]
pub(crate) struct Unwrapped<'f> {
    /// Name in the wrapper, which takes precedence over the name in the resource; empty if there is
    /// none.
    // RW-02
    pub(crate) name: &'f str,
    pub(crate) body: ResourceBody<'f>,
    /// `None` for a resource without a wrapper.
    pub(crate) wrapper: Option<Wrapper<'f>>,
    /// API version of the type URL.
    pub(crate) api: ApiVersion,
}

/// Contents of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceBody<'f> {
    Resource(&'f [u8]),
    /// No contents: a heartbeat, which only renews the TTL.
    // B09
    Heartbeat,
}

/// Fields of a wrapper other than name and resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wrapper<'f> {
    pub(crate) version: &'f str,
    pub(crate) metadata: Option<&'f [u8]>,
    pub(crate) cache_control: CacheControl,
    pub(crate) ttl: Option<Duration>,
    pub(crate) aliases: RawAliases<'f>,
}

/// Reason why a resource cannot be taken out, and the name in its wrapper if known.
// trap 12
#[derive(Debug)]
pub(crate) struct Unusable<'f> {
    pub(crate) name: &'f str,
    pub(crate) reason: String,
    pub(crate) is_heartbeat: bool,
}

/// Takes a resource of the type `type_url` out of an `Any`. Nested wrappers are not accepted.
#[inline]
pub(crate) fn unwrap<'f>(
    raw: &RawResource<'f>,
    type_url: &str,
) -> Result<Unwrapped<'f>, Unusable<'f>> {
    if raw.type_url == type_url.as_bytes() {
        let (body, api) = (ResourceBody::Resource(raw.value), ApiVersion::V3);
        return Ok(Unwrapped { name: "", body, wrapper: None, api });
    }
    unwrap_other(raw, type_url)
}

/// Handles wrappers and API version 2, apart from the fast path for plain resources.
#[cold]
fn unwrap_other<'f>(raw: &RawResource<'f>, type_url: &str) -> Result<Unwrapped<'f>, Unusable<'f>> {
    if !raw.is_wrapper() {
        let named = |reason| Unusable {
            name: walk::string_field(raw.value, 1).unwrap_or_default(),
            reason,
            is_heartbeat: false,
        };
        return match v2_fields::check(raw, type_url) {
            V2Check::Compatible => {
                let (body, api) = (ResourceBody::Resource(raw.value), ApiVersion::V2);
                Ok(Unwrapped { name: "", body, wrapper: None, api })
            }
            V2Check::Incompatible(reason) => Err(named(reason)),
            V2Check::Other => Err(unnamed(wrong_type(raw))),
        };
    }
    let wrapped = ResourceWrapper::parse(raw.value)
        .map_err(|why| unnamed(alloc::format!("invalid resource wrapper: {why}")))?;
    unwrap_delta(&wrapped, type_url)
}

/// Takes a resource of the type `type_url` out of a wrapper message, as in the incremental variant.
pub(crate) fn unwrap_delta<'f>(
    wrapped: &ResourceWrapper<'f>,
    type_url: &str,
) -> Result<Unwrapped<'f>, Unusable<'f>> {
    let any = wrapped.any();
    let is_heartbeat = any.is_none();
    let unusable = |reason| Unusable { name: wrapped.name, reason, is_heartbeat };
    let ttl = wrapped.ttl().map_err(|why| unusable(alloc::format!("{why}")))?;
    let (body, api) = match any {
        None => (ResourceBody::Heartbeat, ApiVersion::V3),
        Some(Err(why)) => return Err(unusable(alloc::format!("{why}"))),
        Some(Ok(any)) if any.type_url == type_url.as_bytes() => {
            (ResourceBody::Resource(any.value), ApiVersion::V3)
        }
        Some(Ok(any)) => match v2_fields::check(&any, type_url) {
            V2Check::Compatible => (ResourceBody::Resource(any.value), ApiVersion::V2),
            V2Check::Incompatible(reason) => return Err(unusable(reason)),
            V2Check::Other => return Err(unusable(wrong_type(&any))),
        },
    };
    let ResourceWrapper { version, metadata, cache_control, .. } = *wrapped;
    let wrapper = Wrapper { version, metadata, cache_control, ttl, aliases: wrapped.aliases() };
    Ok(Unwrapped { name: wrapped.name, body, wrapper: Some(wrapper), api })
}

fn unnamed<'f>(reason: String) -> Unusable<'f> {
    Unusable { name: "", reason, is_heartbeat: false }
}

fn wrong_type(raw: &RawResource<'_>) -> String {
    let shown = raw.type_url.get(..200).unwrap_or(raw.type_url);
    alloc::format!(
        "resource type {:?} differs from that of the response",
        String::from_utf8_lossy(shown)
    )
}
