//! Progress of each type on a stream: what a server waits for, and the status that it exposes.

use std::time::Duration;

use bytes::Bytes;
use xds_core::{
    Version,
    server::{MakeBeforeBreakPolicy, SyncState},
    service::Variant,
    types,
};

use super::{
    ServerResponses,
    rules::{
        AFTER_ACKS, ALL_ACCEPTED, ALL_GONE, ANSWERED, AT_ONCE, ERRORS, EXACT, NOT_FOR_EVER,
        REMEMBERED, SO_FAR, WARM,
    },
    state::TypeState,
};
use crate::{
    options::{Lies, Order},
    oracle::Report,
    world::{
        LinkId, ResourceExtras, World,
        message::{Response, Text},
    },
};

/// First type that waits for the ACKs of other types.
const LISTENERS: usize = 2;

/// Time for which a resource waits for ACKs if the server continues after a timeout, and for which
/// a subscribed name waits in any case.
fn timeout() -> Duration {
    MakeBeforeBreakPolicy::default().stage_timeout
}

/// Whether types wait for each other's ACKs.
pub(super) fn is_gated(world: &World) -> bool {
    matches!(world.options().order, Order::AfterAcks | Order::OnlyAfterAcks)
}

/// Checks a world at rest: a server with a timeout withholds nothing.
fn goes_on(world: &World, report: &mut Report) {
    // Rogue clients may never fall silent.
    if world.options().order != Order::AfterAcks || world.options().lies != Lies::NONE {
        return;
    }
    for at in 0..world.server_count() {
        let holding = world.server(at).map_or(0, |server| server.stats().blocked_streams);
        report.ensure(holding == 0, NOT_FOR_EVER, || {
            format!("server-{at} holds something back on {holding} streams")
        });
    }
}

impl ServerResponses {
    /// Checks that a referencing resource is sent only after its references were accepted: either
    /// all current ones, or a response made after the change.
    // M146, M149
    pub(super) fn waits_for_acks(
        &self,
        link: LinkId,
        kind: usize,
        response: &Response,
        world: &World,
        report: &mut Report,
    ) {
        let it = world.link(link);
        let began = self.began.get(&link);
        let is_late = began.is_some_and(|began| world.now().since(*began) >= timeout());
        let is_stuck = world.options().order == Order::AfterAcks && (is_late || began.is_none());
        // Clusters and endpoints wait for nothing. Moved clients are not checked.
        if kind < LISTENERS || it.only.is_some() || world.options().views > 1 || is_stuck {
            return;
        }
        let Some(types) = self.streams.get(&link) else { return };
        let has = world.has(it.server, 0);
        let changed_at = |kind: usize, name: &Text| {
            let changed = self.changed.get(&(it.server, kind, name.clone()));
            changed.map(|(at, _)| *at).unwrap_or_default()
        };
        let state = types.get(kind);
        let sent = |name: &Text| state.and_then(|state| state.sent.get(name));
        let items =
            response.resources.iter().filter_map(|item| Some((&item.name, item.bytes.as_ref()?)));
        // Subscribed names are sent after a while regardless of references; a full state or
        // wildcard then includes all others.
        let is_asked_for = |name: &Text| {
            let must_answer =
                |state: &TypeState| state.must_answer(name) || state.named_late.contains(name);
            is_late && (sent(name).is_none() || state.is_some_and(must_answer))
        };
        let is_full = kind == LISTENERS && it.variant == Variant::StateOfTheWorld;
        let is_whole = is_full || state.is_some_and(|state| state.subscription.has_all());
        // Such a name may follow in a later part of a response that is limited in size. An error is an
        // answer too.
        let awaits_name = |state: &TypeState| {
            let mut names = has[kind].keys().chain(response.errors.iter().map(|(name, _)| name));
            is_late && state.awaits_answer_to_name()
                || names.any(|name| state.subscription.names(name) && is_asked_for(name))
        };
        if is_whole
            && (items.clone().any(|(name, _)| is_asked_for(name)) || state.is_some_and(awaits_name))
            || is_late && state.is_some_and(TypeState::awaits_everything)
        {
            return;
        }
        let is_new = |name: &Text, bytes: &Bytes| sent(name) != Some(bytes) && !is_asked_for(name);
        let since = items.filter(|(name, bytes)| is_new(name, bytes));
        let Some(since) = since.map(|(name, _)| changed_at(kind, name)).max() else { return };
        for (before, state) in types.iter().enumerate().take(kind) {
            if !state.subscription.was_requested || state.states_version || state.made.1 >= since {
                continue;
            }
            let is_lacking = |(name, bytes): &(&Text, &Bytes)| {
                let is_plain =
                    world.extras(it.server, 0, before, name) == ResourceExtras::default();
                state.subscription.covers(name)
                    && is_plain
                    && state.accepted.get(*name) != Some(bytes)
            };
            let lacking = has[before].iter().find(is_lacking).map(|(name, _)| name);
            report.ensure(lacking.is_none(), AFTER_ACKS, || {
                format!("{lacking:?} of {before} was not accepted before {kind}")
            });
        }
    }

