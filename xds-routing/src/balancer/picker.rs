//! Picker: the choice of an endpoint for each call.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU32, Ordering};

use xds_core::ResourceName;

use super::{ConnectionId, policy::EndpointPolicy};
use crate::{endpoint::DropCategory, random::Random};

/// Immutable choice of endpoints for calls. A [`Balancer`](super::Balancer) replaces it after
/// changes. Clones are cheap and share the round-robin position.
#[derive(Clone, Debug)]
pub struct Picker(Arc<Choice>);

#[derive(Debug)]
enum Choice {
    Queue,
    Fail(String),
    Ready(Vec<PickLocality>, Arc<Limits>),
}

/// Endpoints of a locality.
#[derive(Debug)]
pub(super) struct PickLocality {
    /// Cumulative weight, including this locality.
    sum: u32,
    /// At least one.
    endpoints: Vec<PickEndpoint>,
    policy: EndpointPolicy,
    /// Number of round-robin picks.
    turn: AtomicU32,
}

/// Endpoint that is ready for calls.
#[derive(Clone, Debug)]
pub(super) struct PickEndpoint {
    pub(super) id: ConnectionId,
    /// Number of active calls.
    pub(super) calls: Arc<AtomicU32>,
}

impl PickLocality {
    /// Creates a locality. The round robin begins at a random endpoint.
    pub(super) fn new(
        sum: u32,
        endpoints: Vec<PickEndpoint>,
        policy: EndpointPolicy,
        random: &mut Random,
    ) -> Self {
        let turn = AtomicU32::new(random.below(count(&endpoints)));
        Self { sum, endpoints, policy, turn }
    }

    pub(super) fn endpoints(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.endpoints.iter().map(|it| it.id)
    }

    fn pick(&self, random: &mut Random) -> Option<&PickEndpoint> {
        match self.policy {
            EndpointPolicy::RoundRobin | EndpointPolicy::PickFirst { .. } => {
                let turn = self.turn.fetch_add(1, Ordering::Relaxed) as usize;
                self.endpoints.get(turn.checked_rem(self.endpoints.len())?)
            }
            EndpointPolicy::LeastRequest(choices) => {
                let drawn = (0..choices).filter_map(|_| {
                    self.endpoints.get(random.below(count(&self.endpoints)) as usize)
                });
                drawn.min_by_key(|it| it.calls.load(Ordering::Relaxed))
            }
        }
    }
}

fn count(endpoints: &[PickEndpoint]) -> u32 {
    u32::try_from(endpoints.len()).unwrap_or(u32::MAX)
}

/// Limits of a cluster on its calls: drop categories and the maximum number of concurrent calls
/// (gRFC A32).
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) cluster: ResourceName,
    pub(super) drops: Vec<DropCategory>,
    /// Number of active calls.
    pub(super) requests: Arc<AtomicU32>,
    pub(super) max: u32,
}

/// Result of a pick.
#[derive(Debug)]
#[non_exhaustive]
pub enum EndpointPick<'a> {
    /// Send the call on this connection, and hold the permit until the call ends.
    Endpoint(ConnectionId, CallPermit),
    /// The call waits for the next picker.
    Queue,
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
    /// First pick of the call: drop categories apply.
    First,
    /// Repeated pick of a call that was not dropped but reached no endpoint, for example because
    /// its connection was lost. Drop categories do not apply again.
    Repeated,
}

/// Permit of an active call, which counts for its cluster and its endpoint until dropped.
#[derive(Debug)]
pub struct CallPermit {
    _cluster: ActiveCall,
    _endpoint: ActiveCall,
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
    pub(super) fn queueing() -> Self {
        Self(Arc::new(Choice::Queue))
    }

    pub(super) fn failing(why: String) -> Self {
        Self(Arc::new(Choice::Fail(why)))
    }

    pub(super) fn ready(localities: Vec<PickLocality>, limits: Arc<Limits>) -> Self {
        Self(Arc::new(Choice::Ready(localities, limits)))
    }

    /// Returns the cluster whose endpoints receive calls and whose limits apply: a member, if the
    /// cluster of the balancer is an aggregate. Returns `None` while calls wait or fail.
    #[must_use]
    pub fn cluster(&self) -> Option<&ResourceName> {
        match &*self.0 {
            Choice::Ready(_, limits) => Some(&limits.cluster),
            Choice::Queue | Choice::Fail(_) => None,
        }
    }

    /// Picks an endpoint for a new call. Drop categories apply only if an endpoint is available, so
    /// a waiting call is not dropped.
    #[must_use]
    pub fn pick(&self, random: &mut Random) -> EndpointPick<'_> {
        self.pick_for(PickAttempt::First, random)
    }

    /// Picks an endpoint for a new or repeated call. Drop categories apply once per call.
    #[must_use]
    pub fn pick_for(&self, attempt: PickAttempt, random: &mut Random) -> EndpointPick<'_> {
        let (localities, limits) = match &*self.0 {
            Choice::Queue => return EndpointPick::Queue,
            Choice::Fail(why) => return EndpointPick::Fail(why),
            Choice::Ready(localities, limits) => (localities, limits),
        };
        if attempt == PickAttempt::First
            && let Some(drop) = limits.drops.iter().find(|drop| drop.share.draw(random))
        {
            return EndpointPick::Drop(&drop.category);
        }
        let Some(_cluster) = ActiveCall::count(&limits.requests, limits.max) else {
            return EndpointPick::TooMany;
        };
        let drawn = random.below(localities.last().map_or(0, |last| last.sum));
        let place = localities.partition_point(|locality| locality.sum <= drawn);
        let endpoint = localities.get(place).and_then(|locality| locality.pick(random));
        let counted =
            endpoint.and_then(|it| Some((it.id, ActiveCall::count(&it.calls, u32::MAX)?)));
        match counted {
            Some((id, _endpoint)) => EndpointPick::Endpoint(id, CallPermit { _cluster, _endpoint }),
            None => EndpointPick::Queue,
        }
    }
}
