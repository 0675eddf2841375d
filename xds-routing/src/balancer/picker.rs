//! Picker: the choice of an endpoint for each call.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU32, Ordering};

use xds_core::{ResourceName, Time, proto::Locality};

use super::{
    ConnectionId,
    counters::LoadRecorder,
    limits::{Limits, PickEndpoint},
    load::{LoadReport, LoadSource},
    overrides::{Override, Overrides, SessionPick, SessionRequest},
    ring::Ring,
    stride::Stride,
};
use crate::{
    cluster::{UtilizationMetric, WeightedRoundRobin},
    random::Random,
    scalars::SocketAddress,
};

/// Immutable choice of endpoints for calls. A [`Balancer`](super::Balancer) replaces it after
/// changes. Clones are cheap and share the round-robin position.
#[derive(Clone, Debug)]
pub struct Picker(Arc<Choices>);

#[derive(Debug)]
struct Choices {
    choice: Choice,
    /// Endpoints for calls of sessions. `None` while no call uses sessions.
    overrides: Option<Overrides>,
}

/// Choice of the LB policy.
#[derive(Debug)]
pub(super) enum Choice {
    /// Calls wait.
    Queue,
    /// Calls fail for this reason.
    Fail(String),
    /// Calls are sent to these endpoints.
    Ready(Vec<PickLocality>, Arc<Limits>, Option<Arc<WeightedRoundRobin>>),
}

/// Endpoints of a locality.
#[derive(Debug)]
pub(super) struct PickLocality {
    /// Cumulative weight, including this locality.
    sum: u32,
    /// Endpoints that are ready. At least one.
    endpoints: Vec<PickEndpoint>,
    selection: Selection,
}

/// Choice among the endpoints of a locality.
#[derive(Debug)]
pub(super) enum Selection {
    /// Round robin, with the number of picks.
    RoundRobin(AtomicU32),
    /// Round robin by weight.
    Weighted(Stride),
    /// The endpoint with the fewest active calls among this many random ones.
    LeastRequest(u32),
    /// The endpoint at the hash of the call. The places of all endpoints of the ring, in the order of
    /// its indices.
    RingHash(Arc<Ring>, Vec<RingPlace>),
}

/// State of an endpoint on a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingPlace {
    /// Ready: the index among the endpoints that are ready.
    Ready(usize),
    /// Connecting: calls wait.
    Connecting,
    /// Failed: calls use the next endpoint.
    Failed,
}

impl Selection {
    /// Creates a round robin that begins at a random endpoint.
    pub(super) fn round_robin(endpoints: &[PickEndpoint], random: &mut Random) -> Self {
        Self::RoundRobin(AtomicU32::new(random.below(count(endpoints))))
    }

    /// Creates a round robin by the current weights from place `next` on, or a plain one if fewer
    /// than two endpoints have a weight.
    pub(super) fn weighted(
        endpoints: &[PickEndpoint],
        rules: &WeightedRoundRobin,
        next: &Arc<AtomicU32>,
        random: &mut Random,
        now: Time,
    ) -> Self {
        let weights: Vec<f64> =
            endpoints.iter().map(|it| it.counters.load.weight(rules, now)).collect();
        match Stride::new(&weights, next) {
            Some(stride) => Self::Weighted(stride),
            None => Self::round_robin(endpoints, random),
        }
    }
}

impl PickLocality {
    /// Creates a locality.
    pub(super) const fn new(sum: u32, endpoints: Vec<PickEndpoint>, selection: Selection) -> Self {
        Self { sum, endpoints, selection }
    }

