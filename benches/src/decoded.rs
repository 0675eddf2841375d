//! Clusters that are fully decoded, as a proxy needs them.

use std::sync::Arc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use prost::Message as _;
use xds_core::{
    TypeUrl,
    client::{Rejection, ResourceType, ValidationContext, Value},
    types,
};

/// Resource type of clusters.
#[derive(Debug)]
pub struct DecodedCluster {
    type_url: Arc<TypeUrl>,
}

impl Default for DecodedCluster {
    fn default() -> Self {
        Self { type_url: Arc::new(TypeUrl::from(types::CLUSTER)) }
    }
}

impl ResourceType for DecodedCluster {
    fn type_url(&self) -> &TypeUrl {
        &self.type_url
    }

    fn validate(
        &self,
        bytes: &Bytes,
        _: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        match Cluster::decode(&**bytes) {
            Ok(cluster) => Ok(Some(Value::new(cluster))),
            Err(why) => Err(Rejection::new(why.to_string())),
        }
    }
}
