//! Responses that wait for an external verdict ([`Verdict::External`]).
//!
//! ```text
//!            nothing changed
//!  response ─────────────────────────────────▶ processed as usual
//!     │ changed and valid resources                ▲
//!     ▼                                            │ no further resources
//!   Output::Update ──▶ settle(rejected) ──▶ classified again
//!     ▲                                            │ more was subscribed meanwhile
//!     └────────────────────────────────────────────┘
//! ```
//!
//! A response under review has no effect: nothing is stored, and its nonce is not used, because a
//! request with it would be an ACK. Only the frame is kept, and parsed again after the verdict,
//! because watches, expiries and other channels continue meanwhile. The response counts as received
//! at that time. Reports of nonexistent resources and errors take effect then too, and need no
//! verdict.

use alloc::{sync::Arc, vec::Vec};

use bytes::Bytes;

use super::{
    Client,
    cache::Cache,
    channel::{pending_verdicts::Review, requested::Asked, settlement::Settlement},
    config::resource_type::{Context, Rejection, Value, Verdict},
    event::{
        Resource, Update,
        error::{ChannelError, InvalidSettlement},
    },
    resource::{
        name::Naming,
        unwrap::{Body, Unwrapped, Wrapper},
    },
    response::{
        aliases::asked_for_by, any_response::AnyResponse, duplicates::Overruled, nack_message,
    },
    subscription::{TypeInterest, authority::DEFAULT},
    upstream::MAX_QUEUED_ACKS,
};
use crate::{
    id::{ChannelId, UpdateId},
    slab::Slot,
    text::{ResourceName, Version},
    time::Time,
    wire::resource::Aliases,
};

impl Client {
    /// Hands out a response for review if its type requires that and it contains new resources.
    /// Returns the settlement if there is nothing to review.
    pub(crate) fn open_review(
        &mut self,
        channel_id: ChannelId,
        type_index: usize,
        response: &AnyResponse<'_>,
        frame: &Bytes,
        mut settlement: Settlement,
    ) -> Option<Settlement> {
        let Some(known) = self.types.get(type_index) else { return Some(settlement) };
        if known.resource_type.verdict() == Verdict::Validation {
            return Some(settlement);
        }
        let Some((channel, server)) = self.upstreams.channel_and_server(channel_id) else {
            return Some(settlement);
        };
        let Some(machine) = channel.machine(type_index) else { return Some(settlement) };
        let scope = server.serves.of(type_index);
        let has_wildcard = machine.has_wildcard() && scope.get(DEFAULT) == Some(&true);
        let naming = Naming {
            resource_type: &*known.resource_type,
            limits: &self.config.limits,
            profile: &self.config.profile,
        };
        let resources = Preview {
            naming,
            context: Context { server: &server.server, profile: &self.config.profile },
            cache: &known.cache,
            interest: &known.interest,
            asked: Asked { sent: machine.sent(), scope, has_wildcard },
            settlement: &settlement,
            guess: known.cache.first(),
        }
        .unseen(response, frame);
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
            version: Version::from(response.version()),
            resources,
        });
        let frame = frame.clone();
        channel.reviews.open = Some(Review { id, type_index, frame, settlement, update });
        self.outbox.update(id);
        None
    }

    /// Takes the update for the driver; `None` if the channel has ended.
    pub(crate) fn take_update(&mut self, id: UpdateId) -> Option<Update> {
        let review = self.upstreams.channel_mut(id.channel)?.reviews.open.as_mut()?;
        review.update.take_if(|_| review.id == id)
    }

    pub(crate) fn is_under_review(&self, id: UpdateId) -> bool {
        let channel = self.upstreams.channel(id.channel);
        let review = channel.and_then(|channel| channel.reviews.open.as_ref());
        review.is_some_and(|review| review.id == id)
    }

    pub(crate) fn settle_update(
        &mut self,
        id: UpdateId,
        rejected: Vec<(ResourceName, Rejection)>,
        now: Time,
    ) -> Result<(), InvalidSettlement> {
        let unknown = InvalidSettlement::UnknownUpdate(id);
        let channel = self.upstreams.channel_mut(id.channel).ok_or_else(|| unknown.clone())?;
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
        if let Some(response) = self.read_again(id.channel, &frame)
            && let Some(settlement) =
                self.open_review(id.channel, type_index, &response, &frame, settlement)
        {
            self.judge_response(id.channel, type_index, &response, &frame, &settlement, now);
        }
        self.take_waiting(id.channel, now);
        if let Some(channel) = self.upstreams.channel_mut(id.channel) {
            channel.settle_timers(now);
        }
        self.announce();
        Ok(())
    }

    /// Queues a response while another one of the channel is under review.
    pub(crate) fn must_wait(&mut self, id: ChannelId, frame: &Bytes, now: Time) -> bool {
        let Some(channel) = self.upstreams.channel_mut(id) else { return false };
        if !channel.reviews.is_open() {
            return false;
        }
        if channel.reviews.waiting.len() < MAX_QUEUED_ACKS {
            channel.reviews.waiting.push_back(frame.clone());
        } else {
            // Only reached by a driver that reads despite `wants_read`.
            let error = ChannelError::Undeliverable("too many responses wait for a verdict".into());
            self.on_malformed(id, error, now);
        }
        true
    }

    fn take_waiting(&mut self, id: ChannelId, now: Time) {
        loop {
            let Some(channel) = self.upstreams.channel_mut(id) else { return };
            if channel.reviews.is_open() {
                return;
            }
            let Some(frame) = channel.reviews.waiting.pop_front() else { return };
            if let Some(response) = self.read_again(id, &frame) {
                self.take_response(id, &response, &frame, now);
            }
        }
    }

    /// Parses a frame again that was well-formed on arrival.
    fn read_again<'f>(&mut self, id: ChannelId, frame: &'f Bytes) -> Option<AnyResponse<'f>> {
        let (_, server) = self.upstreams.channel_and_server(id)?;
        AnyResponse::parse(server.server.variant, frame).ok()
    }
}

