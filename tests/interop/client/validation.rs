//! As much of gRPC's validation as the scenes make use of, so that both clients reject the same
//! resources.

use bytes::Bytes;
use prost::Message;
use xds_core::{
    TypeUrl,
    client::{Context, Rejection, ResourceType, Value},
    proto::Any,
    types,
};

/// A type with a rule of its own.
#[derive(Debug)]
pub(crate) struct Validated {
    type_url: TypeUrl,
    check: fn(&Bytes) -> Result<(), Rejection>,
}

impl Validated {
    /// Listeners for clients, which need at least one HTTP filter (gRFC A39).
    pub(crate) fn listeners() -> Self {
        Self { type_url: TypeUrl::from(types::LISTENER), check: check_listener }
    }

    /// Clusters, whose endpoints have to be discovered somehow (gRFC A27).
    pub(crate) fn clusters() -> Self {
        Self { type_url: TypeUrl::from(types::CLUSTER), check: check_cluster }
    }
}

impl ResourceType for Validated {
    fn type_url(&self) -> &TypeUrl {
        &self.type_url
    }

    fn validate(&self, bytes: &Bytes, _: &Context<'_>) -> Result<Option<Value>, Rejection> {
        (self.check)(bytes).map(|()| None)
    }
}

fn check_listener(bytes: &Bytes) -> Result<(), Rejection> {
    let listener: Listener = decode(bytes)?;
    let Some(manager) = listener.api_listener.and_then(|listener| listener.api_listener) else {
        return Err(Rejection::new("api_listener: not set"));
    };
    let manager: HttpConnectionManager = decode(&manager.value)?;
    match manager.http_filters.is_empty() {
        true => Err(Rejection::new("http_filters: none")),
        false => Ok(()),
    }
}

fn check_cluster(bytes: &Bytes) -> Result<(), Rejection> {
    const LOGICAL_DNS: i32 = 2;
    const EDS: i32 = 3;
    let cluster: Cluster = decode(bytes)?;
    match cluster.discovery_type {
        LOGICAL_DNS | EDS => Ok(()),
        other => Err(Rejection::new(format!("type: {other} is not supported"))),
    }
}

fn decode<M: Message + Default>(bytes: &Bytes) -> Result<M, Rejection> {
    M::decode(bytes.clone()).map_err(|why| Rejection::new(why.to_string()))
}

// The fields that are looked at; prost passes over all others.

#[derive(Message)]
struct Listener {
    #[prost(message, optional, tag = "19")]
    api_listener: Option<ApiListener>,
}

#[derive(Message)]
struct ApiListener {
    #[prost(message, optional, tag = "1")]
    api_listener: Option<Any>,
}

#[derive(Message)]
struct HttpConnectionManager {
    #[prost(message, repeated, tag = "5")]
    http_filters: Vec<HttpFilter>,
}

#[derive(Message)]
struct HttpFilter {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Message)]
struct Cluster {
    /// In a oneof, but there it is read alike.
    #[prost(int32, tag = "2")]
    discovery_type: i32,
}
