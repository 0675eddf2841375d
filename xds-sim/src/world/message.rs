//! Messages, and their decoded contents in a form common to both variants.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use xds_core::{TypeUrl, proto, service::Variant};

use crate::{options::Lie, trace::MessageId};

/// A name, a nonce or a version. Short strings need no allocation.
pub type Text = smol_str::SmolStr;

/// A message from one end of a stream to the other.
#[derive(Debug)]
pub struct Message {
    /// Identifier of the message.
    pub id: MessageId,
    /// Encoded message.
    pub bytes: Bytes,
    /// Decoded content; `None` if no oracle needs it, or decoding failed.
    pub body: Option<Body>,
    /// Lie, if the message was forged.
    pub lie: Option<Lie>,
}

/// Decoded content of a message.
#[derive(Debug)]
pub enum Body {
    /// A request.
    Request(Request),
    /// A response.
    Response(Response),
}

impl Message {
    /// Returns the content if the message is a request.
    #[must_use]
    pub fn request(&self) -> Option<&Request> {
        match &self.body {
            Some(Body::Request(request)) => Some(request),
            Some(Body::Response(_)) | None => None,
        }
    }

    /// Returns the content if the message is a response.
    #[must_use]
    pub fn response(&self) -> Option<&Response> {
        match &self.body {
            Some(Body::Response(response)) => Some(response),
            Some(Body::Request(_)) | None => None,
        }
    }
}

/// Content of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Index of the type in the world; `None` for other types.
    pub kind: Option<usize>,
    /// Nonce of the response that the request acknowledges, or of the newest one.
    pub nonce: Text,
    /// State of the world: version accepted last.
    pub version: Text,
    /// Status code of the error, if the request is a NACK.
    pub error: Option<i32>,
    /// Node id, if the request has a node.
    pub node: Option<Text>,
    /// Subscribed names.
    pub names: Names,
}

/// Subscribed names of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Names {
    /// State of the world: all names.
    Whole(Vec<Text>),
    /// Incremental: changes.
    Change {
        /// Names to subscribe.
        subscribe: Vec<Text>,
        /// Names to unsubscribe.
        unsubscribe: Vec<Text>,
        /// Initial resource versions, by name.
        versions: Vec<(Text, Text)>,
    },
}

impl Names {
    /// Iterates over all names, or over the names to subscribe.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let (Self::Whole(names) | Self::Change { subscribe: names, .. }) = self;
        names.iter().map(Text::as_str)
    }
}

/// Content of a response.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Index of the type in the world; `None` for other types.
    pub kind: Option<usize>,
    /// Nonce.
    pub nonce: Text,
    /// Version of the response.
    pub version: Text,
    /// Resources.
    pub resources: Vec<ResponseItem>,
    /// Incremental: names of removed resources.
    pub removed: Vec<Text>,
    /// Names with resource errors, and their status codes.
    pub errors: Vec<(Text, i32)>,
}

/// A resource in a response.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseItem {
    /// Name.
    pub name: Text,
    /// Version of the resource, if it has one.
    pub version: Text,
    /// Encoded resource; `None` is a heartbeat.
    pub bytes: Option<Bytes>,
    /// TTL, if there is one.
    pub ttl: Option<Duration>,
}

impl Response {
    /// Whether a response is a heartbeat and contains nothing else.
    pub(crate) fn is_heartbeat(&self) -> bool {
        let says_more = !self.removed.is_empty() || !self.errors.is_empty();
        let mut items = self.resources.iter();
        !says_more && !self.resources.is_empty() && items.all(|item| item.bytes.is_none())
    }

    /// Whether a response contains a resource with a TTL. Full states are renewed by sending everything
    /// again, and so are resources that may have expired at the client.
    pub(crate) fn renews(&self) -> bool {
        self.resources.iter().any(|item| item.ttl.is_some())
    }
}

/// First field of every xDS resource.
#[derive(Clone, PartialEq, prost::Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
}

const WRAPPER: &str = "type.googleapis.com/envoy.service.discovery.v3.Resource";

fn texts(names: Vec<String>) -> Vec<Text> {
    names.into_iter().map(Text::from).collect()
}

fn kind_of(types: &[TypeUrl], type_url: &str) -> Option<usize> {
    types.iter().position(|known| known.as_str() == type_url)
}