/// State for finding the changes that a response contains.
struct Preview<'a> {
    naming: Naming<'a>,
    context: Context<'a>,
    cache: &'a Cache,
    interest: &'a TypeInterest,
    asked: Asked<'a>,
    settlement: &'a Settlement,
    /// Entry expected next.
    guess: Slot,
}

impl Preview<'_> {
    /// Returns the valid, subscribed and changed resources that were not handed out before. Errors
    /// of others are found when the response is processed.
    fn unseen(mut self, response: &AnyResponse<'_>, frame: &Bytes) -> Vec<Resource> {
        let limit = self.naming.limits.token_bytes;
        let control_plane = Arc::<str>::from(nack_message::cut(response.control_plane(), limit));
        let mut unseen = Vec::new();
        let overruled = Overruled::in_any(self.naming, response);
        response.for_each_sound(self.naming, |(position, one)| {
            if overruled.is_at(position) {
                return;
            }
            let version = match (response, one.wrapper) {
                (AnyResponse::Delta(_), Some(wrapper)) => wrapper.version,
                _ => response.version(),
            };
            let Wrapper { metadata, cache_control, .. } = one.wrapper.unwrap_or_default();
            let aliases = match response {
                AnyResponse::Delta(_) => one.wrapper.unwrap_or_default().aliases,
                AnyResponse::Sotw(_) => Aliases::default(),
            };
            if let Some(News { name, bytes, value }) = self.look_at(&one, aliases, frame) {
                unseen.push(Resource {
                    value,
                    metadata: metadata.map(Bytes::copy_from_slice),
                    cache_control,
                    control_plane: Arc::clone(&control_plane),
                    ..Resource::new(name, version, bytes)
                });
            }
        });
        unseen
    }

    fn look_at(
        &mut self,
        one: &Unwrapped<'_>,
        aliases: Aliases<'_>,
        frame: &Bytes,
    ) -> Option<News> {
        let Body::Resource(value) = one.body else { return None };
        if one.wrapper.is_none() && self.cache.is_plain_repeat(self.guess, value) {
            self.guess = self.cache.following(self.guess);
            return None;
        }
        let name = self.naming.name_of(one).ok()?;
        let read = self.naming.read(name).ok()?;
        let (name, is_foreign) = (&*read.name, read.authority.is_some());
        let globs = &self.cache.globs;
        let slot = self.cache.find(name);
        self.guess = slot.map_or(self.guess, |slot| self.cache.following(slot));
        let is_wanted = match slot.and_then(|slot| self.cache.get(slot)) {
            Some(entry) if entry.bytes.as_deref() == Some(value) => false,
            Some(entry) => self.asked.may_speak_of(entry, self.interest, globs),
            None => self.asked.by_collection(name, is_foreign, self.interest, globs),
        };
        let is_in_use = slot
            .and_then(|slot| self.cache.get(slot)?.bytes.as_deref())
            .is_some_and(|bytes| bytes == value);
        let mut asked = asked_for_by(self.naming, self.cache, self.interest, name, aliases);
        let is_wanted = is_wanted || (!is_in_use && asked.next().is_some());
        if !is_wanted || self.settlement.verdict(name).is_some() {
            return None;
        }
        let bytes = frame.slice_ref(value);
        let value = self.naming.resource_type.validate(&bytes, &self.context).ok()?;
        Some(News { name: ResourceName::from(name), bytes, value })
    }
}

/// Resource that was not handed out before.
struct News {
    name: ResourceName,
    bytes: Bytes,
    value: Option<Value>,
}
