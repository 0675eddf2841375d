//! Validation of clusters.

use alloc::vec::Vec;
use core::time::Duration;

use xds_core::ResourceName;

use super::{
    Cluster, Discovery, LoadReporting, balancing::judge_balancing, outliers::judge_outliers,
};
use crate::{
    extensions::decode,
    listener::judge_upstream,
    proto::envoy::{
        config::{
            cluster::v3::{
                self as schema,
                cluster::{ClusterDiscoveryType, DiscoveryType},
            },
            core::v3::{TypedExtensionConfig, config_source::ConfigSourceSpecifier},
            endpoint::v3::{ClusterLoadAssignment, lb_endpoint::HostIdentifier},
        },
        extensions::{
            clusters::aggregate::v3::ClusterConfig, upstreams::http::v3::HttpProtocolOptions,
        },
    },
    scalars::{HostForm, SocketAddress, judge_address, judge_duration, judge_source},
    validation::Judge,
};

const AGGREGATE: &str = "type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig";
/// Default limit of A32.
const MAX_REQUESTS: u32 = 1_024;
const HTTP_OPTIONS: &str =
    "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
/// Default idle timeout of connections.
// B30b
const IDLE_TIMEOUT: Duration = Duration::from_secs(60 * 60);

pub(crate) fn judge_cluster(cluster: &schema::Cluster, judge: &mut Judge<'_>) -> Option<Cluster> {
    let discovery = judge_discovery(cluster, judge);
    let balancing = judge_balancing(cluster, judge);
    let load_reporting = match cluster.lrs_server.as_ref() {
        None => LoadReporting::Off,
        Some(server) => {
            if !matches!(server.config_source_specifier, Some(ConfigSourceSpecifier::Self_(_))) {
                judge.fault_in("lrs_server", "must be self");
            }
            LoadReporting::SameServer
        }
    };
    let tls = cluster
        .transport_socket
        .as_ref()
        .map(|socket| judge.field("transport_socket", |judge| judge_upstream(socket, judge)));
    let outliers = cluster
        .outlier_detection
        .as_ref()
        .map(|outliers| judge.field("outlier_detection", |judge| judge_outliers(outliers, judge)));
    let thresholds = cluster.circuit_breakers.as_ref().map_or(&[][..], |it| &it.thresholds);
    let of_default = thresholds.iter().find(|it| it.priority == 0);
    let max_requests = of_default.and_then(|it| it.max_requests.as_ref());
    let idle_timeout = cluster
        .upstream_config
        .as_ref()
        .map(|config| judge.field("upstream_config", |judge| judge_upstream_config(config, judge)));
    let idle_timeout = match idle_timeout {
        Some(valid) => valid?,
        None => IDLE_TIMEOUT,
    };
    Some(Cluster {
        name: ResourceName::from(cluster.name.as_str()),
        discovery: discovery?,
        balancing: balancing?,
        max_requests: max_requests.map_or(MAX_REQUESTS, |it| it.value),
        outliers: outliers.flatten(),
        tls: tls.flatten(),
        idle_timeout,
        load_reporting,
    })
}

/// Validates `HttpProtocolOptions`, the only supported type. Only its idle timeout is read.
// B30b
fn judge_upstream_config(config: &TypedExtensionConfig, judge: &mut Judge<'_>) -> Option<Duration> {
    judge.field("typed_config", |judge| {
        let config = config.typed_config.as_ref().filter(|it| it.type_url == HTTP_OPTIONS);
        let Some(config) = config else {
            judge.fault("must be HttpProtocolOptions");
            return None;
        };
        let options: HttpProtocolOptions = decode(&config.value, judge)?;
        let stated = options.common_http_protocol_options.and_then(|it| it.idle_timeout);
        match stated {
            None => Some(IDLE_TIMEOUT),
            Some(stated) => judge.field("common_http_protocol_options.idle_timeout", |judge| {
                judge_duration(&stated, judge)
            }),
        }
    })
}

fn judge_discovery(cluster: &schema::Cluster, judge: &mut Judge<'_>) -> Option<Discovery> {
    match cluster.cluster_discovery_type.as_ref() {
        Some(ClusterDiscoveryType::Type(kind)) => match DiscoveryType::try_from(*kind) {
            Ok(DiscoveryType::Eds) => judge_eds(cluster, judge),
            Ok(DiscoveryType::LogicalDns) => judge.field("load_assignment", |judge| {
                judge_dns(cluster.load_assignment.as_ref(), judge).map(Discovery::LogicalDns)
            }),
            _ => {
                judge.fault_in("type", "must be EDS or LOGICAL_DNS");
                None
            }
        },
        Some(ClusterDiscoveryType::ClusterType(custom)) => {
            let config = custom.typed_config.as_ref().filter(|it| it.type_url == AGGREGATE);
            judge.field("cluster_type.typed_config", |judge| {
                let Some(config) = config else {
                    judge.fault("must be the configuration of an aggregate cluster");
                    return None;
                };
                let config: ClusterConfig = decode(&config.value, judge)?;
                if config.clusters.is_empty() {
                    judge.fault_in("clusters", "must not be empty");
                }
                let names: Vec<_> = config.clusters.into_iter().map(ResourceName::from).collect();
                Some(Discovery::Aggregate(names))
            })
        }
        // An absent type is the schema's default, STATIC, which is unsupported.
        None => {
            judge.fault_in("type", "must be EDS or LOGICAL_DNS");
            None
        }
    }
}

fn judge_eds(cluster: &schema::Cluster, judge: &mut Judge<'_>) -> Option<Discovery> {
    judge.field("eds_cluster_config", |judge| {
        let Some(config) = cluster.eds_cluster_config.as_ref() else {
            judge.fault("must be set");
            return None;
        };
        judge.field("eds_config", |judge| judge_source(config.eds_config.as_ref(), judge));
        if !config.service_name.is_empty() {
            return Some(Discovery::Eds(ResourceName::from(config.service_name.as_str())));
        }
        // For an `xdstp:` name it would be ambiguous whose context parameters apply (A47).
        if cluster.name.starts_with("xdstp:") {
            judge.fault_in(
                "service_name",
                "must be set where the cluster's name is of the form xdstp:",
            );
        }
        Some(Discovery::Eds(ResourceName::from(cluster.name.as_str())))
    })
}

/// Validates the assignment of a logical DNS cluster: one locality with one endpoint (gRFC A37).
fn judge_dns(
    assignment: Option<&ClusterLoadAssignment>,
    judge: &mut Judge<'_>,
) -> Option<SocketAddress> {
    let Some(assignment) = assignment else {
        judge.fault("must be set");
        return None;
    };
    let [locality] = assignment.endpoints.as_slice() else {
        judge.fault_in("endpoints", "must be one locality");
        return None;
    };
    judge.element("endpoints", 0, |judge| {
        let [endpoint] = locality.lb_endpoints.as_slice() else {
            judge.fault_in("lb_endpoints", "must be one endpoint");
            return None;
        };
        judge.element("lb_endpoints", 0, |judge| {
            let Some(HostIdentifier::Endpoint(endpoint)) = endpoint.host_identifier.as_ref() else {
                judge.fault_in("endpoint", "must be set");
                return None;
            };
            judge.field("endpoint.address", |judge| {
                judge_address(endpoint.address.as_ref(), HostForm::Name, judge)
            })
        })
    })
}
