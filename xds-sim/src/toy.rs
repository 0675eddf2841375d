//! Resources for simulations: a name, a text, and texts that make a resource invalid.

use bytes::Bytes;
use prost::Message;
use xds_core::{
    Malformed, TypeUrl,
    client::{Rejection, ResourceType, ServerFeature, ValidationContext, Value, VerdictSource},
    references::{Reference, ReferenceExtractor, ReferenceTarget},
    types,
};

use crate::options::Options;

/// Resource with a name in field 1, as in every xDS resource, and a text in field 2.
#[derive(Clone, PartialEq, Message)]
pub struct Toy {
    /// Name of the resource.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Content of the resource.
    ///
    /// A text that starts with `bad` makes the resource invalid. One that starts with `privileged`
    /// makes it invalid unless the server is trusted. One that starts with `contested` is valid,
    /// but rejected by an external verdict.
    #[prost(string, tag = "2")]
    pub text: String,
}

impl Toy {
    /// Encodes a resource.
    #[must_use]
    pub fn bytes(name: &str, text: &str) -> Bytes {
        Self { name: name.into(), text: text.into() }.encode_to_vec().into()
    }

    /// Decodes the text of a resource for printing; returns `(undecodable)` if that fails.
    #[must_use]
    pub fn text_of(bytes: &[u8]) -> String {
        Self::decode(bytes).map_or_else(|_| "(undecodable)".into(), |toy| toy.text)
    }
}

/// Prefixes of texts that make a resource invalid, invalid unless the server is trusted, and
/// rejected by an external verdict.
const BAD: &str = "bad";
const PRIVILEGED: &str = "privileged";
const CONTESTED: &str = "contested";

impl Toy {
    /// Whether an external verdict rejects the resource, which passes validation.
    pub(crate) fn is_rejected_externally(bytes: &[u8]) -> bool {
        Self::text_of(bytes).starts_with(CONTESTED)
    }

    /// Whether the resource is valid only from a trusted server.
    pub(crate) fn is_privileged(bytes: &[u8]) -> bool {
        Self::text_of(bytes).starts_with(PRIVILEGED)
    }

    /// Whether clients in a run with these options find the resource invalid.
    pub(crate) fn is_invalid(bytes: &[u8], options: &Options) -> bool {
        let text = Self::text_of(bytes);
        text.starts_with(BAD) || text.starts_with(PRIVILEGED) && !options.are_servers_trusted()
    }

    /// Whether clients in a run with these options reject the resource, by validation or verdict.
    pub(crate) fn is_refused(bytes: &[u8], options: &Options) -> bool {
        Self::is_invalid(bytes, options) || Self::is_rejected_externally(bytes)
    }
}

/// Resource type of [`Toy`] resources under any type URL.
#[derive(Clone, Debug)]
pub struct ToyType {
    type_url: TypeUrl,
    verdict: VerdictSource,
}

impl ToyType {
    /// Creates the type with a type URL.
    #[must_use]
    pub fn new(type_url: impl Into<TypeUrl>) -> Self {
        Self { type_url: type_url.into(), verdict: VerdictSource::Validation }
    }

    /// Sets whether validation alone or an external verdict accepts resources.
    #[must_use]
    pub fn with_verdict(mut self, verdict: VerdictSource) -> Self {
        self.verdict = verdict;
        self
    }
}

impl ResourceType for ToyType {
    fn type_url(&self) -> &TypeUrl {
        &self.type_url
    }

    fn verdict_source(&self) -> VerdictSource {
        self.verdict
    }

    fn validate(
        &self,
        bytes: &Bytes,
        context: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        let toy = Toy::decode(&**bytes)
            .map_err(|why| Rejection::new(format!("cannot be decoded: {why}")))?;
        if toy.text.starts_with(BAD) {
            return Err(Rejection::new(format!("text: {} is not allowed", toy.text)));
        }
        let is_trusted = context.server.features.contains(ServerFeature::TrustedXdsServer);
        if toy.text.starts_with(PRIVILEGED) && !is_trusted {
            return Err(Rejection::new(format!("text: {} needs a trusted server", toy.text)));
        }
        Ok(Some(Value::new(toy.text)))
    }
}

/// References between toys: a cluster refers to the endpoints of the same name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToyReferences;

impl ReferenceExtractor for ToyReferences {
    fn references(
        &self,
        type_url: &str,
        resource: &[u8],
        found: &mut dyn FnMut(Reference<'_>),
    ) -> Result<(), Malformed> {
        if let Ok(toy) = Toy::decode(resource)
            && type_url == types::CLUSTER
            && !toy.name.starts_with("xdstp:")
        {
            found(Reference::new(types::CLUSTER_LOAD_ASSIGNMENT, ReferenceTarget::Name(&toy.name)));
        }
        Ok(())
    }
}