    /// Picks an endpoint. Returns `None` if the call must wait, or the reason why it fails.
    fn pick(
        &self,
        hash: Option<u64>,
        random: &mut Random,
    ) -> Result<Option<&PickEndpoint>, &'static str> {
        Ok(match &self.selection {
            Selection::RoundRobin(turn) => {
                let turn = turn.fetch_add(1, Ordering::Relaxed) as usize;
                let place = turn.checked_rem(self.endpoints.len());
                place.and_then(|place| self.endpoints.get(place))
            }
            Selection::Weighted(stride) => {
                stride.pick().and_then(|place| self.endpoints.get(place))
            }
            Selection::LeastRequest(choices) => {
                let drawn = (0..*choices).filter_map(|_| {
                    self.endpoints.get(random.below(count(&self.endpoints)) as usize)
                });
                drawn.min_by_key(|it| it.counters.active.load(Ordering::Relaxed))
            }
            Selection::RingHash(ring, places) => {
                let hash = hash.unwrap_or_else(|| random.next_u64());
                let mut places = ring.from(hash).filter_map(|index| places.get(index));
                match places.find(|place| **place != RingPlace::Failed) {
                    Some(RingPlace::Ready(index)) => self.endpoints.get(*index),
                    Some(RingPlace::Connecting) => None,
                    // A small ring has no place for some endpoints.
                    Some(RingPlace::Failed) | None => return Err(RING_FAILED),
                }
            }
        })
    }

    /// Returns the locality with those endpoints that serve, and another cumulative weight. `None` if
    /// there are none. On a ring, calls of the other endpoints wait.
    fn retain(
        &self,
        sum: u32,
        serves: &impl Fn(ConnectionId) -> bool,
        random: &mut Random,
    ) -> Option<Self> {
        let mut endpoints = Vec::new();
        let mut indices = Vec::new();
        for endpoint in &self.endpoints {
            let is_kept = serves(endpoint.id);
            indices.push(is_kept.then_some(endpoints.len()));
            endpoints.extend(is_kept.then(|| endpoint.clone()));
        }
        if endpoints.is_empty() {
            return None;
        }
        let selection = match &self.selection {
            Selection::RoundRobin(_) | Selection::Weighted(_) => {
                Selection::round_robin(&endpoints, random)
            }
            Selection::LeastRequest(choices) => Selection::LeastRequest(*choices),
            Selection::RingHash(ring, places) => {
                let place = |place: &RingPlace| match place {
                    RingPlace::Ready(index) => {
                        let kept = indices.get(*index).copied().flatten();
                        kept.map_or(RingPlace::Connecting, RingPlace::Ready)
                    }
                    RingPlace::Connecting | RingPlace::Failed => *place,
                };
                Selection::RingHash(Arc::clone(ring), places.iter().map(place).collect())
            }
        };
        Some(Self { sum, endpoints, selection })
    }
}

const RING_FAILED: &str = "all endpoints on the ring have failed";

fn count(endpoints: &[PickEndpoint]) -> u32 {
    u32::try_from(endpoints.len()).unwrap_or(u32::MAX)
}

/// Result of a pick.
#[derive(Debug)]
#[non_exhaustive]
pub enum EndpointPick<'a> {
    /// Send the call on this connection, and hold the permit until the call ends.
    Endpoint(ConnectionId, CallPermit),
    /// The call waits for the next picker.
    Queue,
    /// The call waits for the next picker, which this request to
    /// [`Balancer::handle_session`](super::Balancer::handle_session) leads to.
    Request(SessionRequest),
    /// The call fails with UNAVAILABLE for this reason. A wait-for-ready call waits for the next
    /// picker.
    Fail(&'a str),
    /// The call is dropped by the drop category with this name, and fails with UNAVAILABLE.
    Drop(&'a str),
    /// The limit of concurrent calls is reached. The call fails with UNAVAILABLE.
    TooMany,
}

/// Whether a call was picked before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PickAttempt {
    /// First pick of the call, or of another attempt by its retry policy: drop categories apply.
    First,
    /// Repeated pick of a call that was not dropped but reached no endpoint, for example because
    /// its connection was lost. Drop categories do not apply again.
    Repeated,
}

/// Properties of a call that an endpoint is picked for.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PickArguments<'a> {
    /// Whether the call was picked before. Drop categories apply once per call.
    pub attempt: PickAttempt,
    /// [Hash](crate::route::Forward::hash) of the call, which only ring hash uses. It is random if
    /// there is none.
    pub hash: Option<u64>,
    /// Session of the call, if it has one.
    pub session: Option<SessionPick<'a>>,
}

impl PickArguments<'_> {
    /// Creates the arguments for a call without hash and session.
    #[must_use]
    pub const fn new(attempt: PickAttempt) -> Self {
        Self { attempt, hash: None, session: None }
    }
}

/// Permit of an active call, which counts for its cluster and its endpoint until dropped.
#[derive(Debug)]
pub struct CallPermit {
    _cluster: ActiveCall,
    endpoint: PickEndpoint,
    /// Addresses of the endpoint, if the call has a session.
    session_addresses: Option<String>,
    outcome: CallOutcome,
}

