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
        grpc::full_state => "a watch, its value and its ACK, though headers are held back until there is a request",
        grpc::changes => "the same in the incremental variant",
        grpc::stream_of_a_type => "a stream of a type goes to the service of the type",
        grpc::rejection => "a resource that is bad is rejected, with the reason",
        grpc::coming_back => "a stream that ends begins again, with the version and without the nonce",
        grpc::late_frames => "what comes after the end of a stream is for nobody",
        grpc::too_long => "a response beyond the limit ends the stream",
        grpc::unpolled => "a watch that is not polled delays no other watch",
        grpc::unread_end => "a stream that ends while nobody reads begins again",
        grpc::silent => "a server that accepts connections and sends no SETTINGS is one that cannot be connected to",
        grpc::half_open => "a connection that has fallen silent is found out by pings",
        grpc::shut_down => "a client that is shut down with watches ends them and its streams",
        secured::mutual_tls_and_token => "both ends show certificates, and calls carry the token",
        secured::strangers => "a server of another authority is not spoken to",
    ];

    /// Test cases for polling over REST-JSON. The client needs the schema of the API.
    REST = [
        rest::unchanged => "a server that has nothing new is asked again, and is well",
        rest::failing => "a server that answers with an error is told of, and asked again",
        rest::statuses => "whatever is no answer is told with who said it, and what was good stays",
        rest::too_long => "an answer beyond the limit is not read",
        rest::silent => "a server that does not answer in time is given up, and asked again",
        rest::shut_down => "a client that is shut down with watches ends them and its request",
        rest::late_answer => "an answer to a client that was shut down is for nobody",
    ];

    /// Test cases for files. The client needs the schema of the API.
    FILES = [
        files::rename => "a file that is replaced is read again",
        files::swapped_directory => "so is one in a directory that is swapped as a whole",
        files::created_again => "and one that is deleted and created again, what was good staying meanwhile",
        files::shut_down => "a client that is shut down with watches ends them",
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
