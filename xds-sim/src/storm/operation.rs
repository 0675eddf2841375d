//! One operation of applications, operators or the network.

use std::time::Duration;

use xds_core::{WatchId, server::StatusCode, types};

use crate::{
    Effect, Situation, Toy,
    options::{Action, Fault, Order, ProfileName, Responses, Transport, Verdicts},
    storm::lie,
    world::{
        BadAnswer, FileState, KEEPALIVE, LinkId, Party, Reach, ResourceExtras, World, alias_of,
        message::Text,
    },
};

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OperationKind {
    Watch,
    Set,
    Do(Effect),
}

/// An operation, with the pause before it. Its targets are chosen by numbers, which are mapped to
/// the candidates that exist when it is performed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) after: Duration,
    operation: OperationKind,
    client: u32,
    kind: u32,
    name: u32,
    nth: u32,
}

/// Pauses between operations in milliseconds: none, short ones, and values around the project's
/// timers.
const PAUSES: [u32; 13] =
    [0, 0, 1, 5, 40, 300, 1_000, 3_000, 9_900, 14_900, 15_000, 15_100, 31_000];

/// Durations of faults in milliseconds.
const LASTING: [u32; 6] = [100, 1_000, 5, 6_000, 16_000, 40_000];

/// Limited bandwidth: a response of a few hundred bytes takes some tenths of a second.
const BYTES_PER_SECOND: u64 = 2_000;

/// Number of names watched at once, most of which do not exist.
const MANY: u32 = 12;

/// Number of names watched at once in rare cases, of the first type only.
const THOUSANDS: u32 = 2_000;

const NUMBERS: u32 = 64;

/// TTLs. Resources with the first one expire between heartbeats if the network is slow.
const TTLS: [Duration; 4] =
    [SHORTEST_TTL, LASTING_TTL, Duration::from_secs(40), Duration::from_secs(70)];

/// Shortest TTL.
const SHORTEST_TTL: Duration = Duration::from_secs(1);

/// Shortest TTL that is always renewed in time if there are no faults: half of it is enough for an
/// answer and for the way, however slow the network is.
const LASTING_TTL: Duration = Duration::from_secs(20);

/// Errors that servers report for resources: two permanent ones and a transient one.
const CODES: [StatusCode; 3] =
    [StatusCode::NotFound, StatusCode::PermissionDenied, StatusCode::Unavailable];

impl Operation {
    /// Draws a list of operations from the tape.
    pub(super) fn plan(world: &mut World, most: u32, is_wild: bool) -> Vec<Self> {
        let options = world.options().clone();
        let has_meaning = |fault: &Fault| match fault {
            Fault::BadAnswer | Fault::StaleAnswer => options.transport == Transport::Polls,
            Fault::BadFile | Fault::LostEvent | Fault::DoubleEvent | Fault::StaleFile => {
                options.transport == Transport::Files
            }
            // A gateway cannot tell that a response is blocked.
            Fault::BlockResponses | Fault::BlockAll => options.transport == Transport::Streams,
            // A file reader has no connection.
            Fault::CutOff | Fault::Partition | Fault::Expire => {
                options.transport != Transport::Files
            }
            _ => true,
        };
        let mut kinds = vec![
            OperationKind::Watch,
            OperationKind::Set,
            OperationKind::Watch,
            OperationKind::Set,
        ];
        if is_wild {
            let actions = options.actions.iter().map(Effect::Action);
            let faults = options.faults.iter().filter(has_meaning).map(Effect::Fault);
            let lies = options.lies.iter().map(Effect::Lie);
            kinds.extend(actions.chain(faults).chain(lies).map(OperationKind::Do));
        }
        let choices = world.choices();
        let mut plan = Vec::new();
        for _ in 0..most {
            choices.begin_span();
            // The plan ends with the tape; a plan from a seed mostly has the maximum length.
            let goes_on = choices.below("another", 64) > 0;
            if !goes_on {
                choices.end_span();
                break;
            }
            let pause = choices.pick("pause", &PAUSES);
            plan.push(Self {
                after: Duration::from_millis(pause.into()),
                operation: choices.pick("operation", &kinds),
                client: choices.below("client", options.clients),
                kind: choices.below("type", options.types),
                name: choices.below("name", options.names),
                nth: choices.below("which", NUMBERS),
            });
            choices.end_span();
        }
        plan
    }

