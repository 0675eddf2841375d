//! Responses that somebody outside has to judge before they are used ([`Verdict::External`]).
//!
//! ```text
//!            nothing changed
//!  response ─────────────────────────────────▶ judged as always
//!     │ changed, and valid                         ▲
//!     ▼                                            │ nothing unseen
//!   Output::Update ──▶ settle(rejected) ──▶ looked at again
//!     ▲                                            │ more has become wanted meanwhile
//!     └────────────────────────────────────────────┘
//! ```
//!
//! A response under review has no effect at all: nothing of it is stored, and its nonce is not used,
//! since a request that carries it would pass for its ACK. What is kept is its frame, which is read
//! anew once the verdict is there: watches, expiries and other channels go on in the meantime.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use bytes::Bytes;

use super::{
    Client,
    cache::Cache,
    config::ClientLimits,
    error::{ChannelError, InvalidSettlement},
    event::{Resource, Update},
    reading::name_of,
    resource_type::{Context, Rejection, ResourceType, Value, Verdict},
    unwrap::{Body, unwrap},
    upstream::MAX_QUEUED_ACKS,
};
use crate::{
    id::{ChannelId, UpdateId},
    text::{ResourceName, Version},
    time::Time,
    wire::response::Response,
};

/// What one channel waits for.
#[derive(Debug, Default)]
pub(crate) struct Reviews {
    open: Option<Review>,
    /// How many there have been.
    count: u64,
    /// Responses that came although nothing was to be read, in order.
    waiting: VecDeque<Bytes>,
}

/// A response under review.
#[derive(Debug)]
struct Review {
    id: UpdateId,
    type_index: usize,
    frame: Bytes,
    settlement: Settlement,
    /// Until it is polled.
    update: Option<Update>,
}

/// What was said of the resources of a response that have been seen.
#[derive(Debug, Default)]
pub(crate) struct Settlement(BTreeMap<ResourceName, Result<Option<Value>, Rejection>>);

impl Settlement {
    pub(crate) fn verdict(&self, name: &str) -> Option<Result<Option<Value>, Rejection>> {
        self.0.get(name).cloned()
    }
}

impl Reviews {
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }
}

impl Client {
    /// Hands a response out for review if its type asks for that and something in it is new. Gives the
    /// settlement back if there is nothing to review.
    pub(super) fn open_review(
        &mut self,
        channel_id: ChannelId,
        type_index: usize,
        response: &Response<'_>,
        frame: &Bytes,
        mut settlement: Settlement,
    ) -> Option<Settlement> {
        let Some(known) = self.types.get(type_index) else { return Some(settlement) };
        if known.resource_type.verdict() == Verdict::Validation {
            return Some(settlement);
        }
        let Some(channel) = self.upstream.channel_mut(channel_id) else { return Some(settlement) };
        let is_wildcard_on_wire =
            channel.sotw.get(type_index).is_some_and(super::sotw::Sotw::has_wildcard);
        let resources = Preview {
            resource_type: &*known.resource_type,
            context: Context { server: &self.config.server, profile: &self.config.profile },
            cache: &known.cache,
            limits: &self.config.limits,
            has_wildcard: is_wildcard_on_wire && known.interest.wants_wildcard(),
        }
        .unseen(response, frame, &settlement);
        if resources.is_empty() {
            return Some(settlement);
        }
        for resource in &resources {
            settlement.0.insert(resource.name.clone(), Ok(resource.value.clone()));
        }
        channel.reviews.count += 1;
        let id = UpdateId { channel: channel_id, number: channel.reviews.count };
        let update = Some(Update {
            type_url: known.resource_type.type_url().clone(),
            version: Version::from(response.version),
            resources,
        });
        let frame = frame.clone();
        channel.reviews.open = Some(Review { id, type_index, frame, settlement, update });
        self.outbox.update(id);
        None
    }

    /// What the driver is to show for review; `None` if the channel has gone meanwhile.
    pub(super) fn take_update(&mut self, id: UpdateId) -> Option<Update> {
        let review = self.upstream.channel_mut(id.channel)?.reviews.open.as_mut()?;
        review.update.take_if(|_| review.id == id)
    }