    /// Checks a drained server: everything that can be sent was sent, on each stream independently.
    /// If types wait for each other, this applies to types that wait for nothing. Rejected
    /// resources wait for a change.
    pub(super) fn drained(&mut self, server: usize, world: &World, report: &mut Report) {
        if world.server(server).is_none() {
            return; // A user-defined control plane may take its time.
        }
        let last = if is_gated(world) { LISTENERS } else { usize::MAX };
        let is_alone = self.has_one_stream(server, world);
        for (link, types) in &mut self.streams {
            let it = world.link(*link);
            if it.server != server
                || !it.takes_responses()
                || world.handles_a_request(*link)
                || world.draining_since(*link).is_some()
            {
                continue;
            }
            let view = world.view_of(it.client);
            for (kind, state) in types.iter_mut().enumerate().take(last) {
                let is_due =
                    std::mem::take(&mut state.is_unsettled) && state.subscription.was_requested;
                let is_whole = it.variant == Variant::StateOfTheWorld;
                let may_have_all = state.states_version && is_whole;
                if !is_due || !state.is_free() || state.is_rejected {
                    continue;
                }
                let has = &world.has(server, view)[kind];
                let extras = |name: &str| world.extras(server, view, kind, name);
                let unwarmed = state.unwarmed(has, &extras);
                report.ensure(unwarmed.is_none(), WARM, || {
                    format!("stream {}: {unwarmed:?} is asked for and not sent again", link.0)
                });
                if may_have_all {
                    continue;
                }
                let unreported = state.missing_error(has, &extras, it.variant);
                report.ensure(unreported.is_none(), ERRORS, || {
                    format!(
                        "stream {} takes responses, and the error of {unreported:?} is not told",
                        link.0
                    )
                });
                let missing = state.lacking(has, &extras).map(|(name, _)| name);
                // A removal may have to wait, for a client that has the resource and subscribed
                // before the deletion.
                let may_wait = |name: &Text| {
                    is_gated(world) && !has.contains_key(name) && state.sent.contains_key(name)
                };
                let unanswered_name =
                    state.unanswered_name().filter(|name| !is_whole && !may_wait(name));
                let rule = match (unanswered_name, missing) {
                    (Some(name), _) if is_alone => {
                        state.rule_of_silence(name, has.contains_key(name))
                    }
                    (None, Some(name)) if is_alone => state.rule_of_missing(name),
                    _ => AT_ONCE,
                };
                let lacking = unanswered_name.or(missing);
                report.ensure(lacking.is_none(), rule, || {
                    format!("stream {} takes responses, and {lacking:?} is not sent", link.0)
                });
            }
        }
    }

    /// Whether a server has only one stream. If it withholds something there, other streams are not
    /// the reason, and a different rule is broken.
    fn has_one_stream(&self, server: usize, world: &World) -> bool {
        let of_server = self.streams.keys().filter(|link| world.link(**link).server == server);
        of_server.count() == 1 && world.options().lies == Lies::NONE
    }

    /// Whether a client of the type may be about to acknowledge a heartbeat.
    fn is_beating(&self, type_url: &str, world: &World) -> bool {
        let Some(kind) = world.types().iter().position(|it| it == type_url) else { return false };
        let mut types = self.streams.values().filter_map(|types| types.get(kind));
        types.any(|state| !state.beating.is_empty() && !state.is_answered)
    }

