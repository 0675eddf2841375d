//! Encoding of the resources of a rollout: length-delimited protocol messages.

use core::{fmt, str::FromStr};
use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use prost::{DecodeError, Message as _};
use thiserror::Error;
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

/// Encodes resources for storage as a sequence of length-delimited messages: one
/// `DeltaDiscoveryResponse` per view and type, with the name of the view as its nonce.
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
/// Returns an error if the bytes are malformed.
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

/// Manifest of encoded resources that are stored in several parts, because the size of a value is
/// limited. Its text form is one line, such as `writer=host-17 parts=3 bytes=2400000`.
///
/// Each writer stores its parts first, under its own name, so that the parts of two writers are
/// never mixed. The first writer that then creates the manifest decides which parts are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentsManifest {
    /// Server that has written the parts.
    pub writer: String,
    /// Number of parts.
    pub parts: usize,
    /// Bytes of all parts together.
    pub bytes: usize,
}

impl ContentsManifest {
    /// Encodes resources, and splits the result into parts of at most `part` bytes.
    #[must_use]
    pub fn split(writer: &str, resources: &[StoredResource], part: usize) -> (Self, Vec<Bytes>) {
        let bytes = encode_contents(resources);
        let parts: Vec<_> = bytes.chunks(part.max(1)).map(|it| bytes.slice_ref(it)).collect();
        (Self { writer: writer.to_owned(), parts: parts.len(), bytes: bytes.len() }, parts)
    }

    /// Decodes the parts, given in order; `None` if some are missing.
    ///
    /// # Errors
    ///
    /// Returns an error if the joined parts are malformed.
    pub fn join(
        &self,
        parts: impl IntoIterator<Item = Bytes>,
    ) -> Result<Option<Vec<StoredResource>>, DecodeError> {
        let mut bytes = BytesMut::new();
        parts.into_iter().take(self.parts).for_each(|part| bytes.extend_from_slice(&part));
        match bytes.len() == self.bytes {
            true => decode_contents(bytes.freeze()).map(Some),
            false => Ok(None),
        }
    }
}

impl fmt::Display for ContentsManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writer, parts, bytes } = self;
        write!(f, "writer={writer} parts={parts} bytes={bytes}")
    }
}

impl FromStr for ContentsManifest {
    type Err = InvalidManifest;

    fn from_str(text: &str) -> Result<Self, InvalidManifest> {
        let mut words = text.split_whitespace();
        let mut next = |prefix| words.next()?.strip_prefix(prefix);
        let mut parse = || {
            Some(Self {
                writer: next("writer=")?.to_owned(),
                parts: next("parts=")?.parse().ok()?,
                bytes: next("bytes=")?.parse().ok()?,
            })
        };
        parse().ok_or(InvalidManifest)
    }
}

/// Error of parsing a [`ContentsManifest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected `writer=NAME parts=N bytes=N`")]
pub struct InvalidManifest;

#[cfg(test)]
mod tests {
    use xds_core::types;

    use super::*;

    #[test]
    fn parts_are_joined_again_unless_one_is_missing() {
        let resource = |name: &str| StoredResource {
            view: "edge".into(),
            type_url: types::CLUSTER.into(),
            name: name.into(),
            bytes: Bytes::from(name.to_owned()),
            revision: 7,
        };
        let resources = vec![resource("a"), resource("b")];
        let (manifest, parts) = ContentsManifest::split("host-1", &resources, 10);
        assert!(parts.len() > 3 && parts.iter().all(|it| it.len() <= 10));
        let parsed: ContentsManifest = manifest.to_string().parse().unwrap();
        assert_eq!(parsed.join(parts.clone()), Ok(Some(resources)));
        assert_eq!(parsed.join(parts[1..].to_vec()), Ok(None));
        assert_eq!("writer=a parts=-1 bytes=2".parse::<ContentsManifest>(), Err(InvalidManifest));
    }
}
