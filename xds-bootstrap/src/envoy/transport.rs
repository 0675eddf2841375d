//! Transport ids of servers, and the services that they identify.

use xds_core::client::TransportId;

use super::{ApiConfigSource, ConfigSource, EnvoyBootstrap, Specifier, Target};

impl EnvoyBootstrap {
    /// Returns the targets of each server of [`EnvoyBootstrap::client_config`], by transport id. An
    /// adapter needs them because it cannot connect to a cluster by name alone.
    ///
    /// Successive connection attempts to a server use its targets in rotation. Servers with equal
    /// lists of targets share an entry.
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
