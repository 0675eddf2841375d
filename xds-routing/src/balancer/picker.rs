//! Who gets a call.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU32, Ordering};

use super::ConnectionId;
use crate::{endpoint::Drop as Share, random::Random};

/// Picks for calls. It never changes: a [`Balancer`](super::Balancer) gives another one. Clones are cheap,
/// and take turns with it.
#[derive(Clone, Debug)]
pub struct Picker(Arc<Choice>);

#[derive(Debug)]
enum Choice {
    Queue,
    Fail(String),
    Ready(Vec<PickLocality>, Arc<Limits>),
}

/// Endpoints that have their calls in turn.
#[derive(Debug)]
pub(super) struct PickLocality {
    /// The weights up to and including this one.
    sum: u32,
    /// At least one.
    endpoints: Vec<ConnectionId>,
    turn: AtomicU32,
}

impl PickLocality {
    pub(super) const fn new(sum: u32, endpoints: Vec<ConnectionId>, first: u32) -> Self {
        Self { sum, endpoints, turn: AtomicU32::new(first) }
    }

    pub(super) fn endpoints(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.endpoints.iter().copied()
    }
}

/// Which calls of a cluster are not even tried (A32).
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) drops: Vec<Share>,
    /// How many calls are under way.
    pub(super) requests: Arc<AtomicU32>,
    pub(super) most: u32,
}

/// Who gets a call.
#[derive(Debug)]
#[non_exhaustive]
pub enum EndpointPick<'a> {
    /// The endpoint of this connection; the permit is to be held as long as the call takes.
    Endpoint(ConnectionId, CallPermit),
    /// Nobody yet: the call waits for the next picker.
    Queue,
    /// Nobody: the call fails with UNAVAILABLE, unless it would rather wait for the next picker.
    Fail(&'a str),
    /// Nobody: the call is one of the share that is not tried, for this reason. It fails with UNAVAILABLE.
    Drop(&'a str),
    /// Nobody: as many calls are under way as may be. It fails with UNAVAILABLE.
    TooMany,
}

/// Whether a call was picked for before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// No: it is decided whether it is tried at all.
    First,
    /// Yes, and it was to be tried. It got to nobody, as when a connection is lost, and is not decided on again.
    Again,
}

/// A call is under way, until this is dropped.
#[derive(Debug)]
pub struct CallPermit(Arc<AtomicU32>);

impl Drop for CallPermit {
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

    /// Who gets a call. Chance decides whether it is tried and between localities; a call that waits is
    /// not asked whether it is tried before there is somebody for it.
    #[must_use]
    pub fn pick(&self, random: &mut Random) -> EndpointPick<'_> {
        self.pick_for(Trial::First, random)
    }

    /// Who gets a call that may have been picked for before. Calls are dropped by their share once only.
    #[must_use]
    pub fn pick_for(&self, trial: Trial, random: &mut Random) -> EndpointPick<'_> {
        let (localities, limits) = match &*self.0 {
            Choice::Queue => return EndpointPick::Queue,
            Choice::Fail(why) => return EndpointPick::Fail(why),
            Choice::Ready(localities, limits) => (localities, limits),
        };
        if trial == Trial::First
            && let Some(drop) = limits.drops.iter().find(|drop| drop.share.draw(random))
        {
            return EndpointPick::Drop(&drop.category);
        }
        let Some(permit) = limits.permit() else {
            return EndpointPick::TooMany;
        };
        let drawn = random.below(localities.last().map_or(0, |last| last.sum));
        let place = localities.partition_point(|locality| locality.sum <= drawn);
        let chosen = localities.get(place).and_then(|locality| {
            let turn = locality.turn.fetch_add(1, Ordering::Relaxed) as usize;
            locality.endpoints.get(turn.checked_rem(locality.endpoints.len())?)
        });
        match chosen {
            Some(&id) => EndpointPick::Endpoint(id, permit),
            None => EndpointPick::Queue,
        }
    }
}

impl Limits {
    fn permit(&self) -> Option<CallPermit> {
        let more = |now: u32| (now < self.most).then_some(now.saturating_add(1));
        let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
        self.requests.fetch_update(set, read, more).ok()?;
        Some(CallPermit(Arc::clone(&self.requests)))
    }
}
