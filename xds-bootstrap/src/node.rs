//! Identity of a client in a configuration.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;
use xds_core::proto;

use crate::{
    error::{BootstrapError, ErrorKind},
    json::Field,
};

/// Node of a client, as configured. The library adds the user agent and the client features itself.
// SB-04
#[derive(Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct NodeIdentity {
    /// Node id. May be empty.
    // BS-15
    pub id: String,
    /// Name of the group of nodes that the client belongs to. May be empty.
    pub cluster: String,
    /// Location of the client.
    pub locality: Option<proto::Locality>,
    /// Metadata for the logic of the management server.
    // BS-16
    pub metadata: Option<proto::Struct>,
}

impl NodeIdentity {
    /// Reads the `node` of a bootstrap, a message in proto3 JSON form: field names have two
    /// spellings, and `null` means not set. Unknown fields are ignored.
    // BS-10
    pub(crate) fn read(node: &Field<'_>) -> Result<Self, BootstrapError> {
        node.object()?;
        let text = |parent: &Field<'_>, key: &str| {
            set(parent, key).map_or(Ok(String::new()), |field| field.string().map(String::from))
        };
        let locality = match set(node, "locality") {
            None => None,
            Some(locality) => {
                locality.object()?;
                let sub_zone =
                    if set(&locality, "sub_zone").is_some() { "sub_zone" } else { "subZone" };
                Some(proto::Locality {
                    region: text(&locality, "region")?,
                    zone: text(&locality, "zone")?,
                    sub_zone: text(&locality, sub_zone)?,
                })
            }
        };
        let metadata = match set(node, "metadata") {
            None => None,
            Some(metadata) => Some(to_struct(metadata.object()?)),
        };
        Ok(Self { id: text(node, "id")?, cluster: text(node, "cluster")?, locality, metadata })
    }

    /// Checks that the node is usable for Envoy, which requires an id and a cluster. gRPC does not.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Empty`] with the path of the empty field.
    // BS-15
    pub fn check_for_envoy(&self) -> Result<(), BootstrapError> {
        match self.missing_for_envoy() {
            None => Ok(()),
            Some(path) => Err(BootstrapError::new(path, ErrorKind::Empty)),
        }
    }

    /// Sets these fields of the metadata. A field replaces the one with the same key; other fields
    /// are kept.
    pub fn set_metadata(&mut self, fields: &serde_json::Map<String, Value>) {
        let metadata = self.metadata.get_or_insert_default();
        metadata.fields.extend(to_struct(fields).fields);
    }

    pub(crate) fn missing_for_envoy(&self) -> Option<&'static str> {
        let required = [("node.id", &self.id), ("node.cluster", &self.cluster)];
        required.into_iter().find(|(_, text)| text.is_empty()).map(|(path, _)| path)
    }
}

/// Prints only the keys of the metadata, because the values may be secret.
impl fmt::Debug for NodeIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metadata = self.metadata.as_ref().map(|metadata| {
            metadata.fields.keys().map(|key| (key, "..")).collect::<BTreeMap<_, _>>()
        });
        f.debug_struct("NodeIdentity")
            .field("id", &self.id)
            .field("cluster", &self.cluster)
            .field("locality", &self.locality)
            .field("metadata", &metadata)
            .finish()
    }
}

fn set<'v>(parent: &Field<'v>, key: &str) -> Option<Field<'v>> {
    parent.get(key).filter(|field| !field.value.is_null())
}

fn to_struct(object: &serde_json::Map<String, Value>) -> proto::Struct {
    let fields = object.iter().map(|(key, value)| (key.clone(), to_value(value))).collect();
    proto::Struct { fields }
}

/// Converts a JSON value. The parser bounds the depth of the recursion.
fn to_value(json: &Value) -> proto::Value {
    use proto::value::Kind;

    let kind = match json {
        Value::Null => Kind::NullValue(proto::NullValue::NullValue.into()),
        Value::Bool(value) => Kind::BoolValue(*value),
        Value::Number(value) => Kind::NumberValue(value.as_f64().unwrap_or_default()),
        Value::String(value) => Kind::StringValue(value.clone()),
        Value::Array(values) => {
            Kind::ListValue(proto::ListValue { values: values.iter().map(to_value).collect() })
        }
        Value::Object(object) => Kind::StructValue(to_struct(object)),
    };
    proto::Value { kind: Some(kind) }
}
