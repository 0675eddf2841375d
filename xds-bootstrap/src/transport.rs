//! Transport ids of servers, and the credentials that they identify.
//!
//! The core only compares [`TransportId`]s; the adapter resolves them. Servers that are reached in
//! the same way have equal ids, so they share one channel. An id contains paths and fields of the
//! configuration, but no secrets.
// FE-16, BS-25

use serde_json::json;
use xds_core::client::TransportId;

use crate::{credentials::CallCredentials, grpc::Bootstrap, server::XdsServer};

impl XdsServer {
    /// Returns the id of the server's channel and call credentials.
    #[must_use]
    pub fn transport_id(&self) -> TransportId {
        let calls = self.call_credentials.iter().map(CallCredentials::to_json);
        let names = json!({
            "channel_creds": self.channel_credentials.to_json(),
            "call_creds": calls.collect::<Vec<_>>(),
        });
        names.to_string().into()
    }
}

impl Bootstrap {
    /// Returns all servers of the bootstrap, including those of authorities. An adapter must know
    /// the [transport](XdsServer::transport_id) of each.
    pub fn all_servers(&self) -> impl Iterator<Item = &XdsServer> {
        let of_authorities = self.authorities.values().flat_map(|entry| &entry.servers);
        self.servers.iter().chain(of_authorities)
    }
}