/// Outcome of a call, for outlier detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The call was not sent to the endpoint, and does not count.
    NotSent,
    /// The call ended with the status `OK`.
    Success,
    /// The call was sent, and ended with another status or was cancelled.
    Failure,
}

impl CallPermit {
    /// Returns the host name of the endpoint for the connection to this address, for
    /// [authority rewriting](crate::route::HostRewrite::Endpoint).
    #[must_use]
    pub fn hostname(&self, address: &SocketAddress) -> Option<&str> {
        self.endpoint.hostnames.get(address)
    }

    /// Returns the locality of the endpoint for the connection to this address, for load reports to
    /// the management server.
    #[must_use]
    pub fn locality(&self, address: &SocketAddress) -> &Arc<Locality> {
        self.endpoint.locality.get(address)
    }

    /// Returns the addresses of the endpoint for the [cookie](crate::filters::Session::set_cookie) of
    /// a session, separated by commas. The one that the connection uses is the first. `None` if the
    /// call has no session.
    #[must_use]
    pub fn session_addresses(&self) -> Option<&str> {
        self.session_addresses.as_deref()
    }

    /// Returns the metrics for the utilization of a load report that the response contains. `None` if
    /// the policy does not need it.
    #[must_use]
    pub fn load_metrics(&self) -> Option<&[UtilizationMetric]> {
        self.endpoint.loads.as_ref().map(|rules| &*rules.utilization_metrics)
    }

    /// Stores a load report that the response contained, for weighted round robin. Ignored if the
    /// policy does not need it. `now` is a time of the balancer's clock.
    pub fn report_load(&self, load: &LoadReport, now: Time) {
        if self.endpoint.loads.is_some() {
            self.endpoint.counters.load.report(load, now);
        }
    }

    /// Sets the outcome of the call. The last one is counted when the permit is dropped. Default:
    /// [`CallOutcome::NotSent`].
    pub const fn set_outcome(&mut self, outcome: CallOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        self.endpoint.counters.active.fetch_sub(1, Ordering::Relaxed);
        match (&self.endpoint.results, self.outcome) {
            (None, _) | (_, CallOutcome::NotSent) => {}
            (Some(results), outcome) => results.count(outcome == CallOutcome::Success),
        }
    }
}

/// Increment of a counter, undone when dropped.
#[derive(Debug)]
struct ActiveCall(Arc<AtomicU32>);

impl ActiveCall {
    /// Increments a counter, unless it has reached the maximum.
    fn count(counter: &Arc<AtomicU32>, max: u32) -> Option<Self> {
        let more = |now: u32| (now < max).then_some(now.saturating_add(1));
        let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
        counter.fetch_update(set, read, more).ok()?;
        Some(Self(Arc::clone(counter)))
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Picker {
    pub(super) fn new(choice: Choice, overrides: Option<Overrides>) -> Self {
        Self(Arc::new(Choices { choice, overrides }))
    }

    /// Returns the endpoints that receive calls.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = &PickEndpoint> {
        self.localities().iter().flat_map(|locality| &locality.endpoints)
    }

    fn localities(&self) -> &[PickLocality] {
        match &self.0.choice {
            Choice::Ready(localities, ..) => localities,
            Choice::Queue | Choice::Fail(_) => &[],
        }
    }

    /// Returns the localities with those endpoints that serve.
    pub(super) fn retain(
        &self,
        serves: impl Fn(ConnectionId) -> bool,
        random: &mut Random,
    ) -> Vec<PickLocality> {
        let (mut retained, mut sum, mut before) = (Vec::new(), 0_u32, 0_u32);
        for locality in self.localities() {
            let with = sum.saturating_add(locality.sum.saturating_sub(before));
            before = locality.sum;
            if let Some(locality) = locality.retain(with, &serves, random) {
                sum = with;
                retained.push(locality);
            }
        }
        retained
    }

    /// Returns the connections that receive calls, with recorders of their load. Some may occur more
    /// than once.
    pub fn connections(&self) -> impl Iterator<Item = (ConnectionId, LoadRecorder)> + '_ {
        self.endpoints().map(|it| (it.id, LoadRecorder(Arc::clone(&it.counters))))
    }

    /// Returns the localities of the endpoints that receive calls. Some may occur more than once.
    pub fn call_localities(&self) -> impl Iterator<Item = &Arc<Locality>> {
        let of_sessions = self.0.overrides.iter().flat_map(Overrides::localities);
        self.endpoints().flat_map(|endpoint| endpoint.locality.all()).chain(of_sessions)
    }

