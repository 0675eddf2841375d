//! Test cases for client adapters.

mod files;
mod grpc;
mod rest;
mod secured;

use core::net::SocketAddr;

use bytes::Bytes;
use xds_core::{
    TypeUrl,
    client::{
        BackoffPolicy, ClientConfig, Node, OpaqueType, Profile, Rejection, ResourceType,
        ServerAddress, ValidationContext, Value,
    },
    types::CLUSTER,
};

use crate::{Case, ClientAdapter};

macro_rules! cases {
    ($($(#[$about:meta])* $name:ident = [$($case:path => $what:literal,)*];)*) => {$(
        $(#[$about])*
        pub const $name: &[Case<dyn ClientAdapter>] = &[
            $(Case { name: $what, run: |adapter| smol::block_on($case(adapter)) },)*
        ];
    )*};
}

cases! {
    /// Test cases for streams.
    GRPC = [
        grpc::full_state => "a watch receives its value and the server its ACK, even if the server sends headers only after a request",
        grpc::changes => "an incremental watch receives its value and the server its ACK",
        grpc::stream_of_a_type => "a single-type stream uses the service of its type",
        grpc::rejection => "an invalid resource is rejected with the reason",
        grpc::coming_back => "an ended stream is reopened with the version and without the nonce",
        grpc::late_frames => "messages after the end of a stream are ignored",
        grpc::too_long => "a response above the size limit ends the stream",
        grpc::unpolled => "an unpolled watch does not delay other watches",
        grpc::unread_end => "a stream that ends while reading is paused is reopened",
        grpc::silent => "connecting fails if the server accepts connections but sends no SETTINGS",
        grpc::half_open => "keepalive pings detect a silent connection",
        grpc::shut_down => "shutting down a client ends its watches and streams",
        secured::mutual_tls_and_token => "mutual TLS is used, and calls carry the token",
        secured::strangers => "a server with a certificate of an unknown authority is not used",
    ];

    /// Test cases for polling over REST-JSON. The client needs the schema of the API.
    REST = [
        rest::unchanged => "a server without changes is polled again and counts as healthy",
        rest::failing => "an error response is reported, and the server is polled again",
        rest::statuses => "an invalid response is reported with its source, and valid resources stay in use",
        rest::too_long => "a response above the size limit is not read",
        rest::silent => "a request without a response times out and is repeated",
        rest::shut_down => "shutting down a client ends its watches and its request",
        rest::late_answer => "a response after the shutdown of the client is ignored",
    ];

    /// Test cases for files. The client needs the schema of the API.
    FILES = [
        files::rename => "a replaced file is read again",
        files::swapped_directory => "a file in a replaced directory is read again",
        files::created_again => "a deleted and recreated file is read again, and valid resources stay in use meanwhile",
        files::shut_down => "shutting down a client ends its watches",
    ];
}

/// Returns the configuration of a client of `server` that reconnects within milliseconds.
fn config(server: ServerAddress) -> ClientConfig {
    let mut profile = Profile::grpc();
    profile.backoff = BackoffPolicy::grpc();
    profile.backoff.initial = core::time::Duration::from_millis(20);
    profile.backoff.max = core::time::Duration::from_millis(100);
    ClientConfig::new(Node::new("node-1"), server)
        .with_profile(profile)
        .with_type(RejectingType(OpaqueType::new(CLUSTER)))
}

fn at(address: SocketAddr) -> ServerAddress {
    ServerAddress::new(address.to_string())
}

/// Resource type that rejects resources with the word `bad`.
#[derive(Debug)]
struct RejectingType(OpaqueType);

impl ResourceType for RejectingType {
    fn type_url(&self) -> &TypeUrl {
        self.0.type_url()
    }

    fn validate(
        &self,
        bytes: &Bytes,
        _: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        match bytes.windows(3).any(|word| word == b"bad") {
            true => Err(Rejection::new("it is bad")),
            false => Ok(None),
        }
    }
}