    pub(super) fn settle_update(
        &mut self,
        id: UpdateId,
        rejected: Vec<(ResourceName, Rejection)>,
        now: Time,
    ) -> Result<(), InvalidSettlement> {
        let unknown = InvalidSettlement::UnknownUpdate(id);
        let channel = self.upstream.channel_mut(id.channel).ok_or_else(|| unknown.clone())?;
        let Some(review) = channel.reviews.open.take_if(|review| review.id == id) else {
            return Err(unknown);
        };
        let is_stranger =
            |(name, _): &&(ResourceName, Rejection)| !review.settlement.0.contains_key(name);
        if let Some((name, _)) = rejected.iter().find(is_stranger) {
            let name = name.clone();
            channel.reviews.open = Some(review);
            return Err(InvalidSettlement::UnknownResource(name));
        }
        let Review { type_index, frame, mut settlement, .. } = review;
        for (name, rejection) in rejected {
            settlement.0.insert(name, Err(rejection));
        }
        if let Ok(response) = Response::parse(&frame)
            && let Some(settlement) =
                self.open_review(id.channel, type_index, &response, &frame, settlement)
        {
            self.judge_response(id.channel, type_index, &response, &frame, &settlement, now);
        }
        self.take_waiting(id.channel, now);
        if let Some(channel) = self.upstream.channel_mut(id.channel) {
            channel.settle_timers(now);
        }
        self.announce();
        Ok(())
    }

    /// Puts a response aside while another one of the channel is under review.
    pub(super) fn must_wait(&mut self, id: ChannelId, frame: &Bytes, now: Time) -> bool {
        let Some(channel) = self.upstream.channel_mut(id) else { return false };
        if !channel.reviews.is_open() {
            return false;
        }
        if channel.reviews.waiting.len() < MAX_QUEUED_ACKS {
            channel.reviews.waiting.push_back(frame.clone());
        } else {
            // Only a driver that reads although it must not gets here.
            let error = ChannelError::Undeliverable("too many responses wait for a verdict".into());
            self.on_malformed(id, error, now);
        }
        true
    }

    fn take_waiting(&mut self, id: ChannelId, now: Time) {
        loop {
            let Some(channel) = self.upstream.channel_mut(id) else { return };
            if channel.reviews.is_open() {
                return;
            }
            let Some(frame) = channel.reviews.waiting.pop_front() else { return };
            if let Ok(response) = Response::parse(&frame) {
                self.take_response(id, &response, &frame, now);
            }
        }
    }
}

/// What is needed to see what a response would change.
struct Preview<'a> {
    resource_type: &'a dyn ResourceType,
    context: Context<'a>,
    cache: &'a Cache,
    limits: &'a ClientLimits,
    has_wildcard: bool,
}

impl Preview<'_> {
    /// The valid resources that are wanted, not in use as they are, and not seen before. What is wrong
    /// with the others is found when the response is judged.
    fn unseen(
        &self,
        response: &Response<'_>,
        frame: &Bytes,
        settlement: &Settlement,
    ) -> Vec<Resource> {
        let mut unseen = Vec::new();
        let mut guess = self.cache.first();
        for raw in response.resources().filter_map(Result::ok) {
            let Ok(one) = unwrap(&raw, response.type_url) else { continue };
            let Body::Resource(value) = one.body else { continue };
            if one.wrapper.is_none() && self.cache.is_plain_repeat(guess, value) {
                guess = self.cache.following(guess);
                continue;
            }
            let Ok(name) = name_of(self.resource_type, self.limits, &one) else { continue };
            let slot = self.cache.find(name);
            let entry = slot.and_then(|slot| self.cache.get(slot));
            guess = slot.map_or(guess, |slot| self.cache.following(slot));
            let is_wanted = entry.is_some() || self.has_wildcard;
            let is_in_use = entry.and_then(|entry| entry.bytes.as_deref()) == Some(value);
            if !is_wanted || is_in_use || settlement.verdict(name).is_some() {
                continue;
            }
            let bytes = frame.slice_ref(value);
            if let Ok(value) = self.resource_type.validate(&bytes, &self.context) {
                let metadata = one.wrapper.and_then(|wrapper| wrapper.metadata);
                unseen.push(Resource {
                    value,
                    metadata: metadata.map(Bytes::copy_from_slice),
                    control_plane: response.control_plane.into(),
                    ..Resource::new(name, response.version, bytes)
                });
            }
        }
        unseen
    }
}
