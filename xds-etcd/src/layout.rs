//! Names of keys.

use thiserror::Error;
use xds_core::{ResourceName, TypeUrl, ViewName, types};

use crate::range::KeyRange;

/// Names of the keys of a set of resources: `PREFIX/VIEW/TYPE/NAME`.
///
/// - `VIEW` is the name of a view; `default` is the one without a name.
/// - `TYPE` is `clusters`, `endpoints`, `listeners`, `routes`, `scoped-routes`, `virtual-hosts`,
///   `secrets`, `runtimes` or `extension-configs`, a short name such as `cds`, or the full name of a
///   message.
/// - `NAME` is the name of the resource, and may have slashes.
///
/// Keys of `PREFIX/VIEW/endpoints/CLUSTER/ID` with a lease are registrations of endpoints.
/// `PREFIX/@current` names the generation that is served, and `PREFIX/@generations/GENERATION` has
/// its keys, in the same form. Without that key, the keys below `PREFIX` itself are served.
/// Registrations are always below `PREFIX` itself. `PREFIX/@force` has the ids of refused changes
/// to apply anyway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Prefix without a slash at its end.
    prefix: String,
}

/// Name of a key of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceKey {
    pub(crate) view: ViewName,
    pub(crate) type_url: TypeUrl,
    pub(crate) name: ResourceName,
}

/// Fault of the name of a key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum KeyFault {
    #[error("the key is not valid UTF-8")]
    NotText,
    #[error("the key does not have the form PREFIX/VIEW/TYPE/NAME")]
    Form,
    #[error(
        "unknown type {0:?}: use clusters, endpoints, listeners, routes, scoped-routes, \
         virtual-hosts, secrets, runtimes, extension-configs, a short name such as cds, or the \
         full name of a message"
    )]
    Type(String),
}

/// Name of the segment for the view without a name.
const DEFAULT_VIEW: &str = "default";

/// Key that names the current generation.
const CURRENT: &str = "@current";

/// Key that a writer changes before it writes a generation, and whenever it removes resources. The
/// revision of that change is the name of the generation.
const WRITER: &str = "@writer";

/// Segment above the keys of generations.
const GENERATIONS: &str = "@generations";

/// Key with the ids of refused changes to apply anyway.
const FORCE: &str = "@force";

/// Segment above the rejections by clients and the refusals by guards.
const REJECTED: &str = "@rejected";

/// Segment above the state of rollouts.
const ROLLOUT: &str = "@rollout";

/// Names of types in keys.
const TYPES: [(&str, &str); 9] = [
    ("clusters", types::CLUSTER),
    ("endpoints", types::CLUSTER_LOAD_ASSIGNMENT),
    ("listeners", types::LISTENER),
    ("routes", types::ROUTE_CONFIGURATION),
    ("scoped-routes", types::SCOPED_ROUTE_CONFIGURATION),
    ("virtual-hosts", types::VIRTUAL_HOST),
    ("secrets", types::SECRET),
    ("runtimes", types::RUNTIME),
    ("extension-configs", types::EXTENSION_CONFIG),
];

impl Layout {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.trim_end_matches('/').to_owned() }
    }

    /// Returns the prefix of all keys.
    pub(crate) fn all(&self) -> String {
        format!("{}/", self.prefix)
    }

    /// Returns the key that names the current generation.
    pub(crate) fn current(&self) -> String {
        format!("{}/{CURRENT}", self.prefix)
    }

    /// Returns the key with the ids of refused changes to apply anyway.
    pub(crate) fn force(&self) -> String {
        format!("{}/{FORCE}", self.prefix)
    }

    /// Returns the key that a writer changes before it writes a generation, and whenever it removes
    /// resources.
    pub(crate) fn writer(&self) -> String {
        format!("{}/{WRITER}", self.prefix)
    }

    /// Returns the ranges of the resources of a generation.
    pub(crate) fn ranges(&self, generation: Option<&str>) -> Vec<KeyRange> {
        match generation {
            Some(_) => vec![KeyRange::of_prefix(&self.resources(generation))],
            // All keys below the prefix except those that begin with `@`.
            None => {
                let KeyRange { first, end } = KeyRange::of_prefix(&self.all());
                let special = KeyRange::of_prefix(&format!("{}@", self.all()));
                vec![KeyRange { first, end: special.first }, KeyRange { first: special.end, end }]
            }
        }
    }

    /// Returns the prefix of the keys of all generations.
    pub(crate) fn generations(&self) -> String {
        format!("{}/{GENERATIONS}/", self.prefix)
    }

    /// Returns the prefix of the rejections by clients and of the refusals by guards.
    pub(crate) fn rejected(&self) -> String {
        format!("{}/{REJECTED}/", self.prefix)
    }

    /// Returns the prefix of the state of rollouts.
    pub(crate) fn rollout(&self) -> String {
        format!("{}/{ROLLOUT}/", self.prefix)
    }

    /// Returns the part of a resource's key after the prefix and the generation.
    pub(crate) fn resource_of<'k>(&self, key: &'k str) -> Option<&'k str> {
        let rest = key.strip_prefix(&self.all())?;
        match rest.strip_prefix(GENERATIONS) {
            Some(generation) => generation.strip_prefix('/')?.split_once('/').map(|(_, rest)| rest),
            None => (!rest.starts_with('@')).then_some(rest),
        }
    }

    /// Returns the prefix of the resource keys of a generation; `None` for the keys below the prefix
    /// itself.
    pub(crate) fn resources(&self, generation: Option<&str>) -> String {
        match generation {
            None => self.all(),
            Some(generation) => format!("{}{generation}/", self.generations()),
        }
    }

    /// Returns the part of a key after the prefix of a generation's resources; `None` if the key
    /// does not belong to this generation.
    pub(crate) fn of_generation<'k>(
        &self,
        generation: Option<&str>,
        key: &'k [u8],
    ) -> Option<&'k [u8]> {
        let rest = key.strip_prefix(self.resources(generation).as_bytes())?;
        (!rest.starts_with(b"@")).then_some(rest)
    }

    /// Returns the key of a resource.
    pub(crate) fn key(&self, generation: Option<&str>, resource: &ResourceKey) -> String {
        let ResourceKey { view, type_url, name } = resource;
        let view = if view.as_str().is_empty() { DEFAULT_VIEW } else { view.as_str() };
        let type_segment = type_segment(type_url.as_str());
        format!("{}{view}/{type_segment}/{}", self.resources(generation), name.as_str())
    }
}

