//! Received responses, and resources in script notation.

use bytes::Bytes;
use prost::{Message as _, Name as _};
use xds_core::{
    proto::{Any, DeltaDiscoveryResponse, DiscoveryResponse, Resource},
    server::ServerTransmit,
};

/// A response as received by a client.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) transmit: ServerTransmit,
    /// The part of the response that may be shared between clients.
    pub(crate) body: Bytes,
    pub(crate) response: Response,
}

#[derive(Clone, Debug)]
pub(crate) enum Response {
    StateOfTheWorld(DiscoveryResponse),
    Incremental(DeltaDiscoveryResponse),
}

impl Received {
    /// `name=content` of every resource and `-name` of every removed one, in wire order.
    pub(crate) fn resources(&self) -> Vec<String> {
        let error = |error: &xds_core::proto::ResourceError| {
            let (name, detail) = (error.resource_name.as_ref(), error.error_detail.as_ref());
            format!("!{}={}", name.expect("a name").name, detail.expect("a status").code)
        };
        match &self.response {
            Response::StateOfTheWorld(response) => {
                let errors = response.resource_errors.iter().map(error);
                let resources = response.resources.iter().map(|any| match unpack(any) {
                    Some(resource) => text_of(&resource),
                    None => text(any),
                });
                resources.chain(errors).collect()
            }
            Response::Incremental(response) => {
                let removed = response.removed_resources.iter().map(String::as_str);
                let names = response.removed_resource_names.iter().map(|name| &*name.name);
                let packed = response.resources.iter().map(text_of);
                let removed = removed.chain(names).map(|name| format!("-{name}"));
                let errors = response.resource_errors.iter().map(error);
                packed.chain(removed).chain(errors).collect()
            }
        }
    }

    /// Returns the response of a state-of-the-world stream.
    pub(crate) fn full(&self) -> &DiscoveryResponse {
        match &self.response {
            Response::StateOfTheWorld(response) => response,
            Response::Incremental(_) => panic!("an incremental response"),
        }
    }
}

/// The name in `name=content`, `name+alias^version~ttl=content`, `-name`, `?name` or `!name=code`.
pub(super) fn name_of(text: &str) -> &str {
    let text = text.strip_prefix(['-', '!', '?']).unwrap_or(text);
    text.split(['=', '~', '+', '^']).next().unwrap_or_default()
}

pub(super) fn text(any: &Any) -> String {
    String::from_utf8_lossy(&any.value).into_owned()
}

/// Returns the wrapper, if the resource is wrapped.
pub(super) fn unpack(any: &Any) -> Option<Resource> {
    (any.type_url == Resource::type_url())
        .then(|| Resource::decode(any.value.clone()).expect("a resource"))
}

/// Whether a wrapper reports a missing resource.
// X05
pub(super) fn is_absence(resource: &Resource) -> bool {
    resource.resource.is_none() && resource.ttl.is_none()
}

/// Returns a resource in script notation.
pub(super) fn text_of(resource: &Resource) -> String {
    if is_absence(resource) {
        return format!("?{}", resource.name);
    }
    let ttl = resource.ttl.as_ref().map_or_else(String::new, |ttl| match ttl.nanos {
        0 => format!("~{}s", ttl.seconds),
        nanos => format!("~{}ms", ttl.seconds * 1_000 + i64::from(nanos) / 1_000_000),
    });
    let content = resource.resource.as_ref().map_or_else(String::new, |any| {
        let text = text(any);
        assert_eq!(name_of(&text), resource.name);
        text[resource.name.len()..].to_owned()
    });
    let aliases: String = resource.aliases.iter().map(|alias| format!("+{alias}")).collect();
    // After the revision of a source, if there is one.
    let is_digest = resource.version.rsplit('-').next().is_some_and(|it| it.len() == 16);
    let version = if is_digest { String::new() } else { format!("^{}", resource.version) };
    format!("{}{aliases}{version}{ttl}{content}", resource.name)
}
