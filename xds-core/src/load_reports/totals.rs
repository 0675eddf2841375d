//! Sums of the load that clients have reported.

use alloc::{collections::BTreeMap, string::String};

use crate::proto::{ClusterStats, UpstreamLocalityStats};

/// Cluster and locality that calls were sent to. Ordered by the names.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoadPlace {
    /// Name of the cluster.
    pub cluster: String,
    /// Name of the EDS resource, if it differs from that of the cluster.
    pub service: String,
    /// Region of the locality.
    pub region: String,
    /// Zone of the locality.
    pub zone: String,
    /// Part of the zone.
    pub sub_zone: String,
}

/// Calls that clients have reported. Counts only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTotals {
    /// Number of calls that were sent.
    pub issued: u64,
    /// Number of calls that succeeded.
    pub succeeded: u64,
    /// Number of calls that failed.
    pub failed: u64,
}

/// Sums of the load that all clients have reported, by cluster and locality.
///
/// Clients choose the names, so their number is limited, and the length of the names of a place: 1,024
/// bytes. Load of other places is not added, and counted in [`omitted`](Self::omitted).
#[derive(Clone, Debug)]
pub struct LoadTotals {
    localities: BTreeMap<LoadPlace, CallTotals>,
    dropped: BTreeMap<String, u64>,
    max_places: usize,
    omitted: u64,
}

/// Maximum length of all names of a place together, in bytes.
const MAX_NAME_BYTES: usize = 1_024;

impl LoadPlace {
    fn name_bytes(&self) -> usize {
        let Self { cluster, service, region, zone, sub_zone } = self;
        [cluster, service, region, zone, sub_zone].into_iter().map(String::len).sum()
    }
}

impl Default for LoadTotals {
    /// Creates empty sums for at most 10,000 localities and as many clusters.
    fn default() -> Self {
        Self::new(10_000)
    }
}

impl LoadTotals {
    /// Creates empty sums for at most this number of localities, and as many clusters with dropped
    /// calls.
    #[must_use]
    pub const fn new(max_places: usize) -> Self {
        Self { localities: BTreeMap::new(), dropped: BTreeMap::new(), max_places, omitted: 0 }
    }

    /// Adds a report of a client.
    pub fn add(&mut self, clusters: &[ClusterStats]) {
        for cluster in clusters {
            for locality in &cluster.upstream_locality_stats {
                self.add_locality(cluster, locality);
            }
            if cluster.total_dropped_requests > 0 {
                let name = &cluster.cluster_name;
                let is_full = self.dropped.len() >= self.max_places;
                let is_new = !self.dropped.contains_key(name);
                if is_new && (is_full || name.len() > MAX_NAME_BYTES) {
                    self.omitted = self.omitted.saturating_add(1);
                    continue;
                }
                let sum = self.dropped.entry(cluster.cluster_name.clone()).or_default();
                *sum = sum.saturating_add(cluster.total_dropped_requests);
            }
        }
    }

    fn add_locality(&mut self, cluster: &ClusterStats, load: &UpstreamLocalityStats) {
        let locality = load.locality.clone().unwrap_or_default();
        let place = LoadPlace {
            cluster: cluster.cluster_name.clone(),
            service: cluster.cluster_service_name.clone(),
            region: locality.region,
            zone: locality.zone,
            sub_zone: locality.sub_zone,
        };
        let is_full = self.localities.len() >= self.max_places;
        let is_new = !self.localities.contains_key(&place);
        if is_new && (is_full || place.name_bytes() > MAX_NAME_BYTES) {
            self.omitted = self.omitted.saturating_add(1);
            return;
        }
        let sum = self.localities.entry(place).or_default();
        sum.issued = sum.issued.saturating_add(load.total_issued_requests);
        sum.succeeded = sum.succeeded.saturating_add(load.total_successful_requests);
        sum.failed = sum.failed.saturating_add(load.total_error_requests);
    }

    /// Returns the calls by cluster and locality, ordered by the names.
    pub fn localities(&self) -> impl Iterator<Item = (&LoadPlace, &CallTotals)> {
        self.localities.iter()
    }

    /// Returns the number of calls that drop policies and circuit breakers have dropped, by cluster,
    /// ordered by the names.
    pub fn dropped(&self) -> impl Iterator<Item = (&str, u64)> {
        self.dropped.iter().map(|(cluster, count)| (cluster.as_str(), *count))
    }

    /// Returns the number of localities and clusters whose load in a report was not added, because
    /// there are too many.
    #[must_use]
    pub const fn omitted(&self) -> u64 {
        self.omitted
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, vec::Vec};

    use super::*;
    use crate::proto::Locality;

    fn report(cluster: &str, zone: &str, calls: u64) -> ClusterStats {
        let locality = UpstreamLocalityStats {
            locality: Some(Locality { zone: zone.into(), ..Locality::default() }),
            total_issued_requests: calls,
            total_successful_requests: calls / 2,
            total_error_requests: calls / 4,
            ..UpstreamLocalityStats::default()
        };
        ClusterStats {
            cluster_name: cluster.into(),
            upstream_locality_stats: Vec::from([locality]),
            total_dropped_requests: calls / 8,
            ..ClusterStats::default()
        }
    }

    #[test]
    fn reports_are_summed_by_cluster_and_locality() {
        let mut totals = LoadTotals::default();
        totals.add(&[report("b", "z", 8), report("a", "z", 16)]);
        totals.add(&[report("b", "z", 8), report("b", "y", 32), report("b", "y", u64::MAX)]);
        let found: Vec<_> = totals
            .localities()
            .map(|(place, calls)| (&*place.cluster, &*place.zone, calls.issued, calls.failed))
            .collect();
        let most = u64::MAX / 4 + 8;
        assert_eq!(found, [("a", "z", 16, 4), ("b", "y", u64::MAX, most), ("b", "z", 16, 4)]);
        assert_eq!(totals.dropped().next(), Some(("a", 2)));
    }

    #[test]
    fn length_of_names_is_limited() {
        let mut totals = LoadTotals::default();
        let name = "c".repeat(MAX_NAME_BYTES);
        totals.add(&[report(&name, "", 8), report(&name, "z", 8)]);
        assert_eq!((totals.localities().count(), totals.omitted()), (1, 1));
        totals.add(&[report(&format!("{name}c"), "", 8)]);
        assert_eq!((totals.dropped().count(), totals.omitted()), (1, 3));
    }

    #[test]
    fn number_of_places_is_limited() {
        let mut totals = LoadTotals::new(3);
        for number in 0..100 {
            totals.add(&[report(&format!("c{number:03}"), "z", 8)]);
        }
        assert_eq!(totals.localities().count(), 3);
        assert_eq!(totals.dropped().count(), 3);
        assert_eq!(totals.omitted(), 2 * 97);
        totals.add(&[report("c001", "z", 8)]);
        let (_, calls) = totals.localities().nth(1).expect("c001");
        assert_eq!(calls.issued, 16);
    }
}