    pub(super) fn at_rest(&self, world: &World, report: &mut Report) {
        goes_on(world, report);
        for (link, types) in &self.streams {
            let it = world.link(*link);
            let view = world.view_of(it.client);
            if !it.is_open {
                continue;
            }
            let is_whole = it.variant == Variant::StateOfTheWorld;
            let may_wait = world.options().order == Order::OnlyAfterAcks
                && types.iter().any(|state| state.was_rejected);
            for (kind, state) in
                types.iter().enumerate().filter(|(_, it)| it.subscription.was_requested)
            {
                let unanswered = state.unanswered_name().filter(|_| !is_whole);
                let exists = |name: &Text| world.has(it.server, view)[kind].contains_key(name);
                let rule = match unanswered {
                    Some(name) => state.rule_of_silence(name, exists(name)),
                    None => ANSWERED,
                };
                report.ensure(unanswered.is_none(), rule, || {
                    format!("stream {}: nothing was said of {unanswered:?}", link.0)
                });
                if state.states_version && is_whole {
                    continue;
                }
                let extras = |name: &str| world.extras(it.server, view, kind, name);
                let missing = state.lacking(&world.has(it.server, view)[kind], &extras);
                let rule = missing.map_or(REMEMBERED, |(name, _)| state.rule_of_missing(name));
                report.ensure(missing.is_none(), rule, || {
                    format!("stream {}: {missing:?} was not sent", link.0)
                });
                let is_told =
                    !is_whole || types::is_full_state_in_sotw(world.types()[kind].as_str());
                let mut left = state.sent.keys().filter(|name| is_told && !exists(name));
                // A client that has rejected a response receives removals only with a change. If types
                // wait without a timeout, a rejection also holds back removals of other types.
                let waits = state.is_rejected || may_wait;
                let left = left.next().filter(|_| !waits);
                let is_stated = left.is_some_and(|name| state.stated.contains(name));
                let rule = if is_stated { EXACT } else { ALL_GONE };
                report.ensure(left.is_none(), rule, || {
                    format!("stream {}: {left:?} is gone", link.0)
                });
            }
        }
        self.status(world, report);
        self.all_accepted(world, report);
        self.all_told(world, report);
        for server in (0..world.server_count()).filter_map(|server| world.server(server)) {
            let open = server.status().find(|it| {
                it.state == SyncState::Sent && !self.is_beating(it.type_url.as_str(), world)
            });
            report.ensure(open.is_none(), ALL_ACCEPTED, || format!("{open:?}"));
        }
    }

