//! Responses that wait for an external verdict ([`VerdictSource::External`]).
//!
//! ```text
//!            nothing changed
//!  response ─────────────────────────────────▶ processed as usual
//!     │ changed and valid resources                ▲
//!     ▼                                            │ no further resources
//!   Output::Update ──▶ submit_verdict(rejected) ──▶ classified again
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
    channel::{
        pending_verdicts::PendingVerdict, requested::RequestedResources, verdicts::Verdicts,
    },
    config::resource_type::{Rejection, ValidationContext, Value, VerdictSource},
    event::{Resource, Update, error::InvalidVerdict},
    resource::{
        name::Naming,
        unwrap::{ResourceBody, Unwrapped, Wrapper},
    },
    response::{
        aliases::aliased_subscriptions, any_response::AnyResponse, duplicates::IgnoredDuplicates,
        nack_message,
    },
    subscription::{TypeInterest, authority::DEFAULT},
};
use crate::{
    id::{ChannelId, UpdateId},
    slab::Slot,
    text::{ResourceName, Version},
    time::Time,
    wire::{resource::RawAliases, walk::part_of},
};

impl Client {
    /// Hands out a response for review if its type requires that and it contains new resources.
    /// Returns the settlement if there is nothing to review.
    pub(crate) fn request_verdict(
        &mut self,
        channel_id: ChannelId,
        type_index: usize,
        response: &AnyResponse<'_>,
        frame: &Bytes,
        mut verdicts: Verdicts,
    ) -> Option<Verdicts> {
        let Some(known) = self.types.get(type_index) else { return Some(verdicts) };
        if known.resource_type.verdict_source() == VerdictSource::Validation {
            return Some(verdicts);
        }
        let Some((channel, server)) = self.upstreams.channel_and_server(channel_id) else {
            return Some(verdicts);
        };
        let Some(type_state) = channel.type_state(type_index) else { return Some(verdicts) };
        let scope = server.scopes.of(type_index);
        let has_wildcard = type_state.has_wildcard() && scope.get(DEFAULT) == Some(&true);
        let naming = Naming {
            resource_type: &*known.resource_type,
            limits: &self.config.limits,
            profile: &self.config.profile,
        };
        let resources = ChangeFinder {
            naming,
            context: ValidationContext { server: &server.server, profile: &self.config.profile },
            cache: &known.cache,
            interest: &known.interest,
            requested: RequestedResources { sent: type_state.sent(), scope, has_wildcard },
            verdicts: &verdicts,
            expected: known.cache.first(),
        }
        .changed_resources(response, frame);
        if resources.is_empty() {
            return Some(verdicts);
        }
        for resource in &resources {
            verdicts.0.insert(resource.name.clone(), Ok(resource.value.clone()));
        }
        channel.pending_verdicts.count += 1;
        let id = UpdateId { channel: channel_id, number: channel.pending_verdicts.count };
        let update = Some(Update {
            type_url: known.resource_type.type_url().clone(),
            version: Version::from(response.version()),
            resources,
        });
        let frame = frame.clone();
        channel.pending_verdicts.open =
            Some(PendingVerdict { id, type_index, frame, verdicts, update });
        self.outbox.update(id);
        None
    }

    /// Takes the update for the driver; `None` if the channel has ended.
    pub(crate) fn take_update(&mut self, id: UpdateId) -> Option<Update> {
        let pending = self.upstreams.channel_mut(id.channel)?.pending_verdicts.open.as_mut()?;
        pending.update.take_if(|_| pending.id == id)
    }

    pub(crate) fn has_pending_verdict(&self, id: UpdateId) -> bool {
        let channel = self.upstreams.channel(id.channel);
        let pending = channel.and_then(|channel| channel.pending_verdicts.open.as_ref());
        pending.is_some_and(|pending| pending.id == id)
    }

    pub(crate) fn apply_verdict(
        &mut self,
        id: UpdateId,
        rejected: Vec<(ResourceName, Rejection)>,
        now: Time,
    ) -> Result<(), InvalidVerdict> {
        let unknown = InvalidVerdict::UnknownUpdate(id);
        let channel = self.upstreams.channel_mut(id.channel).ok_or_else(|| unknown.clone())?;
        let Some(pending) = channel.pending_verdicts.open.take_if(|pending| pending.id == id)
        else {
            return Err(unknown);
        };
        let is_unknown =
            |(name, _): &&(ResourceName, Rejection)| !pending.verdicts.0.contains_key(name);
        if let Some((name, _)) = rejected.iter().find(is_unknown) {
            let name = name.clone();
            channel.pending_verdicts.open = Some(pending);
            return Err(InvalidVerdict::UnknownResource(name));
        }
        let PendingVerdict { type_index, frame, mut verdicts, .. } = pending;
        for (name, rejection) in rejected {
            verdicts.0.insert(name, Err(rejection));
        }
        if let Some(response) = self.read_again(id.channel, &frame)
            && let Some(verdicts) =
                self.request_verdict(id.channel, type_index, &response, &frame, verdicts)
        {
            self.process_response(id.channel, type_index, &response, &frame, &verdicts, now);
        }
        self.process_waiting(id.channel, now);
        if let Some(channel) = self.upstreams.channel_mut(id.channel) {
            channel.update_timers(now);
        }
        self.signal_writable();
        Ok(())
    }

