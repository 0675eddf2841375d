//! The xDS part of an Envoy bootstrap.
// S0.058, S0.059

use xds_core::client::Interest;

use super::{
    api::ApiConfigSource,
    message::Message,
    source::{ConfigSource, Specifier},
    static_resources::{self, StaticResource},
};
use crate::{
    error::{BootstrapError, ErrorKind, Warning},
    json::{self, Field},
    node::NodeIdentity,
};

/// The xDS part of an Envoy bootstrap: node, sources of resources, and static resources. Other
/// parts are ignored.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EnvoyBootstrap {
    /// Node of the proxy.
    pub node: NodeIdentity,
    /// Source of listeners.
    pub lds: Option<ConfigSource>,
    /// Source of clusters.
    pub cds: Option<ConfigSource>,
    /// Name of the listener collection, if listeners come from a collection.
    // B20
    pub lds_locator: Option<String>,
    /// Name of the cluster collection, if clusters come from a collection.
    pub cds_locator: Option<String>,
    /// Server of the aggregated stream, for all sources that are `ads`.
    // S0.059
    pub ads: Option<ApiConfigSource>,
    /// Sources for names with an authority. Each lists its authorities.
    // B20
    pub config_sources: Vec<ConfigSource>,
    /// Source for authorities that no other source lists.
    pub default_config_source: Option<ConfigSource>,
    /// Listeners, clusters and secrets in the file itself, in file order.
    // S4.018
    pub static_resources: Vec<StaticResource>,
    /// Warnings for the author of the bootstrap.
    // X43
    pub warnings: Vec<Warning>,
}

pub(super) fn interest(locator: Option<&str>) -> Interest<'_> {
    locator.map_or(Interest::Wildcard, Interest::Glob)
}

impl EnvoyBootstrap {
    /// Parses the JSON form of a bootstrap: `node`, `dynamic_resources`, `static_resources` and the
    /// config sources. `xds-format` converts YAML to JSON.
    ///
    /// A node without id or cluster is accepted, because both may come from the command line (see
    /// [`NodeIdentity::check_for_envoy`]).
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON, a field is missing or invalid, a source is `ads`
    /// without an `ads_config`, or the `ads_config` is REST.
    // S0.204
    pub fn from_json(text: &str) -> Result<Self, BootstrapError> {
        let value = json::parse(text)?;
        let top = Message::open(Field::root(&value))?;
        let source =
            |message: &Message<'_>, name| message.get(name).map(ConfigSource::read).transpose();
        let node = top
            .get("node")
            .map_or_else(|| Ok(NodeIdentity::default()), |node| NodeIdentity::read(&node))?;
        let (mut lds, mut cds, mut ads) = (None, None, None);
        let (mut lds_locator, mut cds_locator) = (None, None);
        if let Some(field) = top.get("dynamic_resources") {
            let dynamic = Message::read(
                field,
                &[
                    "lds_config",
                    "lds_resources_locator",
                    "cds_config",
                    "cds_resources_locator",
                    "ads_config",
                ],
            )?;
            (lds, cds) = (source(&dynamic, "lds_config")?, source(&dynamic, "cds_config")?);
            let locator = |name| {
                dynamic.get(name).map(|field| field.nonempty().map(String::from)).transpose()
            };
            lds_locator = locator("lds_resources_locator")?;
            cds_locator = locator("cds_resources_locator")?;
            ads = match dynamic.get("ads_config") {
                None => None,
                Some(field) => {
                    let api = ApiConfigSource::read(field.clone())?;
                    api.check_as_ads().map_err(|why| {
                        BootstrapError::new(field.path_of(why.path()), why.kind().clone())
                    })?;
                    Some(api)
                }
            };
        }
        let mut warnings = Vec::new();
        let static_resources = match top.get("static_resources") {
            None => Vec::new(),
            Some(field) => static_resources::read(field, &mut warnings)?,
        };
        let bootstrap = Self {
            node,
            lds,
            cds,
            lds_locator,
            cds_locator,
            ads,
            config_sources: top
                .elements("config_sources")?
                .into_iter()
                .map(ConfigSource::read)
                .collect::<Result<_, _>>()?,
            default_config_source: source(&top, "default_config_source")?,
            static_resources,
            warnings,
        };
        bootstrap.check()?;
        Ok(bootstrap)
    }

    /// Returns the interest of the proxy in listeners: all of them, or those of the collection in
    /// the bootstrap.
    // B20
    #[must_use]
    pub fn listeners(&self) -> Interest<'_> {
        interest(self.lds_locator.as_deref())
    }

    /// Returns the interest of the proxy in clusters: all of them, or those of the collection in
    /// the bootstrap.
    #[must_use]
    pub fn clusters(&self) -> Interest<'_> {
        interest(self.cds_locator.as_deref())
    }

    /// Returns the source for names of an authority.
    // B20
    #[must_use]
    pub fn source_of(&self, authority: &str) -> Option<&ConfigSource> {
        self.config_sources
            .iter()
            .find(|source| source.authorities.iter().any(|name| name == authority))
            .or(self.default_config_source.as_ref())
    }

    /// Checks that there is an aggregated stream if a source is `ads`.
    // S0.059
    fn check(&self) -> Result<(), BootstrapError> {
        if self.ads.is_some() {
            return Ok(());
        }
        let named = [
            ("dynamic_resources.lds_config", &self.lds),
            ("dynamic_resources.cds_config", &self.cds),
            ("default_config_source", &self.default_config_source),
        ];
        let named = named
            .into_iter()
            .filter_map(|(name, source)| Some((String::from(name), source.as_ref()?)));
        let listed = self
            .config_sources
            .iter()
            .enumerate()
            .map(|(index, source)| (format!("config_sources[{index}]"), source));
        match named.chain(listed).find(|(_, source)| source.specifier == Specifier::Ads) {
            None => Ok(()),
            Some((user, _)) => {
                let path = "dynamic_resources.ads_config";
                Err(BootstrapError::new(path, ErrorKind::AdsMissing(user)))
            }
        }
    }
}