    pub(super) fn execute(self, world: &mut World) {
        let (client, kind) = (self.client as usize, self.kind as usize);
        let name = world.name(kind, self.name);
        match self.operation {
            OperationKind::Watch => {
                let _ = world.watch(client, kind, Some(&name));
            }
            OperationKind::Set => world.set_new_text(kind, &name, "good"),
            OperationKind::Do(kind) => self.execute_effect(kind, &name, world),
        }
    }

    /// Performs the operation and notes whether it took effect at once. It may still take effect
    /// later.
    fn execute_effect(self, kind: Effect, name: &str, world: &mut World) {
        let before = world.changes();
        match kind {
            Effect::Action(action) => self.act(action, name, world),
            Effect::Fault(fault) => self.inject(fault, world),
            Effect::Lie(lie) => lie::send(lie, world, [self.kind, self.name, self.nth]),
        }
        if world.changes() > before {
            world.takes_effect(kind);
        }
    }

    fn lasting(self) -> Duration {
        let at = self.name as usize % LASTING.len();
        Duration::from_millis(LASTING[at].into())
    }

    fn any_watch(self, world: &World) -> Option<WatchId> {
        let watches: Vec<_> = world.watches(self.client as usize).map(|(watch, _)| watch).collect();
        watches.get(self.nth as usize % watches.len().max(1)).copied()
    }

    fn any_link(self, world: &World) -> Option<LinkId> {
        let links = world.open_links();
        links.get(self.nth as usize % links.len().max(1)).copied()
    }

    fn any_server(self, world: &World) -> usize {
        self.nth as usize % world.server_count()
    }

    fn any_party(self, world: &World) -> Party {
        let at = self.nth as usize % (world.client_count() + world.server_count());
        match at.checked_sub(world.client_count()) {
            None => Party::Client(at),
            Some(server) => Party::Server(server),
        }
    }

    fn act(self, action: Action, name: &str, world: &mut World) {
        let (client, kind) = (self.client as usize, self.kind as usize);
        match action {
            Action::WatchAll => {
                let _ = world.watch(client, kind, None);
            }
            Action::Unwatch => {
                if let Some(watch) = self.any_watch(world) {
                    world.unwatch(client, watch);
                }
            }
            Action::WatchAgain => {
                if let Some(watch) = self.any_watch(world) {
                    world.watch_again(client, watch);
                }
            }
            Action::Delete => world.delete(kind, name),
            Action::SetBad => {
                let is_contested =
                    world.options().verdicts != Verdicts::AtOnce && self.nth % 2 == 1;
                world.set_new_text(kind, name, if is_contested { "contested" } else { "bad" });
            }
            Action::SetPrivileged => world.set_new_text(kind, name, "privileged"),
            Action::SetWithTtl => {
                let ttl = TTLS[self.nth as usize % TTLS.len()];
                let text = if self.nth / 8 % 4 == 3 { "bad" } else { "good" };
                world.set_for(kind, name, text, ttl);
            }
            Action::SetError => {
                world.set_error(kind, name, CODES[self.nth as usize % CODES.len()]);
            }
            Action::SetBack => world.set(kind, name, "as before"),
            Action::Storm => {
                for turn in 0..20 {
                    let name = world.name(kind, turn % world.options().names);
                    world.set_new_text(kind, &name, "good");
                }
            }
            Action::Empty => {
                let names: Vec<Text> = world.truth()[kind].keys().cloned().collect();
                names.iter().for_each(|name| world.delete(kind, name));
            }
            Action::SlowWatcher => {
                if let Some(watch) = self.any_watch(world) {
                    world.slow_down(client, watch, self.lasting());
                }
            }
            Action::Move => {
                let views = world.options().views.max(1) as usize;
                world.move_client(client, (world.view_of(client) + 1) % views);
            }
            Action::WatchGlob => {
                if let Some(glob) = world.glob(kind) {
                    let _ = world.watch(client, kind, Some(&glob));
                }
            }
            Action::WatchAlias => {
                let _ = world.watch(client, kind, Some(&alias_of(name)));
            }
            Action::WatchMany => {
                // With short responses, reporting thousands of missing names takes too long.
                let is_rare = (self.nth, self.kind, self.client) == (NUMBERS - 1, 0, 0)
                    && world.options().responses == Responses::Long;
                if is_rare {
                    world.note(Situation::ThousandsWatched);
                }
                let many = if is_rare { THOUSANDS } else { MANY };
                let first = world.options().names;
                let names = (first..first + many).map(|number| world.name(kind, number));
                let names: Vec<String> = names.collect();
                world.watch_several(client, kind, &names);
            }
            Action::WatchInNotice => {
                let Some(watch) = self.any_watch(world) else { return };
                match self.nth % 3 {
                    0 => world.unwatch_on_notice(client, watch),
                    1 => world.watch_on_notice(client, watch, kind, None),
                    _ => world.watch_on_notice(client, watch, kind, Some(name)),
                }
            }
        }
    }

