//! Model of a server's responses of one type on one stream.
//!
//! The oracle knows which resources the client was sent and which names it has subscribed to since.
//! Each response must contain something new. The exception is unchanged endpoints of changed
//! clusters, for which a client that warms the clusters waits. State-of-the-world clients request
//! them and are answered once. Incremental clients may be sent them without a request.
// IS18

mod acceptance;
mod errors;
mod length;
mod progress;
pub(super) mod rules;
mod state;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod violations;
mod warming;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use xds_core::{Time, types};

use self::{
    acceptance::{PendingConvergence, TypeInView},
    progress::is_gated,
    rules::{
        ALL, FULL_STATE, LEAVES, LEFT_OUT, ONE_AT_A_TIME, ORDER, OWN_VIEW, REMOVED_ONCE,
        SAME_VERSION, TOLD, UNIQUE_NONCE, WARM,
    },
    state::TypeState,
    warming::Warms,
};
use super::{Event, Oracle, Report, Rule};
use crate::{
    options::{Order, Responses, Versions},
    situations::Situation,
    trace::Phase,
    world::{
        GRACE, LinkId, ResourceExtras, World, meaning_of,
        message::{Names, Request, Response, Text},
    },
};

/// Type of clusters, which are warmed, and of endpoints, which are sent again for that.
const WARMING: usize = 0;
const WARMED: usize = 1;

/// Scope in which counted versions are unique: a server and its number of restarts. Content
/// versions, and versions of single resources, are unique among all servers.
type Epoch = (usize, u32);

/// Newest change of a resource: its number, and the new content.
type Changed = (u64, Option<Bytes>);

/// Checks responses.
#[derive(Debug, Default)]
pub(super) struct ServerResponses {
    streams: BTreeMap<LinkId, Vec<TypeState>>,
    nonces: BTreeSet<(LinkId, Text)>,
    /// Incremental: content of each version of a resource, by type and name.
    contents: BTreeMap<(usize, Text, Text), Bytes>,
    /// State of the world: content of each version of a type.
    states: BTreeMap<(Epoch, usize, Text), BTreeMap<Text, Bytes>>,
    /// Number of restarts of each server with counted versions.
    epochs: BTreeMap<usize, u32>,
    /// Number of changes that servers have received.
    clock: u64,
    /// Newest change of each resource, by server, type and name.
    changed: BTreeMap<(usize, usize, Text), Changed>,
    /// Pending requests to be notified of acceptance.
    asked: BTreeMap<TypeInView, PendingConvergence>,
    /// Time of the first request on each stream.
    began: BTreeMap<LinkId, Time>,
    phase: Option<Phase>,
}

impl ServerResponses {
    fn state(&mut self, link: LinkId, kind: usize) -> &mut TypeState {
        let types = self.streams.entry(link).or_default();
        if types.len() <= kind {
            types.resize_with(kind + 1, TypeState::default);
        }
        &mut types[kind]
    }

    fn epoch(&self, link: LinkId, world: &World) -> Epoch {
        match world.options().versions {
            Versions::Content => (0, 0),
            _ => {
                let server = world.link(link).server;
                (server, self.epochs.get(&server).copied().unwrap_or_default())
            }
        }
    }

    fn arrived(&mut self, link: LinkId, request: &Request, world: &World) {
        let Some(kind) = request.kind else { return };
        let held: Vec<(Text, Bytes)> = match &request.names {
            Names::Change { versions, .. } => versions
                .iter()
                .map(|(name, version)| {
                    let key = (kind, name.clone(), version.clone());
                    // An unknown version cannot be the current content.
                    (name.clone(), self.contents.get(&key).cloned().unwrap_or_default())
                })
                .collect(),
            Names::Whole(_) => Vec::new(),
        };
        let state = self.state(link, kind);
        let was_answered = state.is_answered;
        if is_gated(world) {
            state.accepted.extend(held.iter().cloned());
        }
        state.requested(request, held);
        let is_more = state.subscription_changed(request);
        if world.options().responses == Responses::Short {
            let (server, view) = (world.link(link).server, world.view_of(world.link(link).client));
            state.leaves_whole(&world.has(server, view)[kind]);
        }
        if is_gated(world) && !was_answered && state.is_answered && !state.is_rejected {
            state.accepted.clone_from(&state.sent);
        }
        if is_more {
            self.subscription_changed(link, kind);
        }
    }

