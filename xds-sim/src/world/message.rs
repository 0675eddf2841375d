//! Messages on their way, and what they say in words that both variants share.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use xds_core::{TypeUrl, proto, service::Variant};

use crate::{options::Lie, trace::MessageId};

/// A name, a nonce or a version. Most are so short that they need no memory of their own.
pub type Text = smol_str::SmolStr;

/// A message, as it goes from one end of a stream to the other.
#[derive(Debug)]
pub struct Message {
    /// Which one.
    pub id: MessageId,
    /// As it is on the wire.
    pub bytes: Bytes,
    /// What it says; `None` if nobody asked, or it cannot be read.
    pub body: Option<Body>,
    /// The lie that it is, if nobody has said it.
    pub lie: Option<Lie>,
}

/// What a message says.
#[derive(Debug)]
pub enum Body {
    /// What a client says.
    Request(Request),
    /// What a server says.
    Response(Response),
}

impl Message {
    /// What a client says with it.
    #[must_use]
    pub fn request(&self) -> Option<&Request> {
        match &self.body {
            Some(Body::Request(request)) => Some(request),
            Some(Body::Response(_)) | None => None,
        }
    }

    /// What a server says with it.
    #[must_use]
    pub fn response(&self) -> Option<&Response> {
        match &self.body {
            Some(Body::Response(response)) => Some(response),
            Some(Body::Request(_)) | None => None,
        }
    }
}

/// What a client says.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The position of the type among those of the world; `None` for another one.
    pub kind: Option<usize>,
    /// The nonce of the response that it answers or goes along with.
    pub nonce: Text,
    /// State of the world: the version that was accepted last.
    pub version: Text,
    /// The code of the error, if it rejects a response.
    pub error: Option<i32>,
    /// The id of the node, if it states one.
    pub node: Option<Text>,
    /// What is wanted.
    pub names: Names,
}

/// What a request says of what is wanted.
#[derive(Clone, Debug, PartialEq)]
pub enum Names {
    /// State of the world: all of it.
    Whole(Vec<Text>),
    /// Incremental: how it changes.
    Change {
        /// What is wanted from now on.
        subscribe: Vec<Text>,
        /// What is not wanted any more.
        unsubscribe: Vec<Text>,
        /// What the client has, with its versions, by name.
        versions: Vec<(Text, Text)>,
    },
}

impl Names {
    /// The names from which something is wanted now, or newly.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let (Self::Whole(names) | Self::Change { subscribe: names, .. }) = self;
        names.iter().map(Text::as_str)
    }
}

/// What a server says.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// The position of the type among those of the world; `None` for another one.
    pub kind: Option<usize>,
    /// What the answer is to state.
    pub nonce: Text,
    /// The version of the whole.
    pub version: Text,
    /// Resources.
    pub resources: Vec<Item>,
    /// Incremental: names of what does not exist.
    pub removed: Vec<Text>,
    /// Names of what cannot be had, with the code of the reason.
    pub errors: Vec<(Text, i32)>,
}

/// A resource in a response.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Its name.
    pub name: Text,
    /// Its own version, if it has one.
    pub version: Text,
    /// Its bytes; `None` renews what was sent before.
    pub bytes: Option<Bytes>,
    /// How long it may be used.
    pub ttl: Option<Duration>,
}

/// The first field of every resource of xDS.
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

/// The position of a type; requests on a stream that carries one type only need not state it.
fn kind_or(types: &[TypeUrl], type_url: &str, only: Option<usize>) -> Option<usize> {
    if type_url.is_empty() { only } else { kind_of(types, type_url) }
}

/// Reads a request; `only` is the type of a stream that carries no other.
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

/// Any message: a row of fields.
#[derive(Clone, PartialEq, prost::Message)]
struct Fields {}

/// Whether it is a message, whatever its fields are.
pub(super) fn is_message(bytes: &Bytes) -> bool {
    Fields::decode(bytes.clone()).is_ok()
}

/// Reads a response.
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

fn item_of_any(any: &proto::Any) -> Option<Item> {
    if any.type_url == WRAPPER {
        return Some(item_of_wrapper(proto::Resource::decode(any.value.clone()).ok()?));
    }
    let name = Named::decode(any.value.clone()).ok()?.name.into();
    Some(Item { name, version: Text::default(), bytes: Some(any.value.clone()), ttl: None })
}

fn item_of_wrapper(wrapper: proto::Resource) -> Item {
    let ttl = wrapper.ttl.map(|ttl| {
        let (seconds, nanos) = (u64::try_from(ttl.seconds), u32::try_from(ttl.nanos));
        Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
    });
    Item {
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