    fn inject(self, fault: Fault, world: &mut World) {
        let lasting = self.lasting();
        let server = self.any_server(world);
        match fault {
            Fault::Suspend => {
                world.suspend(self.any_party(world), lasting.min(Duration::from_secs(2)))
            }
            Fault::WakeForNothing => world.wake_client(self.client as usize),
            Fault::Refuse => world.set_reach(server, Reach::Refused, lasting),
            Fault::Hang => world.set_reach(server, Reach::Hanging, lasting),
            Fault::HangUp => world.set_reach(server, Reach::HangingUp, lasting),
            Fault::Expire => world.expire_credentials(server, lasting),
            Fault::RestartServer => world.restart_server(server),
            Fault::RestartClient => world.restart_client(self.client as usize),
            Fault::Lag => world.let_lag(server, lasting),
            Fault::Slow => world.slow_network(lasting.min(Duration::from_secs(5)), lasting * 2),
            Fault::GoAway => world.go_away(server, lasting.min(Duration::from_secs(16))),
            Fault::BadFile => {
                const STATES: [FileState; 3] =
                    [FileState::Gone, FileState::Cut, FileState::Forbidden];
                let state = STATES[self.kind as usize % STATES.len()];
                world.spoil_files(server, state, lasting);
            }
            Fault::LostEvent => world.lose_event(server),
            Fault::DoubleEvent => world.double_event(server),
            Fault::StaleFile => world.hold_files(server, lasting),
            Fault::LateTimers => {
                world.delay_timers(lasting.min(Duration::from_secs(3)), lasting * 2);
            }
            Fault::ClockJump => world.jump(lasting),
            Fault::LimitBandwidth => world.limit_bandwidth(BYTES_PER_SECOND, lasting),
            Fault::BlockAll => world.block_all(self.nth as usize, lasting),
            Fault::OtherReplica => world.change_replica(server, self.nth as usize, lasting),
            Fault::CutOff => {
                let reach = [Reach::Refused, Reach::Hanging][self.nth as usize % 2];
                world.cut_off(self.client as usize, reach, lasting);
            }
            Fault::Partition => {
                let reach = [Reach::Refused, Reach::Hanging][(self.nth / 8) as usize % 2];
                // Long enough for open streams to be detected as half-open and for the client to
                // fall back.
                let lasting = lasting + KEEPALIVE;
                world.cut_off_from(self.client as usize, server, reach, lasting);
            }
            Fault::Reset
            | Fault::ResetConnection
            | Fault::End
            | Fault::HalfOpen
            | Fault::SlowLink
            | Fault::BadAnswer
            | Fault::StaleAnswer
            | Fault::BlockRequests
            | Fault::BlockResponses => {
                if let Some(link) = self.any_link(world) {
                    self.break_link(fault, link, world);
                }
            }
        }
    }