    fn responded(&mut self, link: LinkId, response: &Response, world: &World, report: &mut Report) {
        let is_fresh = self.nonces.insert((link, response.nonce.clone()));
        report.ensure(is_fresh && !response.nonce.is_empty(), UNIQUE_NONCE, || {
            format!("nonce {:?}", response.nonce)
        });
        let Some(kind) = response.kind else { return };
        let epoch = self.epoch(link, world);
        let is_whole = world.link(link).variant == xds_core::service::Variant::StateOfTheWorld;
        let is_full = is_whole && types::is_full_state_in_sotw(world.types()[kind].as_str());
        let (server, view) = (world.link(link).server, world.view_of(world.link(link).client));
        let has = &world.has(server, view)[kind];
        if is_whole {
            self.one_content_per_state(epoch, kind, is_full, response, report);
        } else {
            self.one_content_per_version(kind, response, report);
        }
        let is_ours = world.server(world.link(link).server).is_some();
        if world.options().order == Order::ByRank && is_ours && !response.renews() {
            let earlier = self.due_before(link, kind, world);
            let has_content = response.resources.iter().any(|item| item.bytes.is_some());
            report.ensure(earlier.is_none() || !has_content, ORDER, || {
                format!("{earlier:?} could be sent before")
            });
        }
        let is_gated = is_gated(world);
        let order = world.options().order;
        if is_gated && is_ours {
            self.waits_for_acks(link, kind, response, world, report);
        }
        let clock = self.clock;
        let state = self.state(link, kind);
        report.ensure(state.is_free() || !is_ours, ONE_AT_A_TIME, || {
            format!("nonce {:?} before {:?} was answered", response.nonce, state.newest)
        });
        let resources =
            response.resources.iter().filter_map(|item| Some((item, item.bytes.clone()?)));
        let content: BTreeMap<Text, Bytes> =
            resources.map(|(item, bytes)| (item.name.clone(), bytes)).collect();
        let extras = |name: &str| world.extras(server, view, kind, name);
        if !world.options().sends_ttls(world.link(link).variant) {
            report.ensure(!response.renews(), TOLD, || format!("{response:?}"));
            if content.keys().any(|name| extras(name).ttl.is_some()) {
                report.note(Situation::TtlOmitted);
            }
        }
        state.is_short_enough(kind, response, world, report);
        state.heartbeats(response, has, &extras, report);
        state.versions.0.clone_from(&response.version);
        state.answers.sends(response, &state.sent);
        if response.is_heartbeat() {
            state.newest.clone_from(&response.nonce);
            (state.is_answered, state.is_rejected, state.has_responded) = (false, false, true);
            state.gone.clear();
            state.beating = response.resources.iter().map(|item| item.name.clone()).collect();
            return;
        }
        state.errors(response, &content, &extras, report);
        let views = 0..world.options().views.max(1) as usize;
        for other in views.filter(|other| *other != view) {
            let others = &world.has(server, other)[kind];
            let is_foreign = |(name, bytes): &(&Text, &Bytes)| {
                // Resources from before a move may remain, as sent on this stream or as stated by
                // the client.
                has.get(*name) != Some(bytes)
                    && others.get(*name) == Some(bytes)
                    && !state.sent.contains_key(*name)
                    && !state.states_version
            };
            let foreign = content.iter().find(is_foreign).map(|(name, _)| name);
            report.ensure(foreign.is_none(), OWN_VIEW, || format!("{foreign:?} of view {other}"));
        }
        if is_full {
            // A client that names a resource with an error may receive the error instead.
            let is_sent = |name: &Text| {
                state.subscription.has_all() && state.subscription.covers(name)
                    || extras(name).error.is_none()
            };
            let mut expected =
                has.iter().filter(|(name, _)| state.subscription.covers(name) && is_sent(name));
            let has_all = expected.all(|(name, bytes)| content.get(name) == Some(bytes));
            let may_be_there = |name: &Text| {
                // A deleted resource may stay until nothing refers to it (M147), because removals
                // are sent last.
                let stays = order != Order::AsDue
                    && (state.sent.contains_key(name) || state.touched.contains(name));
                state.subscription.covers(name) && (has.contains_key(name) || stays)
            };
            let too_much = content.keys().find(|name| !may_be_there(name));
            report.ensure(too_much.is_none(), LEFT_OUT, || format!("{too_much:?} is not there"));
            report.ensure(has_all, FULL_STATE, || {
                let names: Vec<_> = content.keys().collect();
                format!("{names:?} where the server has {:?}", has.keys().collect::<Vec<_>>())
            });
        } else {
            let unrequested = content.iter().find(|(name, bytes)| {
                !state.subscription.covers(name) || has.get(*name) != Some(bytes)
            });
            let rule = unrequested.map_or(FULL_STATE, |(name, _)| state.rule_of_unrequested(name));
            report.ensure(unrequested.is_none(), rule, || format!("{unrequested:?} is not so"));
        }
        for name in &response.removed {
            let is_left = state.left.contains(name) || state.touched.contains(name);
            let is_known = is_left
                || state.repeated_removals.contains(name)
                || state.sent.contains_key(name)
                || state.unanswered.contains(name);
            let exists = has.contains_key(&meaning_of(name)) && state.subscription.covers(name);
            let is_gone = !exists && !content.contains_key(name);
            report.ensure(is_known && is_gone, REMOVED_ONCE, || format!("{name} is removed"));
        }
        if !world.options().has_aliases() {
            // Aliases of a returning client's resources are not checked.
            state.differs(response, &extras, report);
        }
        let comes_in_parts = world.options().responses == Responses::Short && !is_full;
        let left_out = state.left_out(&content, has, &extras);
        // For a response in parts, it is unknown whether it is a renewal.
        let renews_only = !comes_in_parts
            && left_out.is_some()
            && state.renews_before_it_is_asked(&content, &extras, response);
        if is_ours
            && state.warms != Warms::Nothing
            && !state.was_rejected
            && !comes_in_parts
            && !renews_only
        {
            // Parts of a rejected response may be sent alone.
            report.ensure(left_out.is_none(), WARM, || format!("{left_out:?} is left out"));
            let is_known = |(name, bytes): (&Text, &Bytes)| state.sent.get(name) == Some(bytes);
            if !content.is_empty() && content.iter().all(is_known) {
                report.note(Situation::WarmedUnchanged);
            }
        }
        let has_changed = content.iter().any(|(name, bytes)| state.sent.get(name) != Some(bytes));
        if comes_in_parts {
            state.comes_in_parts(&content, has, &extras, response);
        }
        state.has_news(is_full, &content, response, world.now(), report);
        if state.has_responded && content.len() > 1 {
            report.note(Situation::ChangesCoalesced);
        }
        let warms = if renews_only { state.warms } else { Warms::Nothing };
        let clusters: Vec<_> = content.keys().cloned().collect();
        state.take(is_full, content, response);
        (state.warms, state.made.0) = (warms, clock);
        if kind == WARMING && world.types().len() > WARMED {
            let waiting = self.state(link, WARMED);
            if is_whole {
                waiting.await_all();
            } else {
                waiting.await_endpoints_of(clusters);
            }
            if has_changed && is_whole {
                waiting.clusters_changed();
            }
        }
    }

