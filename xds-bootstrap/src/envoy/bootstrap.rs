//! The part of a proxy's bootstrap that is about xDS (S0.058, S0.059).

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

/// Where a proxy gets listeners and clusters from, which it has already, and who it is. All else in the file is somebody
/// else's.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EnvoyBootstrap {
    /// Who the proxy is.
    pub node: NodeIdentity,
    /// How listeners are obtained.
    pub lds: Option<ConfigSource>,
    /// How clusters are obtained.
    pub cds: Option<ConfigSource>,
    /// The collection of listeners that is wanted, where it has a name (B20).
    pub lds_locator: Option<String>,
    /// The collection of clusters that is wanted, where it has a name.
    pub cds_locator: Option<String>,
    /// Where the aggregated stream is, for all sources that say `ads` (S0.059).
    pub ads: Option<ApiConfigSource>,
    /// Sources for names with an authority, which each names those it is for (B20).
    pub config_sources: Vec<ConfigSource>,
    /// The source for authorities that no other source names.
    pub default_config_source: Option<ConfigSource>,
    /// Resources that are had without a server (S4.018): listeners, clusters, secrets, in the order of the file.
    pub static_resources: Vec<StaticResource>,
    /// What was read, but should be written otherwise (X43).
    pub warnings: Vec<Warning>,
}

pub(super) fn interest(locator: Option<&str>) -> Interest<'_> {
    locator.map_or(Interest::Wildcard, Interest::Glob)
}

impl EnvoyBootstrap {
    /// Reads the JSON form of a bootstrap, `node`, `dynamic_resources` and `static_resources` of it and the
    /// sources beside them. For a file in YAML, `xds-format` gives the JSON.
    ///
    /// # Errors
    ///
    /// What is wrong, and in which field; also a source that says `ads` where no `ads_config` is,
    /// and an `ads_config` that is REST (S0.204). A node without an id or a cluster is taken, for
    /// both may come from the command line (see [`NodeIdentity::check_for_envoy`]).
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

    /// What a proxy watches of listeners: all of them, or those of the collection that the bootstrap names
    /// (B20).
    #[must_use]
    pub fn listeners(&self) -> Interest<'_> {
        interest(self.lds_locator.as_deref())
    }

    /// What a proxy watches of clusters.
    #[must_use]
    pub fn clusters(&self) -> Interest<'_> {
        interest(self.cds_locator.as_deref())
    }

    /// The source for names of an authority (B20).
    #[must_use]
    pub fn source_of(&self, authority: &str) -> Option<&ConfigSource> {
        self.config_sources
            .iter()
            .find(|source| source.authorities.iter().any(|name| name == authority))
            .or(self.default_config_source.as_ref())
    }

    /// Everything that says `ads` must have a stream to mean (S0.059).
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
