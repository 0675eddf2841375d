//! Random choice among weighted clusters.

use alloc::{string::String, vec::Vec};

use xds_core::ResourceName;

use crate::{
    filters::{FilterOverrides, judge_overrides},
    proto::envoy::config::route::v3 as schema,
    random::Random,
    rules::TotalWeight,
    validation::Judge,
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
    pub fn choose(&self, random: &mut Random) -> &WeightedCluster {
        let drawn = random.below(self.total());
        let place = self.sums.partition_point(|&sum| sum <= drawn);
        let chosen = self.clusters.get(place).or_else(|| self.clusters.last());
        chosen.expect("there is at least one, by construction")
    }
}

pub(crate) fn judge_weights(
    schema: &schema::WeightedCluster,
    judge: &mut Judge<'_>,
) -> Option<WeightedClusters> {
    let (mut clusters, mut sums) = (Vec::new(), Vec::new());
    let mut total: u32 = 0;
    for (index, cluster) in schema.clusters.iter().enumerate() {
        let judged = judge.element("clusters", index, |judge| judge_cluster(cluster, judge));
        let Some(judged) = judged.filter(|judged| judged.weight > 0) else {
            continue;
        };
        match total.checked_add(judged.weight) {
            Some(sum) => total = sum,
            None => {
                judge.fault_in("clusters", "the weights sum up to more than 4294967295");
                return None;
            }
        }
        clusters.push(judged);
        sums.push(total);
    }
    if clusters.is_empty() {
        judge.fault_in("clusters", "must have one with a weight above zero");
        return None;
    }
    #[allow(deprecated, reason = "where it is stated it must be true (X29)")]
    let stated = schema.total_weight.as_ref().map(|it| it.value);
    let expected = match judge.rules.total_weight {
        TotalWeight::Sum => stated.unwrap_or(total),
        TotalWeight::Hundred => stated.unwrap_or(100),
    };
    if expected != total {
        judge.fault_in(
            "total_weight",
            format_args!("is {expected}, but the weights sum up to {total}"),
        );
    }
    Some(WeightedClusters { clusters, sums })
}

fn judge_cluster(
    cluster: &schema::weighted_cluster::ClusterWeight,
    judge: &mut Judge<'_>,
) -> Option<WeightedCluster> {
    if cluster.name.is_empty() {
        let why = if cluster.cluster_header.is_empty() {
            "must not be empty"
        } else {
            "must be used, not cluster_header"
        };
        judge.fault_in("name", why);
    }
    let overrides = judge_overrides(&cluster.typed_per_filter_config, judge);
    let Some(weight) = cluster.weight.as_ref() else {
        judge.fault_in("weight", "must be set");
        return None;
    };
    Some(WeightedCluster {
        name: ResourceName::from(String::from(&cluster.name)),
        weight: weight.value,
        overrides: overrides?,
    })
}