    /// Returns a resource of an earlier type that could be sent on the stream.
    fn due_before(&self, link: LinkId, kind: usize, world: &World) -> Option<(usize, Text)> {
        let (server, view) = (world.link(link).server, world.view_of(world.link(link).client));
        let types = self.streams.get(&link)?.iter().enumerate().take(kind);
        let free = types.filter(|(_, state)| {
            state.subscription.was_requested && state.is_free() && !state.states_version
        });
        let mut due = free.filter_map(|(kind, state)| {
            let mut has = world.has(server, view)[kind].iter();
            let is_due = |(name, bytes): &(&Text, &Bytes)| {
                let is_plain = world.extras(server, view, kind, name) == ResourceExtras::default();
                state.subscription.covers(name) && is_plain && state.sent.get(*name) != Some(bytes)
            };
            has.find(is_due).map(|(name, _)| (kind, name.clone()))
        });
        due.next()
    }

    /// Checks the end of a stream by a draining server.
    fn gone(&self, link: LinkId, world: &World, report: &mut Report) {
        let Some(since) = world.draining_since(link) else { return };
        let types = self.streams.get(&link).into_iter().flatten();
        let mut open = types.filter(|state| state.has_responded && !state.is_answered);
        let it = world.link(link);
        // The server may not be the side that ends the stream.
        let is_patient = world.now().since(since) >= GRACE || it.is_cut() || !it.is_known_to_client;
        report.ensure(is_patient || open.next().is_none(), LEAVES, || {
            format!("stream {} has ended before an answer", link.0)
        });
    }

