//! Random choice among weighted clusters.

use alloc::{string::String, vec::Vec};

use xds_core::ResourceName;

use crate::{
    filters::{FilterOverrides, validate_overrides},
    proto::envoy::config::route::v3 as schema,
    random::Random,
    rules::TotalWeight,
    validation::Validator,
};

/// Weighted clusters of a route. There is at least one, and every weight is positive.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedClusters {
    clusters: Vec<WeightedCluster>,
    /// Cumulative weights.
    sums: Vec<u32>,
}

/// Cluster and its weight.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WeightedCluster {
    /// Name of the cluster.
    pub name: ResourceName,
    /// Weight relative to the sum of all weights.
    pub weight: u32,
    /// HTTP filter overrides (gRFC A39).
    pub overrides: FilterOverrides,
}

impl WeightedClusters {
    /// Returns the clusters with positive weight, in the order of the resource.
    #[must_use]
    pub fn clusters(&self) -> &[WeightedCluster] {
        &self.clusters
    }

    /// Returns the sum of the weights.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.sums.last().copied().unwrap_or_default()
    }

    /// Chooses a cluster at random by weight.
    #[must_use]
    #[expect(clippy::expect_used, reason = "weights without clusters are invalid")]
    pub fn choose(&self, random: &mut Random) -> &WeightedCluster {
        let drawn = random.below(self.total());
        let place = self.sums.partition_point(|&sum| sum <= drawn);
        let chosen = self.clusters.get(place).or_else(|| self.clusters.last());
        chosen.expect("there is at least one cluster")
    }
}

pub(crate) fn validate_weights(
    schema: &schema::WeightedCluster,
    validator: &mut Validator<'_>,
) -> Option<WeightedClusters> {
    let (mut clusters, mut sums) = (Vec::new(), Vec::new());
    let mut total: u32 = 0;
    for (index, cluster) in schema.clusters.iter().enumerate() {
        let validated =
            validator.element("clusters", index, |validator| validate_cluster(cluster, validator));
        let Some(validated) = validated.filter(|validated| validated.weight > 0) else {
            continue;
        };
        match total.checked_add(validated.weight) {
            Some(sum) => total = sum,
            None => {
                validator.error_in("clusters", "the weights sum up to more than 4294967295");
                return None;
            }
        }
        clusters.push(validated);
        sums.push(total);
    }
    if clusters.is_empty() {
        validator.error_in("clusters", "must have a cluster with a positive weight");
        return None;
    }
    #[allow(deprecated, reason = "the total must be correct if it is set")]
    let stated = schema.total_weight.as_ref().map(|it| it.value);
    let expected = match validator.rules.total_weight {
        TotalWeight::Sum => stated.unwrap_or(total),
        TotalWeight::Hundred => stated.unwrap_or(100),
    };
    if expected != total {
        validator.error_in(
            "total_weight",
            format_args!("is {expected}, but the weights sum up to {total}"),
        );
    }
    Some(WeightedClusters { clusters, sums })
}

fn validate_cluster(
    cluster: &schema::weighted_cluster::ClusterWeight,
    validator: &mut Validator<'_>,
) -> Option<WeightedCluster> {
    if cluster.name.is_empty() {
        let why = if cluster.cluster_header.is_empty() {
            "must not be empty"
        } else {
            "must be set, cluster_header is not supported"
        };
        validator.error_in("name", why);
    }
    let overrides = validate_overrides(&cluster.typed_per_filter_config, validator);
    let Some(weight) = cluster.weight.as_ref() else {
        validator.error_in("weight", "must be set");
        return None;
    };
    Some(WeightedCluster {
        name: ResourceName::from(String::from(&cluster.name)),
        weight: weight.value,
        overrides: overrides?,
    })
}