    /// Queues a response while another one of the channel is under review.
    pub(crate) fn must_wait(&mut self, id: ChannelId, frame: &Bytes) -> bool {
        let Some(channel) = self.upstreams.channel_mut(id) else { return false };
        if !channel.pending_verdicts.is_open() {
            return false;
        }
        channel.pending_verdicts.waiting.push_back(frame.clone());
        true
    }

    fn process_waiting(&mut self, id: ChannelId, now: Time) {
        loop {
            let Some(channel) = self.upstreams.channel_mut(id) else { return };
            if channel.pending_verdicts.is_open() {
                return;
            }
            let Some(frame) = channel.pending_verdicts.waiting.pop_front() else { return };
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
struct ChangeFinder<'a> {
    naming: Naming<'a>,
    context: ValidationContext<'a>,
    cache: &'a Cache,
    interest: &'a TypeInterest,
    requested: RequestedResources<'a>,
    verdicts: &'a Verdicts,
    /// Entry expected next.
    expected: Slot,
}

impl ChangeFinder<'_> {
    /// Returns the valid, subscribed and changed resources that were not handed out before. Errors
    /// of others are found when the response is processed.
    fn changed_resources(mut self, response: &AnyResponse<'_>, frame: &Bytes) -> Vec<Resource> {
        let limit = self.naming.limits.token_bytes;
        let control_plane = Arc::<str>::from(nack_message::cut(response.control_plane(), limit));
        let mut changed_resources = Vec::new();
        let ignored = IgnoredDuplicates::in_any(self.naming, response);
        response.for_each_valid(self.naming, |(position, one)| {
            if ignored.is_at(position) {
                return;
            }
            let version = match (response, one.wrapper) {
                (AnyResponse::Delta(_), Some(wrapper)) => wrapper.version,
                _ => response.version(),
            };
            let Wrapper { metadata, cache_control, .. } = one.wrapper.unwrap_or_default();
            let aliases = match response {
                AnyResponse::Delta(_) => one.wrapper.unwrap_or_default().aliases,
                AnyResponse::Sotw(_) => RawAliases::default(),
            };
            if let Some(ChangedResource { name, bytes, value }) = self.check(&one, aliases, frame) {
                changed_resources.push(Resource {
                    value,
                    metadata: metadata.map(Bytes::copy_from_slice),
                    cache_control,
                    control_plane: Arc::clone(&control_plane),
                    ..Resource::new(name, version, bytes)
                });
            }
        });
        changed_resources
    }

    fn check(
        &mut self,
        one: &Unwrapped<'_>,
        aliases: RawAliases<'_>,
        frame: &Bytes,
    ) -> Option<ChangedResource> {
        let ResourceBody::Resource(value) = one.body else { return None };
        if one.wrapper.is_none() && self.cache.is_plain_unchanged(self.expected, value) {
            self.expected = self.cache.following(self.expected);
            return None;
        }
        let name = self.naming.name_of(one).ok()?;
        let read = self.naming.parse(name).ok()?;
        let (name, has_authority) = (&*read.name, read.authority.is_some());
        let globs = &self.cache.globs;
        let slot = self.cache.find(name);
        self.expected = slot.map_or(self.expected, |slot| self.cache.following(slot));
        let is_subscribed = match slot.and_then(|slot| self.cache.get(slot)) {
            Some(entry) if entry.bytes.as_deref() == Some(value) => false,
            Some(entry) => self.requested.may_send(entry, self.interest, globs),
            None => {
                self.requested.is_covered_by_collection(name, has_authority, self.interest, globs)
            }
        };
        let is_in_use = slot
            .and_then(|slot| self.cache.get(slot)?.bytes.as_deref())
            .is_some_and(|bytes| bytes == value);
        let mut requested =
            aliased_subscriptions(self.naming, self.cache, self.interest, name, aliases);
        let is_subscribed = is_subscribed || (!is_in_use && requested.next().is_some());
        if !is_subscribed || self.verdicts.verdict(name).is_some() {
            return None;
        }
        let bytes = part_of(frame, value);
        let value = self.naming.resource_type.validate(&bytes, &self.context).ok()?;
        Some(ChangedResource { name: ResourceName::from(name), bytes, value })
    }
}

/// Resource that was not handed out before.
struct ChangedResource {
    name: ResourceName,
    bytes: Bytes,
    value: Option<Value>,
}
