//! Messages on their way, and what they say in words that both variants share.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use xds_core::{TypeUrl, proto, service::Variant};

use crate::trace::MessageId;

/// A message, as it goes from one end of a stream to the other.
#[derive(Debug)]
pub struct Message {
    /// Which one.
    pub id: MessageId,
    /// As it is on the wire.
    pub bytes: Bytes,
    /// What it says; `None` if nobody asked, or it cannot be read.
    pub body: Option<Body>,
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
    pub nonce: String,
    /// State of the world: the version that was accepted last.
    pub version: String,
    /// The code of the error, if it rejects a response.
    pub error: Option<i32>,
    /// The id of the node, if it states one.
    pub node: Option<String>,
    /// What is wanted.
    pub names: Names,
}

/// What a request says of what is wanted.
#[derive(Clone, Debug, PartialEq)]
pub enum Names {
    /// State of the world: all of it.
    Whole(Vec<String>),
    /// Incremental: how it changes.
    Change {
        /// What is wanted from now on.
        subscribe: Vec<String>,
        /// What is not wanted any more.
        unsubscribe: Vec<String>,
        /// What the client has, with its versions, by name.
        versions: Vec<(String, String)>,
    },
}

impl Names {
    /// The names from which something is wanted now, or newly.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let (Self::Whole(names) | Self::Change { subscribe: names, .. }) = self;
        names.iter().map(String::as_str)
    }
}

/// What a server says.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// The position of the type among those of the world; `None` for another one.
    pub kind: Option<usize>,
    /// What the answer is to state.
    pub nonce: String,
    /// The version of the whole.
    pub version: String,
    /// Resources.
    pub resources: Vec<Item>,
    /// Incremental: names of what does not exist.
    pub removed: Vec<String>,
    /// Names of what cannot be had, with the code of the reason.
    pub errors: Vec<(String, i32)>,
}

/// A resource in a response.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Its name.
    pub name: String,
    /// Its own version, if it has one.
    pub version: String,
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
            let it = proto::DiscoveryRequest::decode(&**bytes).ok()?;
            Request {
                kind: kind_or(types, &it.type_url, only),
                nonce: it.response_nonce,
                version: it.version_info,
                error: it.error_detail.map(|status| status.code),
                node: it.node.map(|node| node.id),
                names: Names::Whole(it.resource_names),
            }
        }
        Variant::Incremental => {
            let it = proto::DeltaDiscoveryRequest::decode(&**bytes).ok()?;
            Request {
                kind: kind_or(types, &it.type_url, only),
                nonce: it.response_nonce,
                version: String::new(),
                error: it.error_detail.map(|status| status.code),
                node: it.node.map(|node| node.id),
                names: Names::Change {
                    subscribe: it.resource_names_subscribe,
                    unsubscribe: it.resource_names_unsubscribe,
                    versions: it.initial_resource_versions.into_iter().collect(),
                },
            }
        }
    })
}

/// Reads a response.
pub(crate) fn read_response(
    bytes: &Bytes,
    variant: Variant,
    types: &[TypeUrl],
) -> Option<Response> {
    Some(match variant {
        Variant::StateOfTheWorld => {
            let it = proto::DiscoveryResponse::decode(&**bytes).ok()?;
            let resources = it.resources.into_iter().map(|any| item_of_any(&any));
            Response {
                kind: kind_of(types, &it.type_url),
                nonce: it.nonce,
                version: it.version_info,
                resources: resources.collect::<Option<_>>()?,
                removed: Vec::new(),
                errors: it.resource_errors.into_iter().map(error_of).collect(),
            }
        }
        Variant::Incremental => {
            let it = proto::DeltaDiscoveryResponse::decode(&**bytes).ok()?;
            Response {
                kind: kind_of(types, &it.type_url),
                nonce: it.nonce,
                version: it.system_version_info,
                resources: it.resources.into_iter().map(item_of_wrapper).collect(),
                removed: it.removed_resources,
                errors: it.resource_errors.into_iter().map(error_of).collect(),
            }
        }
    })
}

fn item_of_any(any: &proto::Any) -> Option<Item> {
    if any.type_url == WRAPPER {
        return Some(item_of_wrapper(proto::Resource::decode(&*any.value).ok()?));
    }
    let name = Named::decode(&*any.value).ok()?.name;
    Some(Item { name, version: String::new(), bytes: Some(any.value.clone()), ttl: None })
}

fn item_of_wrapper(wrapper: proto::Resource) -> Item {
    let ttl = wrapper.ttl.map(|ttl| {
        let (seconds, nanos) = (u64::try_from(ttl.seconds), u32::try_from(ttl.nanos));
        Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
    });
    Item {
        name: wrapper.name,
        version: wrapper.version,
        bytes: wrapper.resource.map(|any| any.value),
        ttl,
    }
}

fn error_of(error: proto::ResourceError) -> (String, i32) {
    let name = error.resource_name.map(|name| name.name).unwrap_or_default();
    (name, error.error_detail.map(|status| status.code).unwrap_or_default())
}
