//! Transport ids of servers, and the credentials and services that they identify.
//!
//! The core only compares [`TransportId`]s; the adapter resolves them. Servers that are reached in
//! the same way have equal ids, so they share one channel. An id contains paths and fields of the
//! configuration, but no secrets.
// FE-16, BS-25

use serde_json::json;
use xds_core::client::TransportId;

use crate::{
    credentials::CallCredentials,
    envoy::{ApiConfigSource, ConfigSource, EnvoyBootstrap, Specifier, Target},
    grpc::Bootstrap,
    server::XdsServer,
};

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

impl EnvoyBootstrap {
    /// Returns the targets of each server of [`EnvoyBootstrap::client_config`], by transport id.
    ///
    /// Connection attempts to a server use its targets in turn. Equal lists appear once. An adapter
    /// needs them, because it cannot connect to a cluster by name alone.
    // B18
    pub fn transports(&self) -> impl Iterator<Item = (TransportId, Vec<Target<'_>>)> {
        let is_first = |(field, api): &(String, &ApiConfigSource)| self.first_use(api) == *field;
        self.apis()
            .filter(is_first)
            .map(|(field, api)| (field.into(), api.targets().collect::<Vec<_>>()))
            .filter(|(_, targets)| !targets.is_empty())
    }

    /// Returns the id of a list of targets: the first field with an equal list.
    pub(crate) fn transport_id(&self, api: &ApiConfigSource) -> TransportId {
        self.first_use(api).into()
    }

    fn first_use(&self, api: &ApiConfigSource) -> String {
        let first = self.apis().find(|(_, other)| other.targets().eq(api.targets()));
        first.map(|(field, _)| field).unwrap_or_default()
    }

    /// Returns all sources with targets, and their fields.
    fn apis(&self) -> impl Iterator<Item = (String, &ApiConfigSource)> {
        let ads = self.ads.as_ref().map(|ads| ("dynamic_resources.ads_config".to_owned(), ads));
        let own = [
            ("dynamic_resources.lds_config", &self.lds),
            ("dynamic_resources.cds_config", &self.cds),
            ("default_config_source", &self.default_config_source),
        ];
        let own = own.into_iter().filter_map(|(field, source)| {
            Some((field.to_owned(), source.as_ref().and_then(api_of)?))
        });
        let listed = self.config_sources.iter().enumerate();
        let listed = listed
            .filter_map(|(at, source)| Some((format!("config_sources[{at}]"), api_of(source)?)));
        ads.into_iter().chain(own).chain(listed)
    }
}

fn api_of(source: &ConfigSource) -> Option<&ApiConfigSource> {
    match &source.specifier {
        Specifier::Api(api) => Some(api),
        _ => None,
    }
}
