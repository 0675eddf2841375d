//! Objects of the Kubernetes API, with the fields that are used.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// Metadata of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) annotations: BTreeMap<String, String>,
}

/// Object of `v1/ConfigMap`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ConfigMap {
    pub(crate) metadata: Metadata,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) data: BTreeMap<String, String>,
    /// Values in base64.
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) binary_data: BTreeMap<String, String>,
}

/// Object of `coordination.k8s.io/v1/Lease`, without its times.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct KubeLease {
    pub(crate) metadata: Metadata,
}

impl KubeLease {
    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the value of an annotation.
    pub(crate) fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.get(name).map(String::as_str)
    }
}

/// Object of `v1/Service`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Service {
    pub(crate) metadata: Metadata,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) spec: ServiceSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServiceSpec {
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) ports: Vec<ServicePort>,
    /// The first one is the preferred one.
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) ip_families: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ServicePort {
    pub(crate) name: Option<String>,
    pub(crate) port: u16,
    /// TCP if it is unset.
    pub(crate) protocol: Option<String>,
}

/// Object of `discovery.k8s.io/v1/EndpointSlice`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndpointSlice {
    pub(crate) metadata: Metadata,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) endpoints: Vec<ApiEndpoint>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) ports: Vec<EndpointPort>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ApiEndpoint {
    /// Interchangeable addresses. Only the first one is used.
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) addresses: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) conditions: Conditions,
    pub(crate) zone: Option<String>,
    pub(crate) target_ref: Option<TargetRef>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Conditions {
    pub(crate) ready: Option<bool>,
    pub(crate) serving: Option<bool>,
    pub(crate) terminating: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TargetRef {
    pub(crate) uid: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndpointPort {
    /// Name of the port of the Service; empty if it has no name.
    pub(crate) name: Option<String>,
    /// Port number on which the endpoints listen, even if the Service refers to the port by name.
    /// The API server also accepts numbers that are not valid TCP ports.
    pub(crate) port: Option<i64>,
    pub(crate) protocol: Option<String>,
}

/// The API server writes empty lists and maps as `null`.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
