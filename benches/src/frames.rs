//! Responses with clusters in the style of an Istio control plane.

use std::collections::HashMap;

use bytes::Bytes;
use envoy_types::pb::{
    envoy::config::{
        cluster::v3::{
            CircuitBreakers, Cluster,
            circuit_breakers::Thresholds,
            cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig, LbPolicy},
        },
        core::v3::{
            AggregatedConfigSource, ApiVersion, ConfigSource, Metadata,
            config_source::ConfigSourceSpecifier,
        },
    },
    google::protobuf::{Duration, Struct, UInt32Value, Value, value::Kind},
};
use prost::Message as _;
use xds_core::{proto, types};

/// Number of clusters of the large responses.
pub const CLUSTERS: usize = 100_000;

/// Encoded clusters. They are encoded once, because the order of their maps differs
/// with each encoding.
#[derive(Debug)]
pub struct Clusters {
    encoded: Vec<Bytes>,
}

impl Clusters {
    /// Encodes `count` clusters.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let encoded = (0..count).map(|index| cluster(index, 10_000).encode_to_vec().into());
        Self { encoded: encoded.collect() }
    }

    /// Returns a response with all clusters, the `changed`-th with another timeout.
    #[must_use]
    pub fn response(&self, version: u64, changed: Option<usize>) -> Bytes {
        self.response_with(version, |index| changed == Some(index))
    }

    /// Returns a response with all clusters, every second one with another timeout.
    #[must_use]
    pub fn response_with_every_second_changed(&self, version: u64) -> Bytes {
        self.response_with(version, |index| index % 2 == 0)
    }

    /// Returns the `index`-th cluster, encoded.
    #[must_use]
    pub fn encoded(&self, index: usize) -> &Bytes {
        &self.encoded[index]
    }

    /// Returns the total length of all clusters in bytes.
    #[must_use]
    pub fn payload(&self) -> usize {
        self.encoded.iter().map(Bytes::len).sum()
    }

    fn response_with(&self, version: u64, is_changed: impl Fn(usize) -> bool) -> Bytes {
        let resource = |(index, encoded): (usize, &Bytes)| proto::Any {
            type_url: types::CLUSTER.into(),
            value: match is_changed(index) {
                true => cluster(index, 1_000 + version).encode_to_vec().into(),
                false => encoded.clone(),
            },
        };
        proto::DiscoveryResponse {
            version_info: version.to_string(),
            nonce: version.to_string(),
            type_url: types::CLUSTER.into(),
            resources: self.encoded.iter().enumerate().map(resource).collect(),
            ..proto::DiscoveryResponse::default()
        }
        .encode_to_vec()
        .into()
    }
}

/// Returns the name of the `index`-th cluster.
#[must_use]
pub fn name(index: usize) -> String {
    format!("outbound|8080||svc-{index:06}.prod.svc.cluster.local")
}

fn cluster(index: usize, timeout_millis: u64) -> Cluster {
    let ads = ConfigSource {
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        resource_api_version: ApiVersion::V3.into(),
        ..ConfigSource::default()
    };
    let limit = |value| Some(UInt32Value { value });
    let thresholds = Thresholds {
        max_connections: limit(u32::MAX),
        max_pending_requests: limit(u32::MAX),
        max_requests: limit(u32::MAX),
        max_retries: limit(u32::MAX),
        track_remaining: true,
        ..Thresholds::default()
    };
    Cluster {
        name: name(index),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
        eds_cluster_config: Some(EdsClusterConfig {
            eds_config: Some(ads),
            service_name: name(index),
        }),
        connect_timeout: Some(Duration {
            seconds: i64::try_from(timeout_millis / 1_000).unwrap_or_default(),
            nanos: i32::try_from(timeout_millis % 1_000 * 1_000_000).unwrap_or_default(),
        }),
        alt_stat_name: format!("outbound|8080||svc-{index:06}.prod;prod"),
        lb_policy: LbPolicy::LeastRequest.into(),
        circuit_breakers: Some(CircuitBreakers {
            thresholds: vec![thresholds],
            ..CircuitBreakers::default()
        }),
        metadata: Some(Metadata {
            filter_metadata: HashMap::from([("istio".into(), istio_metadata(index))]),
            ..Metadata::default()
        }),
        ..Cluster::default()
    }
}

fn istio_metadata(index: usize) -> Struct {
    let text = |text: &str| Value { kind: Some(Kind::StringValue(text.into())) };
    let service = Struct {
        fields: HashMap::from([
            ("host".into(), text(&format!("svc-{index:06}.prod.svc.cluster.local"))),
            ("name".into(), text(&format!("svc-{index:06}"))),
            ("namespace".into(), text("prod")),
            ("revision".into(), text("2026-11-21T00:00:00Z-7f9c")),
        ]),
    };
    let services = Value { kind: Some(Kind::StructValue(service)) };
    Struct { fields: HashMap::from([("services".into(), services)]) }
}
