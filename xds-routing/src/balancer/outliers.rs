//! Outlier detection: ejection of endpoints whose calls fail more often than those of others
//! ([gRFC A50]).
//!
//! At the end of each interval, the results of its calls decide which endpoints are ejected. An
//! ejected endpoint counts as failed and gets no calls until its ejection time has passed.
//!
//! [gRFC A50]: https://github.com/grpc/proposal/blob/master/A50-xds-outlier-detection.md

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};
use core::time::Duration;

use xds_core::Time;

use super::{ConnectionId, counters::CallResults};
use crate::{
    cluster::{FailurePercentage, OutlierDetection, SuccessRate},
    random::Random,
};

/// Shortest interval between evaluations, so that an interval of zero cannot occupy the caller.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

/// Outlier detection among the endpoints of a priority.
#[derive(Clone, Debug)]
pub(super) struct Outliers {
    rules: OutlierDetection,
    /// Ejections of endpoints that are ejected, or were recently.
    ejections: BTreeMap<ConnectionId, Ejection>,
    /// Results of the calls of this priority. Another priority with the same endpoints has its own.
    results: BTreeMap<ConnectionId, Arc<CallResults>>,
    /// Begin of the current interval. `None` while the priority is not in use.
    began: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ejection {
    /// Begin of the current ejection.
    since: Option<Time>,
    /// Multiplier of the ejection time: the number of ejections, less one for each interval without.
    multiplier: u32,
}

/// Results of an endpoint in an interval.
#[derive(Clone, Copy, Debug)]
struct EndpointResults {
    id: ConnectionId,
    succeeded: u32,
    failed: u32,
}

impl EndpointResults {
    fn calls(&self) -> u32 {
        self.succeeded.saturating_add(self.failed)
    }

    fn success_rate(&self) -> f64 {
        f64::from(self.succeeded) / f64::from(self.calls())
    }
}

impl Outliers {
    pub(super) const fn new(rules: OutlierDetection) -> Self {
        Self { rules, ejections: BTreeMap::new(), results: BTreeMap::new(), began: None }
    }

    /// Replaces the rules. Ejections continue.
    pub(super) fn with_rules(self, rules: OutlierDetection) -> Self {
        Self { rules, ..self }
    }

    pub(super) fn is_ejected(&self, id: ConnectionId) -> bool {
        self.ejections.get(&id).is_some_and(|it| it.since.is_some())
    }

    /// Returns the counters for the results of calls to an endpoint.
    pub(super) fn results(&mut self, id: ConnectionId) -> Arc<CallResults> {
        Arc::clone(self.results.entry(id).or_default())
    }

    /// Returns the end of the current interval.
    pub(super) fn next_timer(&self) -> Option<Time> {
        Some(self.began?.after(self.rules.interval.max(SHORTEST_INTERVAL)))
    }

    /// Discards the ejections and results of removed endpoints.
    pub(super) fn forget(&mut self, endpoints: &[ConnectionId]) {
        for id in endpoints {
            self.ejections.remove(id);
            self.results.remove(id);
        }
    }

    /// Discards all ejections and results, because the priority is not in use.
    pub(super) fn reset(&mut self) {
        self.ejections.clear();
        self.results.clear();
        self.began = None;
    }

    /// Begins the first interval, because the priority is in use.
    pub(super) fn begin(&mut self, now: Time) {
        self.began.get_or_insert(now);
    }

    /// Evaluates the current interval if it has ended, and begins the next one. `endpoints` are those
    /// of the priority. Returns the endpoints whose ejections have ended.
    // B33d
    pub(super) fn evaluate(
        &mut self,
        endpoints: impl FnOnce() -> BTreeSet<ConnectionId>,
        random: &mut Random,
        now: Time,
    ) -> Vec<ConnectionId> {
        if self.next_timer().is_none_or(|end| now < end) {
            return Vec::new();
        }
        self.began = Some(now);
        let endpoints = endpoints();
        self.results.retain(|id, _| endpoints.contains(id));
        let all = endpoints.into_iter().map(|id| {
            let (succeeded, failed) = self.results.get(&id).map_or((0, 0), |it| it.take());
            EndpointResults { id, succeeded, failed }
        });
        let all: Vec<EndpointResults> = all.collect();
        self.eject(&all, random, now);
        self.readmit(&all, now)
    }