impl ResourceKey {
    /// Parses the part of a key after the prefix.
    pub(crate) fn parse(rest: &[u8]) -> Result<Self, KeyFault> {
        let rest = core::str::from_utf8(rest).map_err(|_| KeyFault::NotText)?;
        let mut segments = rest.splitn(3, '/');
        let (Some(view), Some(type_segment), Some(name)) =
            (segments.next(), segments.next(), segments.next())
        else {
            return Err(KeyFault::Form);
        };
        if view.is_empty() || name.is_empty() {
            return Err(KeyFault::Form);
        }
        let type_url = type_of(type_segment);
        let type_url = type_url.ok_or_else(|| KeyFault::Type(type_segment.to_owned()))?;
        let view = if view == DEFAULT_VIEW { "" } else { view };
        Ok(Self { view: view.into(), type_url: type_url.as_str().into(), name: name.into() })
    }

    /// Splits the name of a registration, `CLUSTER/ID`.
    pub(crate) fn registration(&self) -> Option<(&str, &str)> {
        let is_endpoints = self.type_url.as_str() == types::CLUSTER_LOAD_ASSIGNMENT;
        let (cluster, id) = self.name.as_str().rsplit_once('/')?;
        (is_endpoints && !cluster.is_empty() && !id.is_empty()).then_some((cluster, id))
    }
}

fn type_of(segment: &str) -> Option<String> {
    let named = TYPES.iter().find(|(name, _)| *name == segment).map(|(_, url)| *url);
    match named.or_else(|| types::by_short_name(segment)) {
        Some(url) => Some(url.to_owned()),
        None if segment.contains('.') => Some(format!("type.googleapis.com/{segment}")),
        None => None,
    }
}

fn type_segment(type_url: &str) -> &str {
    let named = TYPES.iter().find(|(_, url)| *url == type_url).map(|(name, _)| *name);
    named.unwrap_or_else(|| type_url.rsplit_once('/').map_or(type_url, |(_, message)| message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(view: &str, type_url: &str, name: &str) -> ResourceKey {
        ResourceKey { view: view.into(), type_url: type_url.into(), name: name.into() }
    }

    #[test]
    fn keys_are_parsed_as_they_are_written() {
        let layout = Layout::new("/xds/");
        let custom = "type.googleapis.com/example.Own";
        for (resource, text) in [
            (key("", types::CLUSTER, "web"), "/xds/default/clusters/web"),
            (key("edge", types::ROUTE_CONFIGURATION, "a/b/c"), "/xds/edge/routes/a/b/c"),
            (key("edge", custom, "x"), "/xds/edge/example.Own/x"),
        ] {
            assert_eq!(layout.key(None, &resource), text);
            let rest = layout.of_generation(None, text.as_bytes()).unwrap();
            assert_eq!(ResourceKey::parse(rest), Ok(resource.clone()));
            let in_generation = layout.key(Some("7"), &resource);
            assert!(in_generation.starts_with("/xds/@generations/7/"), "{in_generation}");
            assert_eq!(layout.of_generation(None, in_generation.as_bytes()), None);
            let rest = layout.of_generation(Some("7"), in_generation.as_bytes()).unwrap();
            assert_eq!(ResourceKey::parse(rest), Ok(resource));
        }
        assert_eq!(layout.of_generation(None, b"/xds/@current"), None);
        assert_eq!(ResourceKey::parse(b"edge/cds/a"), Ok(key("edge", types::CLUSTER, "a")));
    }

    #[test]
    fn other_keys_are_faults() {
        assert_eq!(ResourceKey::parse(b"web"), Err(KeyFault::Form));
        assert_eq!(ResourceKey::parse(b"default/clusters/"), Err(KeyFault::Form));
        assert_eq!(ResourceKey::parse(b"default/cluster/a"), Err(KeyFault::Type("cluster".into())));
        assert_eq!(ResourceKey::parse(b"default/clusters/\xff"), Err(KeyFault::NotText));
    }

    #[test]
    fn registration_is_the_last_segment_below_a_cluster() {
        let endpoints = |name| key("", types::CLUSTER_LOAD_ASSIGNMENT, name);
        assert_eq!(endpoints("a/b/1").registration(), Some(("a/b", "1")));
        assert_eq!(endpoints("a").registration(), None);
        assert_eq!(key("", types::CLUSTER, "a/1").registration(), None);
    }
}
