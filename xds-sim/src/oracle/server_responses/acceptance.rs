//! Acceptance of changes: a server's reports, compared with the messages on its streams.
//!
//! After each drain, the oracle queries a server about the types with recent messages or changes. A
//! client that lacks a resource, has not acknowledged it, or has rejected it must not be reported
//! up to date. A client that was sent everything and has acknowledged it must not be reported as
//! lagging. Operators also ask to be notified when all clients have accepted a change. The
//! notification must not come before the clients that lagged have accepted, and must come when all
//! have.
//!
//! Clients that return with a version that may be current are not checked. Needless waiting is not
//! checked if types wait for each other's ACKs.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use xds_core::{
    StreamId,
    server::{Convergence, LagReason, Server},
    service::Variant,
    types,
};

use super::{ServerResponses, progress::is_gated, rules::ACCEPTED, state::TypeState};
use crate::{
    oracle::Report,
    world::{
        LinkId, World,
        message::{Names, Request, Response, Text},
    },
};

/// Sequence number that stands for the newest change.
pub(super) const NEWEST: u64 = u64::MAX;

/// ACKs and NACKs of a client for one type.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Names that were new to the client in the newest response.
    fresh: BTreeSet<Text>,
    /// All names of the newest response, unless it was a heartbeat.
    content: Vec<Text>,
    /// Names of rejected responses that no accepted response has contained since.
    refused: BTreeSet<Text>,
    /// Whether a change has come with which rejected resources are sent again.
    pub(super) may_resend: bool,
    /// Whether something has changed since the server was last queried.
    is_unchecked: bool,
}

impl Answers {
    /// Handles a response to a client that has the resources `sent`.
    pub(super) fn sends(&mut self, response: &Response, sent: &BTreeMap<Text, Bytes>) {
        self.is_unchecked = true;
        self.fresh.clear();
        self.content.clear();
        if response.is_heartbeat() {
            return;
        }
        for item in &response.resources {
            let Some(bytes) = &item.bytes else { continue };
            if sent.get(&item.name) != Some(bytes) {
                self.fresh.insert(item.name.clone());
            }
            self.content.push(item.name.clone());
        }
        self.content.extend(response.removed.iter().cloned());
    }

    /// Handles the ACK of the newest response.
    pub(super) fn accepts(&mut self) {
        self.fresh.clear();
        for name in self.content.drain(..) {
            self.refused.remove(&name);
        }
    }

    /// Handles the NACK of the newest response.
    pub(super) fn rejects(&mut self) {
        self.refused.extend(self.content.iter().cloned());
    }

    /// Names of rejected responses that no accepted response has contained since.
    pub(super) fn refused(&self) -> &BTreeSet<Text> {
        &self.refused
    }

    /// Notes another change.
    pub(super) fn stir(&mut self) {
        self.is_unchecked = true;
    }
}

/// A pending request of an operator to be notified of the acceptance of a change.
#[derive(Debug)]
pub(super) struct PendingConvergence {
    sequence: u64,
    /// Streams that lagged and have not changed their subscription since.
    pub(super) waiting: BTreeSet<LinkId>,
}

/// Indexes of server, view and type.
pub(super) type TypeInView = (usize, usize, usize);

/// Required report about a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Expected {
    /// Lagging, because it lacks this resource or has not accepted it.
    Lagging(Text),
    /// Up to date, because it was sent everything and has acknowledged it.
    UpToDate,
    /// Undetermined by the messages seen.
    Unknown,
}

