//! Arguments that describe the node of a client.

use core::str::FromStr;

use clap::Args;
use serde_json::{Map, Value as Json};
use thiserror::Error;
use xds_bootstrap::NodeIdentity;
use xds_core::proto;

/// Identity of the client.
#[derive(Args, Debug)]
#[command(next_help_heading = "Node (what the server knows about the client)")]
pub(crate) struct NodeArgs {
    /// Node id [default: xds-watch or xds-get, or the id in the bootstrap; xds-load
    /// for load, which adds the number of the client].
    #[arg(long, alias = "node", value_name = "ID")]
    pub(crate) node_id: Option<String>,

    /// Cluster of the node [default: none, or the cluster in the bootstrap].
    ///
    /// Some servers select the resources by this value.
    #[arg(long, alias = "cluster", value_name = "NAME")]
    pub(crate) node_cluster: Option<String>,

    /// Locality of the node [default: none, or the locality in the bootstrap].
    #[arg(long, value_name = "REGION[/ZONE[/SUBZONE]]")]
    pub(crate) locality: Option<Locality>,

    /// Field of the node's metadata. May be given several times.
    ///
    /// VALUE is JSON, such as 3, true, '["a"]' or '{"b": 1}'; anything else is a string. A JSON
    /// object instead of KEY=VALUE sets each of its fields. A field replaces the one with the same
    /// key in the bootstrap or in an earlier option.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) metadata: Vec<Metadata>,
}

impl NodeArgs {
    /// Sets what the flags state, and keeps the rest.
    pub(crate) fn apply(&self, node: &mut NodeIdentity) {
        if let Some(id) = &self.node_id {
            node.id.clone_from(id);
        }
        if let Some(cluster) = &self.node_cluster {
            node.cluster.clone_from(cluster);
        }
        if let Some(Locality(locality)) = &self.locality {
            node.locality = Some(locality.clone());
        }
        for Metadata(fields) in &self.metadata {
            node.set_metadata(fields);
        }
    }
}

/// Locality given as `REGION[/ZONE[/SUBZONE]]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Locality(proto::Locality);

#[derive(Debug, Error, PartialEq, Eq)]
#[error("expected REGION, REGION/ZONE or REGION/ZONE/SUBZONE")]
pub(crate) struct InvalidLocality;

impl FromStr for Locality {
    type Err = InvalidLocality;

    fn from_str(text: &str) -> Result<Self, InvalidLocality> {
        let parts: Vec<&str> = text.split('/').collect();
        if parts.len() > 3 || parts.iter().any(|part| part.is_empty()) {
            return Err(InvalidLocality);
        }
        let part = |at: usize| parts.get(at).copied().unwrap_or_default().to_owned();
        Ok(Self(proto::Locality { region: part(0), zone: part(1), sub_zone: part(2) }))
    }
}

/// Fields of the metadata, given as `KEY=VALUE` or as a JSON object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Metadata(Map<String, Json>);

#[derive(Debug, Error)]
pub(crate) enum InvalidMetadata {
    #[error("expected KEY=VALUE, or a JSON object")]
    NoValue,
    #[error("the key before `=` is missing")]
    NoKey,
    #[error("not a JSON object: {0}")]
    Object(serde_json::Error),
}

impl FromStr for Metadata {
    type Err = InvalidMetadata;

    fn from_str(text: &str) -> Result<Self, InvalidMetadata> {
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text).map(Self).map_err(InvalidMetadata::Object);
        }
        let (key, value) = text.split_once('=').ok_or(InvalidMetadata::NoValue)?;
        if key.is_empty() {
            return Err(InvalidMetadata::NoKey);
        }
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        Ok(Self(Map::from_iter([(key.to_owned(), value)])))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn locality_has_one_to_three_parts() {
        let parsed = |text: &str| {
            let Locality(it) = text.parse::<Locality>().ok()?;
            Some([it.region, it.zone, it.sub_zone].join("|"))
        };
        assert_eq!(parsed("eu").as_deref(), Some("eu||"));
        assert_eq!(parsed("eu/a").as_deref(), Some("eu|a|"));
        assert_eq!(parsed("eu/a/rack 1").as_deref(), Some("eu|a|rack 1"));
        for text in ["", "/a", "eu/", "eu//b", "a/b/c/d"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn metadata_value_is_json_or_else_a_string() {
        let parsed = |text: &str| Json::Object(text.parse::<Metadata>().unwrap().0);
        for (text, expected) in [
            ("role=edge", json!({ "role": "edge" })),
            ("role=", json!({ "role": "" })),
            ("n=3", json!({ "n": 3 })),
            ("n=\"3\"", json!({ "n": "3" })),
            ("on=true", json!({ "on": true })),
            ("x=a=b", json!({ "x": "a=b" })),
            ("x.y=1", json!({ "x.y": 1 })),
            ("x={\"y\": [1, null]}", json!({ "x": { "y": [1, null] } })),
            ("x={odd", json!({ "x": "{odd" })),
            (" {\"a\": 1, \"b\": {\"c\": 2}}", json!({ "a": 1, "b": { "c": 2 } })),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
        for (text, part) in [("role", "KEY=VALUE"), ("=x", "the key"), ("{a: 1}", "not a JSON")] {
            let why = text.parse::<Metadata>().unwrap_err().to_string();
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn flags_replace_what_the_bootstrap_states() {
        let mut node = NodeIdentity::default();
        node.id = "of-bootstrap".into();
        let fields = json!({ "kept": 1, "replaced": { "a": 1 } });
        node.set_metadata(fields.as_object().unwrap());
        let args = NodeArgs {
            node_id: None,
            node_cluster: Some("c".into()),
            locality: "eu/a".parse().ok(),
            metadata: ["replaced=x", "added=true", "added=false"]
                .map(|it| it.parse().unwrap())
                .into(),
        };
        args.apply(&mut node);
        let mut expected = NodeIdentity::default();
        expected.id = "of-bootstrap".into();
        expected.cluster = "c".into();
        expected.locality = Some(proto::Locality {
            region: "eu".into(),
            zone: "a".into(),
            sub_zone: String::new(),
        });
        let fields = json!({ "kept": 1, "replaced": "x", "added": false });
        expected.set_metadata(fields.as_object().unwrap());
        assert_eq!(node, expected);
    }
}
