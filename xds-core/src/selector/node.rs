//! Parts of a client's node that conditions look at.

use alloc::string::{String, ToString as _};

use crate::proto::{Node, Struct, Value, value::Kind};

/// Parts of a client's node that conditions look at.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct NodeFacts {
    /// Id of the node; empty if it has none.
    pub id: String,
    /// Cluster of the node.
    pub cluster: String,
    /// Region of the node's locality.
    pub region: String,
    /// Zone of the node's locality.
    pub zone: String,
    /// Sub-zone of the node's locality.
    pub sub_zone: String,
    /// Metadata of the node.
    pub metadata: Struct,
}

/// Part of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeField {
    /// Id of the node.
    Id,
    /// Cluster of the node.
    Cluster,
    /// Region of the node's locality.
    Region,
    /// Zone of the node's locality.
    Zone,
    /// Sub-zone of the node's locality.
    SubZone,
    /// Value in the metadata, by the names of the fields that lead to it, joined with dots. A list
    /// has several values; an object and null have none.
    Metadata(String),
}

impl From<Node> for NodeFacts {
    fn from(node: Node) -> Self {
        let locality = node.locality.unwrap_or_default();
        Self {
            id: node.id,
            cluster: node.cluster,
            region: locality.region,
            zone: locality.zone,
            sub_zone: locality.sub_zone,
            metadata: node.metadata.unwrap_or_default(),
        }
    }
}

impl NodeFacts {
    /// Returns the facts of a node of which only the id is known.
    #[must_use]
    pub fn with_id(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }

    /// Whether a value of the field fulfils a condition. A list in the metadata has several values,
    /// and a field that is missing there has none.
    pub(super) fn has(&self, field: &NodeField, is_met: impl Fn(&str) -> bool) -> bool {
        match field {
            NodeField::Id => is_met(&self.id),
            NodeField::Cluster => is_met(&self.cluster),
            NodeField::Region => is_met(&self.region),
            NodeField::Zone => is_met(&self.zone),
            NodeField::SubZone => is_met(&self.sub_zone),
            NodeField::Metadata(path) => {
                find(&self.metadata, path).is_some_and(|value| has(value, &is_met))
            }
        }
    }
}

/// Returns the value at a path. Names of fields may contain dots.
fn find<'s>(fields: &'s Struct, path: &str) -> Option<&'s Value> {
    if let Some(value) = fields.fields.get(path) {
        return Some(value);
    }
    path.match_indices('.').find_map(|(at, _)| {
        match fields.fields.get(path.get(..at)?)?.kind.as_ref()? {
            Kind::StructValue(inner) => find(inner, path.get(at + 1..)?),
            _ => None,
        }
    })
}

fn has(value: &Value, is_met: &impl Fn(&str) -> bool) -> bool {
    match &value.kind {
        Some(Kind::StringValue(text)) => is_met(text),
        Some(Kind::BoolValue(value)) => is_met(if *value { "true" } else { "false" }),
        Some(Kind::NumberValue(number)) => is_met(&number.to_string()),
        Some(Kind::ListValue(list)) => list.values.iter().any(|value| has(value, is_met)),
        Some(Kind::NullValue(_) | Kind::StructValue(_)) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned as _;

    use super::*;
    use crate::proto::ListValue;

    fn value(kind: Kind) -> Value {
        Value { kind: Some(kind) }
    }

    fn fields<const N: usize>(fields: [(&str, Kind); N]) -> Struct {
        let fields = fields.map(|(name, kind)| (name.to_owned(), value(kind)));
        Struct { fields: fields.into_iter().collect() }
    }

    #[test]
    fn metadata_is_found_by_the_names_that_lead_to_it() {
        let inner = fields([("name", Kind::StringValue("pay".into()))]);
        let dotted = fields([("c", Kind::BoolValue(true))]);
        let list =
            ListValue { values: ["a", "b"].map(|it| value(Kind::StringValue(it.into()))).to_vec() };
        let metadata = fields([
            ("team", Kind::StructValue(inner)),
            ("team.tier", Kind::NumberValue(2.0)),
            ("a.b", Kind::StructValue(dotted)),
            ("tags", Kind::ListValue(list)),
            ("nothing", Kind::NullValue(0)),
        ]);
        let facts = NodeFacts { metadata, ..NodeFacts::default() };
        for (path, expected) in
            [("team.name", "pay"), ("team.tier", "2"), ("a.b.c", "true"), ("tags", "b")]
        {
            let field = NodeField::Metadata(path.to_owned());
            assert!(facts.has(&field, |it| it == expected), "{path}");
        }
        for path in ["team", "nothing", "other", "team.name.x", ""] {
            assert!(!facts.has(&NodeField::Metadata(path.to_owned()), |_| true), "{path}");
        }
    }
}