/// Returns the index of a type. Requests on a stream for one type may omit the type URL.
fn kind_or(types: &[TypeUrl], type_url: &str, only: Option<usize>) -> Option<usize> {
    if type_url.is_empty() { only } else { kind_of(types, type_url) }
}

/// Decodes a request; `only` is the type of a stream that carries one type.
pub(crate) fn read_request(
    bytes: &Bytes,
    variant: Variant,
    types: &[TypeUrl],
    only: Option<usize>,
) -> Option<Request> {
    Some(match variant {
        Variant::StateOfTheWorld => {
            let it = proto::DiscoveryRequest::decode(bytes.clone()).ok()?;
            Request {
                kind: kind_or(types, &it.type_url, only),
                nonce: it.response_nonce.into(),
                version: it.version_info.into(),
                error: it.error_detail.map(|status| status.code),
                node: it.node.map(|node| node.id.into()),
                names: Names::Whole(texts(it.resource_names)),
            }
        }
        Variant::Incremental => {
            let it = proto::DeltaDiscoveryRequest::decode(bytes.clone()).ok()?;
            Request {
                kind: kind_or(types, &it.type_url, only),
                nonce: it.response_nonce.into(),
                version: Text::default(),
                error: it.error_detail.map(|status| status.code),
                node: it.node.map(|node| node.id.into()),
                names: Names::Change {
                    subscribe: texts(it.resource_names_subscribe),
                    unsubscribe: texts(it.resource_names_unsubscribe),
                    versions: it
                        .initial_resource_versions
                        .into_iter()
                        .map(|(name, version)| (name.into(), version.into()))
                        .collect(),
                },
            }
        }
    })
}

/// Any protobuf message.
#[derive(Clone, PartialEq, prost::Message)]
struct Fields {}

/// Whether the bytes are a valid protobuf message of any type.
pub(super) fn is_message(bytes: &Bytes) -> bool {
    Fields::decode(bytes.clone()).is_ok()
}

/// Decodes a response.
pub(crate) fn read_response(
    bytes: &Bytes,
    variant: Variant,
    types: &[TypeUrl],
) -> Option<Response> {
    Some(match variant {
        Variant::StateOfTheWorld => {
            let it = proto::DiscoveryResponse::decode(bytes.clone()).ok()?;
            let resources = it.resources.into_iter().map(|any| item_of_any(&any));
            Response {
                kind: kind_of(types, &it.type_url),
                nonce: it.nonce.into(),
                version: it.version_info.into(),
                resources: resources.collect::<Option<_>>()?,
                removed: Vec::new(),
                errors: it.resource_errors.into_iter().map(error_of).collect(),
            }
        }
        Variant::Incremental => {
            let it = proto::DeltaDiscoveryResponse::decode(bytes.clone()).ok()?;
            Response {
                kind: kind_of(types, &it.type_url),
                nonce: it.nonce.into(),
                version: it.system_version_info.into(),
                resources: it.resources.into_iter().map(item_of_wrapper).collect(),
                removed: texts(it.removed_resources),
                errors: it.resource_errors.into_iter().map(error_of).collect(),
            }
        }
    })
}

fn item_of_any(any: &proto::Any) -> Option<ResponseItem> {
    if any.type_url == WRAPPER {
        return Some(item_of_wrapper(proto::Resource::decode(any.value.clone()).ok()?));
    }
    let name = Named::decode(any.value.clone()).ok()?.name.into();
    Some(ResponseItem { name, version: Text::default(), bytes: Some(any.value.clone()), ttl: None })
}

fn item_of_wrapper(wrapper: proto::Resource) -> ResponseItem {
    let ttl = wrapper.ttl.map(|ttl| {
        let (seconds, nanos) = (u64::try_from(ttl.seconds), u32::try_from(ttl.nanos));
        Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
    });
    ResponseItem {
        name: wrapper.name.into(),
        version: wrapper.version.into(),
        bytes: wrapper.resource.map(|any| any.value),
        ttl,
    }
}

fn error_of(error: proto::ResourceError) -> (Text, i32) {
    let name = error.resource_name.map(|name| name.name.into()).unwrap_or_default();
    (name, error.error_detail.map(|status| status.code).unwrap_or_default())
}
