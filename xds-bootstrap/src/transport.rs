//! How servers are reached, under the names by which a client and its adapter speak of it.
//!
//! The core compares names ([`TransportId`]) and reads nothing into them; the adapter is told what each
//! of them stands for. Equal ways to reach a server have equal names, so one server is one channel
//! whoever names it (FE-16, BS-25). A name holds paths and fields of the configuration, no secrets.

use serde_json::json;
use xds_core::client::TransportId;

use crate::{
    credentials::CallCredentials,
    envoy::{ApiConfigSource, ConfigSource, EnvoyBootstrap, Specifier, Target},
    grpc::Bootstrap,
    server::XdsServer,
};

impl XdsServer {
    /// The name of the server's credentials, those of the channel and those of calls.
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
    /// All servers that the bootstrap has entries of, its own and those of authorities. An adapter has
    /// to know the [transport](XdsServer::transport_id) of each.
    pub fn all_servers(&self) -> impl Iterator<Item = &XdsServer> {
        let of_authorities = self.authorities.values().flat_map(|entry| &entry.servers);
        self.servers.iter().chain(of_authorities)
    }
}

impl EnvoyBootstrap {
    /// The places behind the servers of [`EnvoyBootstrap::client_config`], to take turns when one
    /// fails (B18), each list once and under its name. An adapter has to know them: a cluster's name
    /// alone cannot be dialled.
    pub fn transports(&self) -> impl Iterator<Item = (TransportId, Vec<Target<'_>>)> {
        let is_first = |(field, api): &(String, &ApiConfigSource)| self.first_use(api) == *field;
        self.apis()
            .filter(is_first)
            .map(|(field, api)| (field.into(), api.targets().collect::<Vec<_>>()))
            .filter(|(_, targets)| !targets.is_empty())
    }

    /// The name of a list of places: the field that has it first.
    pub(crate) fn transport_id(&self, api: &ApiConfigSource) -> TransportId {
        self.first_use(api).into()
    }

    fn first_use(&self, api: &ApiConfigSource) -> String {
        let first = self.apis().find(|(_, other)| other.targets().eq(api.targets()));
        first.map(|(field, _)| field).unwrap_or_default()
    }

    /// Everything that names places, with its field.
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