    fn eject(&mut self, all: &[EndpointResults], random: &mut Random, now: Time) {
        let rules = &self.rules;
        let mut evaluation = Evaluation {
            ejections: &mut self.ejections,
            all,
            most: rules.max_ejection_percent,
            random,
            now,
        };
        if let Some(rules) = &rules.success_rate {
            evaluation.by_success_rate(rules);
        }
        if let Some(rules) = &rules.failure_percentage {
            evaluation.by_failure_percentage(rules);
        }
    }

    /// Ends ejections whose time has passed, and returns their endpoints.
    fn readmit(&mut self, all: &[EndpointResults], now: Time) -> Vec<ConnectionId> {
        let mut readmitted = Vec::new();
        let base = self.rules.base_ejection_time;
        let longest = self.rules.max_ejection_time.max(base);
        self.ejections.retain(|id, ejection| {
            match ejection.since {
                None => ejection.multiplier = ejection.multiplier.saturating_sub(1),
                Some(since) => {
                    let time = base.saturating_mul(ejection.multiplier).min(longest);
                    ejection.since = Some(since).filter(|_| now <= since.after(time));
                    readmitted.extend(ejection.since.is_none().then_some(*id));
                }
            }
            let is_remembered = ejection.since.is_some() || ejection.multiplier > 0;
            is_remembered && all.binary_search_by_key(id, |results| results.id).is_ok()
        });
        readmitted
    }
}

/// Evaluation of an interval.
struct Evaluation<'a> {
    ejections: &'a mut BTreeMap<ConnectionId, Ejection>,
    /// Results of all endpoints of the priority, in the order of their ids.
    all: &'a [EndpointResults],
    /// Maximum percentage of ejected endpoints.
    most: u32,
    random: &'a mut Random,
    now: Time,
}

impl Evaluation<'_> {
    /// Ejects endpoints whose success rate is below the mean by more than a multiple of the standard
    /// deviation.
    fn by_success_rate(&mut self, rules: &SuccessRate) {
        let Some(known) = self.known(rules.minimum_calls, rules.minimum_endpoints) else { return };
        let count = known.len() as f64;
        let mean = known.iter().map(EndpointResults::success_rate).sum::<f64>() / count;
        let square = |it: &EndpointResults| (it.success_rate() - mean) * (it.success_rate() - mean);
        let variance = known.iter().map(square).sum::<f64>() / count;
        let factor = f64::from(rules.deviation) / 1_000.0;
        self.by(rules.enforcement, &known, |it| {
            let below = mean - it.success_rate();
            // The comparison of squares needs no root.
            below > 0.0 && below * below > factor * factor * variance
        });
    }

    /// Ejects endpoints whose failure percentage is above the threshold.
    fn by_failure_percentage(&mut self, rules: &FailurePercentage) {
        let Some(known) = self.known(rules.minimum_calls, rules.minimum_endpoints) else { return };
        self.by(rules.enforcement, &known, |it| {
            u64::from(it.failed) * 100 > u64::from(rules.threshold) * u64::from(it.calls())
        });
    }

    /// Returns the endpoints with at least this number of calls, if there are enough of them.
    fn known(&self, calls: u32, endpoints: u32) -> Option<Vec<EndpointResults>> {
        let has_enough = |it: &&EndpointResults| it.calls() >= calls.max(1);
        let known: Vec<EndpointResults> = self.all.iter().filter(has_enough).copied().collect();
        (known.len() >= endpoints as usize).then_some(known)
    }

    /// Ejects outliers with a probability of `enforcement` percent, until the maximum percentage of
    /// endpoints is ejected.
    fn by(
        &mut self,
        enforcement: u32,
        known: &[EndpointResults],
        is_outlier: impl Fn(&EndpointResults) -> bool,
    ) {
        let of_all = |id| self.ejections.get(&id).is_some_and(|it| it.since.is_some());
        let mut ejected = self.all.iter().filter(|it| of_all(it.id)).count();
        for results in known.iter().filter(|results| is_outlier(results)) {
            if ejected * 100 >= self.most as usize * self.all.len() {
                return;
            }
            let ejection = self.ejections.entry(results.id).or_default();
            if ejection.since.is_none() && self.random.below(100) < enforcement {
                ejection.since = Some(self.now);
                ejection.multiplier = ejection.multiplier.saturating_add(1);
                ejected = ejected.saturating_add(1);
            }
        }
    }
}