    fn break_link(self, fault: Fault, link: LinkId, world: &mut World) {
        let transport = world.options().transport;
        match fault {
            Fault::BadAnswer | Fault::StaleAnswer if transport != Transport::Polls => return,
            Fault::BadAnswer => {
                /// Answers that stand for HTTP 404, 429 and 503, and other invalid answers.
                const BAD: [BadAnswer; 7] = [
                    BadAnswer::Status(12),
                    BadAnswer::Status(8),
                    BadAnswer::Status(14),
                    BadAnswer::Unusable,
                    BadAnswer::Unchanged,
                    BadAnswer::Redirect,
                    BadAnswer::ForeignBody,
                ];
                let at = (self.name + self.nth) as usize;
                return world.answer_badly(link, BAD[at % BAD.len()]);
            }
            Fault::StaleAnswer => return world.answer_badly(link, BadAnswer::Stale),
            // A file has no connection to break.
            _ if transport == Transport::Files => return,
            _ => {}
        }
        /// Number of gRPC status codes that are errors.
        const CODES: u32 = 16;
        let code = i32::try_from(1 + self.nth % CODES).unwrap_or_default();
        match fault {
            Fault::Reset => world.reset(link, code),
            Fault::ResetConnection => {
                let (client, server) = (world.link(link).client, world.link(link).server);
                world.reset_connection(client, server, code);
            }
            Fault::End => world.end_stream(link),
            Fault::HalfOpen => {
                let (to_client, to_server) =
                    [(true, true), (true, false), (false, true)][self.name as usize % 3];
                world.half_open(link, to_client, to_server);
            }
            Fault::SlowLink => {
                let by = self.lasting().min(Duration::from_secs(5));
                world.slow_link(link, by, self.lasting() * 2);
            }
            Fault::BlockRequests => world.block_requests(link, self.lasting()),
            _ => world.block_responses(link, self.lasting()),
        }
    }
}

/// Replaces everything that may legitimately keep clients from agreeing with the servers.
///
/// - Invalid resources, resources with a TTL and resources with a transient error are set again.
///   Permanent errors of a resource stay. A resource with a TTL that was rejected together with
///   others is not renewed until it changes, so every one is set.
/// - If clients reject whole responses, all resources are set: a valid resource that was rejected
///   together with an invalid one is re-sent only when something changes, or only when it changes
///   itself if the invalid one was deleted from a type without removals.
/// - If the order of types waits for ACKs without a timeout, all resources are set: a resource that
///   was re-sent and rejected again may block others, and so may a deleted resource of a full-state
///   type whose removal was rejected. It stays until it is set to a value that is accepted, as
///   `MakeBeforeBreakPolicy` documents.
/// - If resources could never be rejected, valid ones stay as they are: lost updates must arrive
///   without a new change.
// M107, M148, IL1
pub(super) fn replace_invalid(world: &mut World) {
    let options = world.options().clone();
    let can_be_refused = options.can_be_invalid() || !options.lies.spare_clients();
    let holds = options.order == Order::OnlyAfterAcks;
    let is_whole = can_be_refused && (holds || options.profile == ProfileName::Envoy);
    for kind in 0..world.types().len() {
        let is_due = |(name, bytes): &(&Text, &bytes::Bytes)| {
            let ResourceExtras { ttl, error } = world.truth_extras(kind, name);
            let will_pass = error == Some(StatusCode::Unavailable);
            is_whole || ttl.is_some() || will_pass || Toy::is_refused(bytes, world.options())
        };
        let due = world.truth()[kind].iter().filter(is_due);
        let mut due: Vec<Text> = due.map(|(name, _)| name.clone()).collect();
        if holds && is_whole && types::is_full_state_in_sotw(world.types()[kind].as_str()) {
            let names = (0..options.names).map(|number| Text::from(world.name(kind, number)));
            due.extend(names.filter(|name| !world.truth()[kind].contains_key(name)));
        }
        for name in due {
            match world.truth_extras(kind, &name).ttl.filter(|ttl| *ttl >= LASTING_TTL) {
                Some(ttl) => world.set_for(kind, &name, "good", ttl),
                None => world.set_new_text(kind, &name, "good"),
            }
        }
    }
}