    /// Checks that the status exposed by servers agrees with the messages on their streams.
    pub(super) fn status(&self, world: &World, report: &mut Report) {
        for (link, types) in &self.streams {
            let it = world.link(*link);
            let Some((server, stream)) = world.server(it.server).zip(it.core_stream()) else {
                continue;
            };
            for shown in server.status().filter(|shown| shown.stream == stream) {
                let kind = world.types().iter().position(|known| known == shown.type_url);
                let Some(state) = kind.and_then(|kind| types.get(kind)) else { continue };
                // A server may use the versions that a client states before it sends anything.
                let Some(expected) = state.state() else { continue };
                let version = |version: &Option<Version>| {
                    version.as_ref().map(|it| Text::from(it.as_str())).unwrap_or_default()
                };
                let is_so = state.may_show(shown.state)
                    && version(&shown.sent_version) == state.versions.0
                    && (state.versions.1.is_empty()
                        || version(&shown.acked_version) == state.versions.1);
                report.ensure(is_so, SO_FAR, || {
                    format!("{shown:?} where it is {expected:?} with {:?}", state.versions)
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        options::Options,
        oracle::testing::{judgement, judgement_with},
        world::message::{Names, Request, ResponseItem},
    };

    fn request(names: &[&str]) -> Request {
        Request {
            kind: Some(0),
            nonce: Text::default(),
            version: Text::default(),
            error: None,
            node: None,
            names: Names::Whole(names.iter().map(|name| Text::from(*name)).collect()),
        }
    }

    /// Returns the oracle for a client that has all clusters.
    fn told(world: &World, link: LinkId) -> ServerResponses {
        let mut oracle = ServerResponses::default();
        let state = oracle.state(link, 0);
        state.requested(&request(&["r0", "r9"]), Vec::new());
        state.unanswered.clear();
        state.sent.clone_from(&world.has(0, 0)[0]);
        oracle
    }

    #[test]
    fn client_left_with_a_deleted_resource_is_detected() {
        let found = judgement(|world, link, report| {
            let mut oracle = told(world, link);
            oracle.at_rest(world, report);
            assert!(report.breach.is_none(), "{:?}", report.breach);
            oracle.state(link, 0).sent.insert("r9".into(), Bytes::new());
            oracle.at_rest(world, report);
        });
        assert_eq!(found, Some("IS10"));
        println!("covers: IS10");
    }

    #[test]
    fn resource_withheld_forever_is_detected() {
        let held = |order| {
            let options = Options { order, ..Options::default() };
            judgement_with(options, |world, _, report| {
                world.watch(0, LISTENERS, Some("r0"));
                world.advance(Duration::from_secs(1));
                goes_on(world, report);
                assert!(report.breach.is_none(), "{:?}", report.breach);
                // No client has had time to accept it.
                world.set(0, "r0", "better");
                world.set(LISTENERS, "r0", "good");
                world.advance(Duration::from_millis(1));
                goes_on(world, report);
            })
        };
        assert_eq!(held(Order::AfterAcks), Some("IS17"));
        assert_eq!(held(Order::ByRank), None, "nothing is held back");
        assert_eq!(held(Order::OnlyAfterAcks), None, "it may be held back for ever");
        println!("covers: IS17");
    }

    #[test]
    fn status_that_shows_a_nack_as_an_ack_is_detected() {
        let found = judgement(|world, link, report| {
            let mut oracle = told(world, link);
            let shown = world.server(0).and_then(|server| {
                let shown = server.status().next()?;
                Some(Text::from(shown.sent_version?.as_str()))
            });
            let state = oracle.state(link, 0);
            state.versions = (shown.clone().unwrap_or_default(), shown.unwrap_or_default());
            (state.has_responded, state.is_answered) = (true, true);
            oracle.status(world, report);
            assert!(report.breach.is_none(), "{:?}", report.breach);
            oracle.state(link, 0).is_rejected = true;
            oracle.status(world, report);
        });
        assert_eq!(found, Some("IS30"));
        println!("covers: IS30");
    }

    #[test]
    fn status_may_show_nacked_only_after_an_acked_heartbeat() {
        let mut state = TypeState::default();
        (state.has_responded, state.is_answered, state.was_rejected) = (true, true, true);
        assert!(!state.may_show(SyncState::Nacked), "the newest response said it anew");
        state.beating = vec!["r0".into()];
        assert!(state.may_show(SyncState::Nacked) && state.may_show(SyncState::Acked));
        assert!(!state.may_show(SyncState::Sent), "it was answered");
        state.was_rejected = false;
        assert!(!state.may_show(SyncState::Nacked), "nothing was ever rejected");
        println!("covers: IS30");
    }

    #[test]
    fn status_with_another_version_is_detected() {
        let found = judgement(|world, link, report| {
            let mut oracle = told(world, link);
            let state = oracle.state(link, 0);
            state.versions = ("another".into(), Text::default());
            (state.has_responded, state.is_answered) = (true, true);
            oracle.status(world, report);
        });
        assert_eq!(found, Some("IS30"));
    }

    #[test]
    fn listener_sent_before_its_cluster_is_acked_is_detected() {
        let options = Options { order: Order::OnlyAfterAcks, ..Options::default() };
        let found = judgement_with(options, |world, link, report| {
            let mut oracle = told(world, link);
            let listener = Bytes::from_static(b"listener");
            let changes = |oracle: &mut ServerResponses, clock| {
                oracle.clock = clock;
                oracle.note_change((0, LISTENERS, "r0".into()), Some(&listener));
            };
            changes(&mut oracle, 2);
            // Only its error or TTL changed.
            changes(&mut oracle, 3);
            let item = ResponseItem {
                name: "r0".into(),
                version: Text::default(),
                bytes: Some(Bytes::from_static(b"listener")),
                ttl: None,
            };
            let response = Response {
                kind: Some(LISTENERS),
                nonce: "n".into(),
                version: "v".into(),
                resources: vec![item],
                removed: Vec::new(),
                errors: Vec::new(),
            };
            let state = oracle.state(link, 0);
            state.made.1 = 2;
            oracle.waits_for_acks(link, LISTENERS, &response, world, report);
            assert!(report.breach.is_none(), "its cluster was accepted: {:?}", report.breach);
            oracle.state(link, 0).made.1 = 1;
            oracle.waits_for_acks(link, LISTENERS, &response, world, report);
        });
        assert_eq!(found, Some("IS17"));
        println!("covers: IS17");
    }
}