    /// Handles a move of a client to another view: the resources of both views may be sent.
    fn moved(&mut self, client: usize, view: usize, world: &World) {
        let of_client =
            self.streams.iter_mut().filter(|(link, _)| world.link(**link).client == client);
        for (link, types) in of_client {
            for (kind, state) in types.iter_mut().enumerate() {
                let views = [world.view_of(client), view];
                let has = views.map(|view| &world.has(world.link(*link).server, view)[kind]);
                let names = has.into_iter().flat_map(|has| has.keys()).chain(state.sent.keys());
                let names =
                    names.chain(state.reported.keys()).chain(&state.subscription.subscribed);
                let touched: Vec<Text> =
                    names.filter(|name| state.subscription.covers(name)).cloned().collect();
                state.touched.extend(touched);
                state.stir();
                state.answers.may_resend = true;
            }
            for asked in self.asked.values_mut() {
                asked.waiting.remove(link);
            }
        }
    }

    fn applied(&mut self, server: usize, view: usize, kind: usize, name: &str, world: &World) {
        let of_server = self.streams.iter_mut().filter(|(link, _)| {
            let it = world.link(**link);
            it.server == server && world.view_of(it.client) == view
        });
        for state in of_server.filter_map(|(_, types)| types.get_mut(kind)) {
            state.named_late.remove(name);
            state.stated.remove(name);
            state.stir();
            state.answers.may_resend = true;
            if state.subscription.covers(name) {
                state.touched.insert(name.into());
            }
            if let Some(other) = state.subscription.other_name(name) {
                state.touched.insert(other);
            }
        }
    }

    /// Records a change of a resource. Changes of its error or TTL are ignored, because nothing
    /// refers to them.
    fn note_change(&mut self, of: (usize, usize, Text), bytes: Option<&Bytes>) {
        let is_known = self.changed.get(&of).is_some_and(|(_, known)| known.as_ref() == bytes);
        if !is_known {
            self.changed.insert(of, (self.clock, bytes.cloned()));
        }
    }

    fn one_content_per_version(&mut self, kind: usize, response: &Response, report: &mut Report) {
        for item in &response.resources {
            let Some(bytes) = &item.bytes else { continue };
            let key = (kind, item.name.clone(), item.version.clone());
            let known = self.contents.entry(key).or_insert_with(|| bytes.clone());
            report.ensure(known == bytes, SAME_VERSION, || {
                format!("version {:?} of {} is two things", item.version, item.name)
            });
        }
    }

    fn one_content_per_state(
        &mut self,
        epoch: Epoch,
        kind: usize,
        is_full: bool,
        response: &Response,
        report: &mut Report,
    ) {
        if !is_full {
            return; // A part has the version of the whole state.
        }
        let state: BTreeMap<Text, Bytes> = response
            .resources
            .iter()
            .filter_map(|item| Some((item.name.clone(), item.bytes.clone()?)))
            .collect();
        let key = (epoch, kind, response.version.clone());
        let known = self.states.entry(key).or_insert_with(|| state.clone());
        report.ensure(*known == state, SAME_VERSION, || {
            format!("version {:?} is two states", response.version)
        });
    }
}

impl Oracle for ServerResponses {
    fn rules(&self) -> &'static [Rule] {
        ALL
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match event {
            Event::Arrived { link, request } => {
                self.began.entry(*link).or_insert_with(|| world.now());
                self.arrived(*link, request, world);
            }
            Event::Responded { link, response } => self.responded(*link, response, world, report),
            Event::Applied { server, view, kind, name, bytes } => {
                self.clock += 1;
                self.note_change((*server, *kind, (*name).into()), *bytes);
                self.applied(*server, *view, *kind, name, world);
            }
            Event::ServerDrained { server } => {
                self.drained(*server, world, report);
                self.check_acceptance(*server, world, report);
            }
            Event::Asked { server, view, kind, sequence } => {
                self.convergence_requested((*server, *view, *kind), *sequence, world);
            }
            Event::Converged { server, view, kind, sequence } => {
                self.told((*server, *view, *kind), *sequence, world, report);
            }
            Event::Moved { client, view } => self.moved(*client, *view, world),
            Event::ServerRestarted { server } => {
                self.asked.retain(|(of, ..), _| of != server);
                if world.options().versions != Versions::Content {
                    *self.epochs.entry(*server).or_default() += 1;
                }
            }
            Event::EndedAtServer { link } => {
                self.gone(*link, world, report);
                self.began.remove(link);
                drop(self.streams.remove(link));
            }
            Event::Phase(phase) => self.phase = Some(*phase),
            Event::Rest if self.phase == Some(Phase::Converge) => self.at_rest(world, report),
            _ => {}
        }
    }
}