impl ServerResponses {
    /// Queries a drained server about the acceptance of each type with new messages or changes.
    pub(super) fn check_acceptance(&mut self, server: usize, world: &World, report: &mut Report) {
        let Some(core) = world.server(server) else { return };
        let mut places = BTreeSet::new();
        for (link, types) in &mut self.streams {
            let it = world.link(*link);
            if it.server != server {
                continue;
            }
            for (kind, state) in types.iter_mut().enumerate() {
                if std::mem::take(&mut state.answers.is_unchecked) {
                    places.insert((world.view_of(it.client), kind));
                }
            }
        }
        for (view, kind) in places {
            self.compare((server, view, kind), core, world, report);
        }
        // There are few of them, and they wait briefly.
        for (&(_, view, kind), asked) in self.asked.iter().filter(|((of, ..), _)| *of == server) {
            let is_over = told(core, world, view, kind, asked.sequence).is_complete();
            report.ensure(!is_over, ACCEPTED, || {
                format!("all have accepted {} of {kind}, and nobody is told", asked.sequence)
            });
        }
    }

    /// Checks a world at rest: a stream may lag only after a NACK or because of heartbeats.
    pub(super) fn all_accepted(&self, world: &World, report: &mut Report) {
        for (server, core) in
            (0..world.server_count()).filter_map(|at| Some((at, world.server(at)?)))
        {
            let views = 0..world.options().views.max(1) as usize;
            let kinds = 0..world.types().len();
            for (view, kind) in views.flat_map(|view| kinds.clone().map(move |kind| (view, kind))) {
                let lags = lags(&told(core, world, view, kind, NEWEST));
                let is_pending = |(link, state): &(LinkId, &TypeState)| {
                    let lag = world.link(*link).core_stream().and_then(|it| lags.get(&it));
                    let may_be = state.is_rejected || !state.beating.is_empty();
                    lag == Some(&LagReason::Pending) && !may_be
                };
                let pending = self.of((server, view, kind), world).find(is_pending);
                let pending = pending.map(|(link, _)| link);
                report.ensure(pending.is_none(), ACCEPTED, || {
                    format!("at rest, {pending:?} is waited for with {kind}")
                });
            }
        }
    }

    /// Handles an operator's request to be notified of the acceptance of a change.
    pub(super) fn convergence_requested(
        &mut self,
        place: TypeInView,
        sequence: u64,
        world: &World,
    ) {
        let (server, view, kind) = place;
        let Some(core) = world.server(server) else { return };
        let lags = lags(&told(core, world, view, kind, sequence));
        let is_lagging = |link: &LinkId| {
            world.link(*link).core_stream().is_some_and(|stream| lags.contains_key(&stream))
        };
        let waiting = self.of(place, world).map(|(link, _)| link).filter(is_lagging).collect();
        self.asked.insert(place, PendingConvergence { sequence, waiting });
    }

    /// Handles a changed subscription: the acceptance of the new names is unknown.
    pub(super) fn subscription_changed(&mut self, link: LinkId, kind: usize) {
        for (_, asked) in self.asked.iter_mut().filter(|((.., of), _)| *of == kind) {
            asked.waiting.remove(&link);
        }
    }

    /// Checks a server's notification that all clients have accepted a change.
    pub(super) fn told(
        &mut self,
        place: TypeInView,
        sequence: u64,
        world: &World,
        report: &mut Report,
    ) {
        let (server, view, kind) = place;
        let asked = self.asked.remove(&place).filter(|asked| asked.sequence == sequence);
        let Some((asked, core)) = asked.zip(world.server(server)) else {
            return report.breach(ACCEPTED, || format!("nobody asked of {sequence} of {kind}"));
        };
        let lags = lags(&told(core, world, view, kind, sequence));
        let mut waiting = asked.waiting.iter().filter_map(|link| world.link(*link).core_stream());
        let lagging = waiting.find(|stream| lags.contains_key(stream));
        report.ensure(lagging.is_none(), ACCEPTED, || {
            format!(
                "{lagging:?} has not accepted {sequence} of {kind}, of which all are told to have"
            )
        });
    }

