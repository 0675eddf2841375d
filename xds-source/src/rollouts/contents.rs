//! The resources at one number, as bytes: messages of the protocol, each with its length before it.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use prost::{DecodeError, Message as _};
use xds_core::{
    ResourceName, TypeUrl, ViewName,
    proto::{Any, DeltaDiscoveryResponse, Resource},
};

/// Resource of a view, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResource {
    /// View.
    pub view: ViewName,
    /// Type.
    pub type_url: TypeUrl,
    /// Name.
    pub name: ResourceName,
    /// Encoded message.
    pub bytes: Bytes,
    /// Revision of the source at which the resource was changed; 0 if it has none.
    pub revision: u64,
}

/// Encodes resources, to store them: a `DeltaDiscoveryResponse` for each type of each view, whose
/// nonce is the name of the view, with its length before it.
#[must_use]
pub fn encode_contents(resources: &[StoredResource]) -> Bytes {
    let mut responses: BTreeMap<(&ViewName, &TypeUrl), Vec<Resource>> = BTreeMap::new();
    for it in resources {
        let any = Any { type_url: it.type_url.as_str().into(), value: it.bytes.clone() };
        let resource = Resource {
            name: it.name.as_str().into(),
            version: it.revision.to_string(),
            resource: Some(any),
            ..Resource::default()
        };
        responses.entry((&it.view, &it.type_url)).or_default().push(resource);
    }
    let mut out = BytesMut::new();
    for ((view, type_url), resources) in responses {
        let response = DeltaDiscoveryResponse {
            nonce: view.as_str().into(),
            type_url: type_url.as_str().into(),
            resources,
            ..DeltaDiscoveryResponse::default()
        };
        // The buffer grows.
        let _ = response.encode_length_delimited(&mut out);
    }
    out.freeze()
}

/// Decodes resources that [`encode_contents`] has encoded.
///
/// # Errors
///
/// Returns an error if the bytes are something else.
pub fn decode_contents(mut bytes: Bytes) -> Result<Vec<StoredResource>, DecodeError> {
    let mut resources = Vec::new();
    while !bytes.is_empty() {
        let response = DeltaDiscoveryResponse::decode_length_delimited(&mut bytes)?;
        let (view, type_url) =
            (ViewName::from(&*response.nonce), TypeUrl::from(&*response.type_url));
        resources.extend(response.resources.into_iter().map(|it| StoredResource {
            view: view.clone(),
            type_url: type_url.clone(),
            name: it.name.as_str().into(),
            bytes: it.resource.map(|it| it.value).unwrap_or_default(),
            revision: it.version.parse().unwrap_or_default(),
        }));
    }
    Ok(resources)
}