    /// Returns how the endpoints report their load, if the policy needs it. Reports of responses are
    /// for [`CallPermit::report_load`], and those of streams for the recorders of the
    /// [`connections`](Self::connections).
    #[must_use]
    pub fn loads(&self) -> Option<LoadSource> {
        self.weighted().map(|rules| match rules.out_of_band {
            Some(interval) => LoadSource::Stream(interval),
            None => LoadSource::Responses,
        })
    }

    /// Returns the metrics for the utilization of load reports.
    #[must_use]
    pub fn load_metrics(&self) -> &[UtilizationMetric] {
        self.weighted().map_or(&[], |rules| &*rules.utilization_metrics)
    }

    fn weighted(&self) -> Option<&WeightedRoundRobin> {
        match &self.0.choice {
            Choice::Ready(.., weighted) => weighted.as_deref(),
            Choice::Queue | Choice::Fail(_) => None,
        }
    }

    /// Returns the cluster whose endpoints receive calls and whose limits apply: a member, if the
    /// cluster of the balancer is an aggregate. Returns `None` while all calls wait or fail.
    #[must_use]
    pub fn cluster(&self) -> Option<&ResourceName> {
        match &self.0.choice {
            Choice::Ready(_, limits, _) => Some(&limits.cluster),
            Choice::Queue | Choice::Fail(_) => self.0.overrides.as_ref()?.cluster(),
        }
    }

    /// Picks an endpoint for a new call. Drop categories apply only if an endpoint is available, so
    /// a waiting call is not dropped.
    #[must_use]
    pub fn pick(&self, random: &mut Random) -> EndpointPick<'_> {
        self.pick_for(&PickArguments::new(PickAttempt::First), random)
    }

    /// Picks an endpoint for a call: that of its session if it can be used ([gRFC A55]), or else one
    /// that the LB policy chooses.
    ///
    /// [gRFC A55]:
    ///     https://github.com/grpc/proposal/blob/master/A55-xds-stateful-session-affinity.md
    #[must_use]
    pub fn pick_for(&self, call: &PickArguments<'_>, random: &mut Random) -> EndpointPick<'_> {
        let overrides = self.0.overrides.as_ref();
        let overriding = match (&call.session, overrides) {
            (None, _) => Override::None,
            (Some(_), None) => Override::Request(SessionRequest::for_picker()),
            (Some(session), Some(overrides)) => overrides.choose(session),
        };
        let (of_session, localities, limits) = match (overriding, &self.0.choice) {
            (Override::Endpoint(endpoint, limits), _) => (Some(endpoint), &[][..], limits),
            (Override::Queue, _) | (Override::None, Choice::Queue) => return EndpointPick::Queue,
            (Override::Request(request), _) => return EndpointPick::Request(request),
            (Override::None, Choice::Fail(why)) => return EndpointPick::Fail(why),
            (Override::None, Choice::Ready(localities, limits, _)) => {
                (None, &**localities, &**limits)
            }
        };
        if call.attempt == PickAttempt::First
            && let Some(drop) = limits.drops.iter().find(|drop| drop.share.draw(random))
        {
            return EndpointPick::Drop(&drop.category);
        }
        let Some(_cluster) = ActiveCall::count(&limits.requests, limits.max) else {
            return EndpointPick::TooMany;
        };
        let picked = match of_session {
            Some(endpoint) => Ok(Some(endpoint)),
            None => {
                let drawn = random.below(localities.last().map_or(0, |last| last.sum));
                let place = localities.partition_point(|locality| locality.sum <= drawn);
                localities.get(place).map_or(Ok(None), |it| it.pick(call.hash, random))
            }
        };
        match picked {
            Ok(Some(endpoint)) => {
                endpoint.counters.active.fetch_add(1, Ordering::Relaxed);
                let (id, endpoint) = (endpoint.id, endpoint.clone());
                let session = call.session.as_ref().zip(overrides);
                let session_addresses = session.and_then(|(call, it)| it.join(call, id));
                let outcome = CallOutcome::NotSent;
                let permit = CallPermit { _cluster, endpoint, session_addresses, outcome };
                EndpointPick::Endpoint(id, permit)
            }
            Ok(None) => EndpointPick::Queue,
            Err(why) => EndpointPick::Fail(why),
        }
    }
}
