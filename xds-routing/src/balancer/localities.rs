//! Localities of a priority for its picker.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::sync::atomic::AtomicU32;

use xds_core::Time;

use super::{
    connection::Connections,
    limits::PickEndpoint,
    picker::{PickLocality, RingPlace, Selection},
    policy::EndpointPolicy,
    priority::{EndpointState, Priority, endpoint_state},
};
use crate::random::Random;

/// Localities of a priority, by the states of their endpoints.
pub(super) struct PickLocalities<'a> {
    /// Localities with at least one endpoint that is ready.
    pub(super) ready: Vec<PickLocality>,
    /// Whether an endpoint is connecting.
    pub(super) is_waiting: bool,
    /// Reason why the last failed endpoint has failed.
    pub(super) why: Option<&'a str>,
}

impl Priority {
    /// Returns the localities for calls. Results of the calls are counted for outlier detection.
    pub(super) fn localities<'a>(
        &mut self,
        connections: &'a Connections,
        random: &mut Random,
        now: Time,
    ) -> PickLocalities<'a> {
        let loads = self.members.policy.weighted_by_responses();
        let (mut ready, mut sum) = (Vec::new(), 0_u32);
        let (mut is_waiting, mut why) = (false, None);
        for (index, locality) in self.members.localities.iter().enumerate() {
            let (mut endpoints, mut places) = (Vec::new(), Vec::new());
            for member in &locality.endpoints {
                let place = match endpoint_state(self.outliers.as_ref(), connections, member) {
                    EndpointState::Ready(id, counters) => {
                        let (counters, hostnames) =
                            (Arc::clone(counters), member.hostnames.clone());
                        let locality = member.locality.clone();
                        let results = self.outliers.as_mut().map(|it| it.results(id));
                        endpoints.push(PickEndpoint {
                            id,
                            counters,
                            results,
                            hostnames,
                            locality,
                            loads: loads.cloned(),
                        });
                        RingPlace::Ready(endpoints.len().saturating_sub(1))
                    }
                    EndpointState::Failed(reason) => {
                        why = Some(reason);
                        RingPlace::Failed
                    }
                    EndpointState::Connecting => {
                        is_waiting = true;
                        RingPlace::Connecting
                    }
                };
                places.extend(locality.ring.is_some().then_some(place));
            }
            if !endpoints.is_empty() {
                sum = sum.saturating_add(locality.weight);
                let selection = match (&locality.ring, &self.members.policy) {
                    (Some(ring), _) => Selection::RingHash(Arc::clone(ring), places),
                    (None, EndpointPolicy::LeastRequest(choices)) => {
                        Selection::LeastRequest(*choices)
                    }
                    (None, EndpointPolicy::Weighted(rules)) => {
                        let next = next_place(&mut self.places, index, random);
                        Selection::weighted(&endpoints, rules, next, random, now)
                    }
                    (None, _) => Selection::round_robin(&endpoints, random),
                };
                ready.push(PickLocality::new(sum, endpoints, selection));
            }
        }
        PickLocalities { ready, is_waiting, why }
    }
}

/// Returns the number of the next place of a weighted locality; random at first.
fn next_place<'a>(
    places: &'a mut BTreeMap<usize, Arc<AtomicU32>>,
    locality: usize,
    random: &mut Random,
) -> &'a Arc<AtomicU32> {
    let first = || Arc::new(AtomicU32::new(random.below(u32::MAX)));
    places.entry(locality).or_insert_with(first)
}