    fn compare(&self, place: TypeInView, core: &Server, world: &World, report: &mut Report) {
        let (server, view, kind) = place;
        let told = told(core, world, view, kind, NEWEST);
        let lags = lags(&told);
        let mut ours = 0;
        for (link, state) in self.of(place, world) {
            let Some(stream) = world.link(link).core_stream() else { continue };
            ours += 1;
            if world.handles_a_request(link) {
                continue;
            }
            let lag = lags.get(&stream).copied();
            let expected = state.expected(link, kind, world);
            let is_so = match (&expected, lag) {
                (Expected::Lagging(_), None) | (Expected::UpToDate, Some(LagReason::Pending)) => {
                    false
                }
                (_, Some(LagReason::Rejected)) => {
                    !state.answers.refused.is_empty() || state.was_rejected
                }
                _ => true,
            };
            report.ensure(is_so, ACCEPTED, || {
                format!("stream {} is told to be {lag:?} with {kind}, and is {expected:?}", link.0)
            });
        }
        let count = told.accepted + told.pending + told.rejected;
        let has_rogue_clients = world.options().lies.iter().next().is_some();
        report.ensure(count == ours || has_rogue_clients, ACCEPTED, || {
            format!("{told:?} of {kind} at server-{server}, and there are {ours}")
        });
    }

    /// Iterates over the talks of a type on all streams of a server that see a view.
    fn of<'a>(
        &'a self,
        (server, view, kind): TypeInView,
        world: &'a World,
    ) -> impl Iterator<Item = (LinkId, &'a TypeState)> {
        self.streams.iter().filter_map(move |(link, types)| {
            let it = world.link(*link);
            let is_here = it.server == server && world.view_of(it.client) == view;
            let state =
                types.get(kind).filter(|state| is_here && state.subscription.was_requested)?;
            Some((*link, state))
        })
    }
}

impl TypeState {
    /// Whether a request changes the subscription, or subscribes to a name again, which makes its
    /// acceptance unknown.
    pub(super) fn subscription_changed(&self, request: &Request) -> bool {
        let is_again =
            matches!(&request.names, Names::Change { subscribe, .. } if !subscribe.is_empty());
        is_again || !self.subscription.gained.is_empty() || !self.subscription.lost.is_empty()
    }

    fn expected(&self, link: LinkId, kind: usize, world: &World) -> Expected {
        let it = world.link(link);
        let is_whole = it.variant == Variant::StateOfTheWorld;
        if self.states_version && is_whole {
            return Expected::Unknown; // It may have everything from before.
        }
        let view = world.view_of(it.client);
        let has = &world.has(it.server, view)[kind];
        let extras = |name: &str| world.extras(it.server, view, kind, name);
        if let Some((name, _)) = self.lacking(has, &extras) {
            return Expected::Lagging(name.clone());
        }
        let is_so = |name: &&Text| {
            let has_error = || extras(name).error.is_some();
            let sent = self.sent.get(*name);
            self.subscription.covers(name)
                && sent.is_some()
                && has.get(*name) == sent
                && !has_error()
        };
        if (!self.is_answered || self.is_rejected)
            && let Some(name) = self.answers.fresh.iter().find(is_so)
        {
            return Expected::Lagging(name.clone());
        }
        let is_told = !is_whole || types::is_full_state_in_sotw(world.types()[kind].as_str());
        let is_left = is_told && self.sent.keys().any(|name| !has.contains_key(name));
        let is_blocked = !it.takes_responses() || world.draining_since(link).is_some();
        let must_answer = self.unanswered_name().is_some() && !is_whole;
        match is_left || is_blocked || must_answer || !self.is_free() || is_gated(world) {
            true => Expected::Unknown,
            false => Expected::UpToDate,
        }
    }
}

fn told(core: &Server, world: &World, view: usize, kind: usize, sequence: u64) -> Convergence {
    core.convergence(world.view_name(view), world.types()[kind].as_str(), sequence)
}

/// Returns the lag of each lagging stream.
fn lags(told: &Convergence) -> BTreeMap<StreamId, LagReason> {
    told.lagging.iter().map(|it| (it.stream, it.reason)).collect()
}
