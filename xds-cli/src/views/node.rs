//! Parts of a client's node that rules look at.

use xds_core::proto::{Node, Struct, Value, value::Kind};

/// Parts of a client's node that rules look at.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeFacts {
    pub(super) id: String,
    pub(super) cluster: String,
    pub(super) region: String,
    pub(super) zone: String,
    pub(super) sub_zone: String,
    pub(super) metadata: Struct,
}

/// Part of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeField {
    Id,
    Cluster,
    Region,
    Zone,
    SubZone,
    /// Value in the metadata, by the names of the fields that lead to it, joined with dots.
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
    /// Returns the id of the node.
    pub(crate) fn id(&self) -> &str {
        &self.id
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
        match fields.fields.get(&path[..at])?.kind.as_ref()? {
            Kind::StructValue(inner) => find(inner, &path[at + 1..]),
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
pub(crate) mod tests {
    use xds_core::proto::ListValue;

    use super::*;

    pub(crate) fn value(kind: Kind) -> Value {
        Value { kind: Some(kind) }
    }

    pub(crate) fn fields<const N: usize>(fields: [(&str, Kind); N]) -> Struct {
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
