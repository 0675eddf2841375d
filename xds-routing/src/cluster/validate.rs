//! Validation of clusters.

use alloc::{collections::BTreeSet, vec::Vec};
use core::time::Duration;

use xds_core::ResourceName;

use super::{
    BalancingPolicy, Cluster, Discovery, balancing::validate_balancing,
    load_reporting::validate_load_reporting, outliers::validate_outliers,
};
use crate::{
    endpoint::Health,
    extensions::decode,
    listener::validate_upstream,
    proto::envoy::{
        config::{
            cluster::v3::{
                self as schema,
                cluster::{ClusterDiscoveryType, DiscoveryType},
            },
            core::v3::TypedExtensionConfig,
            endpoint::v3::{ClusterLoadAssignment, lb_endpoint::HostIdentifier},
        },
        extensions::{
            clusters::aggregate::v3::ClusterConfig, upstreams::http::v3::HttpProtocolOptions,
        },
    },
    scalars::{HostForm, SocketAddress, validate_address, validate_duration, validate_source},
    validation::Validator,
};

const AGGREGATE: &str = "type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig";
/// Default limit of A32.
const MAX_REQUESTS: u32 = 1_024;
const HTTP_OPTIONS: &str =
    "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
/// Default idle timeout of connections.
// B30b
const IDLE_TIMEOUT: Duration = Duration::from_secs(60 * 60);

pub(crate) fn validate_cluster(
    cluster: &schema::Cluster,
    validator: &mut Validator<'_>,
) -> Option<Cluster> {
    let discovery = validate_discovery(cluster, validator);
    let balancing = match discovery {
        Some(Discovery::Aggregate(_)) => Some(BalancingPolicy::RoundRobin),
        _ => validate_balancing(cluster, validator),
    };
    let load_reporting = validate_load_reporting(cluster, validator);
    let tls = cluster.transport_socket.as_ref().map(|socket| {
        validator.field("transport_socket", |validator| validate_upstream(socket, validator))
    });
    let outliers = cluster.outlier_detection.as_ref().map(|outliers| {
        validator.field("outlier_detection", |validator| validate_outliers(outliers, validator))
    });
    let thresholds = cluster.circuit_breakers.as_ref().map_or(&[][..], |it| &it.thresholds);
    let of_default = thresholds.iter().find(|it| it.priority == 0);
    let max_requests = of_default.and_then(|it| it.max_requests.as_ref());
    let idle_timeout = cluster.upstream_config.as_ref().map(|config| {
        validator.field("upstream_config", |validator| validate_upstream_config(config, validator))
    });
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
        override_host_status: override_host_status(cluster),
        load_reporting,
    })
}

/// Returns the health statuses of endpoints for sessions. Unsupported statuses are ignored. A set
/// without statuses disables session affinity.
// B39a
fn override_host_status(cluster: &schema::Cluster) -> BTreeSet<Health> {
    let common = cluster.common_lb_config.as_ref();
    match common.and_then(|common| common.override_host_status.as_ref()) {
        Some(set) => set.statuses.iter().filter_map(|it| Health::from_schema(*it)).collect(),
        None => [Health::Unknown, Health::Healthy].into(),
    }
}

/// Validates `HttpProtocolOptions`, the only supported type. Only its idle timeout is read.
// B30b
fn validate_upstream_config(
    config: &TypedExtensionConfig,
    validator: &mut Validator<'_>,
) -> Option<Duration> {
    validator.field("typed_config", |validator| {
        let config = config.typed_config.as_ref().filter(|it| it.type_url == HTTP_OPTIONS);
        let Some(config) = config else {
            validator.error("must be HttpProtocolOptions");
            return None;
        };
        let options: HttpProtocolOptions = decode(&config.value, validator)?;
        let stated = options.common_http_protocol_options.and_then(|it| it.idle_timeout);
        match stated {
            None => Some(IDLE_TIMEOUT),
            Some(stated) => validator
                .field("common_http_protocol_options.idle_timeout", |validator| {
                    validate_duration(&stated, validator)
                }),
        }
    })
}

fn validate_discovery(
    cluster: &schema::Cluster,
    validator: &mut Validator<'_>,
) -> Option<Discovery> {
    match cluster.cluster_discovery_type.as_ref() {
        Some(ClusterDiscoveryType::Type(kind)) => match DiscoveryType::try_from(*kind) {
            Ok(DiscoveryType::Eds) => validate_eds(cluster, validator),
            Ok(DiscoveryType::LogicalDns) => validator.field("load_assignment", |validator| {
                validate_dns(cluster.load_assignment.as_ref(), validator).map(Discovery::LogicalDns)
            }),
            _ => {
                validator.error_in("type", "must be EDS or LOGICAL_DNS");
                None
            }
        },
        Some(ClusterDiscoveryType::ClusterType(custom)) => {
            let config = custom.typed_config.as_ref().filter(|it| it.type_url == AGGREGATE);
            validator.field("cluster_type.typed_config", |validator| {
                let Some(config) = config else {
                    validator.error("must be the configuration of an aggregate cluster");
                    return None;
                };
                let config: ClusterConfig = decode(&config.value, validator)?;
                if config.clusters.is_empty() {
                    validator.error_in("clusters", "must not be empty");
                }
                let names: Vec<_> = config.clusters.into_iter().map(ResourceName::from).collect();
                Some(Discovery::Aggregate(names))
            })
        }
        // An absent type is the schema's default, STATIC, which is unsupported.
        None => {
            validator.error_in("type", "must be EDS or LOGICAL_DNS");
            None
        }
    }
}

fn validate_eds(cluster: &schema::Cluster, validator: &mut Validator<'_>) -> Option<Discovery> {
    validator.field("eds_cluster_config", |validator| {
        let Some(config) = cluster.eds_cluster_config.as_ref() else {
            validator.error("must be set");
            return None;
        };
        validator.field("eds_config", |validator| {
            validate_source(config.eds_config.as_ref(), validator)
        });
        if !config.service_name.is_empty() {
            return Some(Discovery::Eds(ResourceName::from(config.service_name.as_str())));
        }
        // For an `xdstp:` name it would be ambiguous whose context parameters apply (A47).
        if cluster.name.starts_with("xdstp:") {
            validator.error_in(
                "service_name",
                "must be set if the name of the cluster begins with xdstp:",
            );
        }
        Some(Discovery::Eds(ResourceName::from(cluster.name.as_str())))
    })
}

/// Validates the assignment of a logical DNS cluster: one locality with one endpoint (gRFC A37).
fn validate_dns(
    assignment: Option<&ClusterLoadAssignment>,
    validator: &mut Validator<'_>,
) -> Option<SocketAddress> {
    let Some(assignment) = assignment else {
        validator.error("must be set");
        return None;
    };
    let [locality] = assignment.endpoints.as_slice() else {
        validator.error_in("endpoints", "must be one locality");
        return None;
    };
    validator.element("endpoints", 0, |validator| {
        let [endpoint] = locality.lb_endpoints.as_slice() else {
            validator.error_in("lb_endpoints", "must be one endpoint");
            return None;
        };
        validator.element("lb_endpoints", 0, |validator| {
            let Some(HostIdentifier::Endpoint(endpoint)) = endpoint.host_identifier.as_ref() else {
                validator.error_in("endpoint", "must be set");
                return None;
            };
            validator.field("endpoint.address", |validator| {
                validate_address(endpoint.address.as_ref(), HostForm::Name, validator)
            })
        })
    })
}
