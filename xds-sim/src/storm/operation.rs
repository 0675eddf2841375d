//! One thing that applications, operators or the network do.

use std::time::Duration;

use xds_core::{WatchId, server::StatusCode, types};

use crate::{
    Kind, Situation, Toy,
    options::{Action, Fault, Order, ProfileName, Responses, Transport, Verdicts},
    storm::lie,
    world::{
        BadAnswer, Beside, FileState, KEEPALIVE, LinkId, Party, Reach, World, alias_of,
        message::Text,
    },
};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Watch,
    Set,
    Do(Kind),
}

/// One thing that is done, a time after the last one. What it is done to is chosen by numbers, which
/// stand for whatever there is when the time comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) after: Duration,
    sort: Sort,
    client: u32,
    kind: u32,
    name: u32,
    nth: u32,
}

/// The pauses between operations, in milliseconds: none, short ones, and such around the times at which
/// something else happens by itself.
const PAUSES: [u32; 13] =
    [0, 0, 1, 5, 40, 300, 1_000, 3_000, 9_900, 14_900, 15_000, 15_100, 31_000];

/// How long faults last, in milliseconds.
const LASTING: [u32; 6] = [100, 1_000, 5, 6_000, 16_000, 40_000];

/// What a narrow network takes: a response of a few hundred bytes is under way for some tenths of a second.
const BYTES_PER_SECOND: u64 = 2_000;

/// How many names are watched at once that mostly do not exist.
const MANY: u32 = 12;

/// The same once in a long while, of the first type.
const THOUSANDS: u32 = 2_000;

const NUMBERS: u32 = 64;

/// How long resources may be used that are set for a while. Those of the first time expire between
/// heartbeats where the network is slow.
const TTLS: [Duration; 4] =
    [SHORTEST_TTL, LASTING_TTL, Duration::from_secs(40), Duration::from_secs(70)];

/// The shortest time that a resource of a storm lasts.
const SHORTEST_TTL: Duration = Duration::from_secs(1);

/// The shortest time within which a heartbeat always arrives when nothing is broken: what is left after the
/// first half of it is enough for an answer and for the way, however slow the network.
const LASTING_TTL: Duration = Duration::from_secs(20);

/// What servers say of resources that are not to be had: two errors of the resource, and one that will pass.
const CODES: [StatusCode; 3] =
    [StatusCode::NotFound, StatusCode::PermissionDenied, StatusCode::Unavailable];

impl Operation {
    /// A list of operations, as many as the tape has.
    pub(super) fn plan(world: &mut World, most: u32, is_wild: bool) -> Vec<Self> {
        let options = world.options().clone();
        let has_meaning = |fault: &Fault| match fault {
            Fault::BadAnswer | Fault::StaleAnswer => options.transport == Transport::Polls,
            Fault::BadFile | Fault::LostEvent | Fault::DoubleEvent | Fault::StaleFile => {
                options.transport == Transport::Files
            }
            // Of a response that does not go out, a gateway knows nothing.
            Fault::BlockResponses | Fault::Clog => options.transport == Transport::Streams,
            // Who reads files has no connection.
            Fault::CutOff | Fault::Partition | Fault::Expire => {
                options.transport != Transport::Files
            }
            _ => true,
        };
        let mut sorts = vec![Sort::Watch, Sort::Set, Sort::Watch, Sort::Set];
        if is_wild {
            let actions = options.actions.iter().map(Kind::Act);
            let faults = options.faults.iter().filter(has_meaning).map(Kind::Break);
            let lies = options.lies.iter().map(Kind::Lie);
            sorts.extend(actions.chain(faults).chain(lies).map(Sort::Do));
        }
        let choices = world.choices();
        let mut plan = Vec::new();
        for _ in 0..most {
            choices.begin_span();
            // A plan ends where the tape does; one from a seed is as long as it may be, mostly.
            let goes_on = choices.below("another", 64) > 0;
            if !goes_on {
                choices.end_span();
                break;
            }
            let pause = choices.pick("pause", &PAUSES);
            plan.push(Self {
                after: Duration::from_millis(pause.into()),
                sort: choices.pick("operation", &sorts),
                client: choices.below("client", options.clients),
                kind: choices.below("type", options.types),
                name: choices.below("name", options.names),
                nth: choices.below("which", NUMBERS),
            });
            choices.end_span();
        }
        plan
    }

    pub(super) fn carry_out(self, world: &mut World) {
        let (client, kind) = (self.client as usize, self.kind as usize);
        let name = world.name(kind, self.name);
        match self.sort {
            Sort::Watch => {
                let _ = world.watch(client, kind, Some(&name));
            }
            Sort::Set => world.set_anew(kind, &name, "good"),
            Sort::Do(kind) => self.bring_about(kind, &name, world),
        }
    }

    /// What changes nothing at once may still take effect later.
    fn bring_about(self, kind: Kind, name: &str, world: &mut World) {
        let before = world.changes();
        match kind {
            Kind::Act(action) => self.act(action, name, world),
            Kind::Break(fault) => self.break_something(fault, world),
            Kind::Lie(lie) => lie::tell(lie, world, [self.kind, self.name, self.nth]),
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
                world.set_anew(kind, name, if is_contested { "contested" } else { "bad" });
            }
            Action::SetPrivileged => world.set_anew(kind, name, "privileged"),
            Action::SetForAWhile => {
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
                    world.set_anew(kind, &name, "good");
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
                // In short responses it would take long to say that there is nothing of thousands of names.
                let is_rare = (self.nth, self.kind, self.client) == (NUMBERS - 1, 0, 0)
                    && world.options().responses == Responses::Long;
                if is_rare {
                    world.note(Situation::NamesByTheThousand);
                }
                let many = if is_rare { THOUSANDS } else { MANY };
                let first = world.options().names;
                let names = (first..first + many).map(|number| world.name(kind, number));
                let names: Vec<String> = names.collect();
                world.watch_several(client, kind, &names);
            }
            Action::WatchWhenTold => {
                let Some(watch) = self.any_watch(world) else { return };
                match self.nth % 3 {
                    0 => world.unwatch_when_told(client, watch),
                    1 => world.watch_when_told(client, watch, kind, None),
                    _ => world.watch_when_told(client, watch, kind, Some(name)),
                }
            }
        }
    }

    fn break_something(self, fault: Fault, world: &mut World) {
        let lasting = self.lasting();
        let server = self.any_server(world);
        match fault {
            Fault::Starve => {
                world.starve(self.any_party(world), lasting.min(Duration::from_secs(2)))
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
            Fault::Narrow => world.narrow_network(BYTES_PER_SECOND, lasting),
            Fault::Clog => world.clog(self.nth as usize, lasting),
            Fault::OtherReplica => world.change_replica(server, self.nth as usize, lasting),
            Fault::CutOff => {
                let reach = [Reach::Refused, Reach::Hanging][self.nth as usize % 2];
                world.cut_off(self.client as usize, reach, lasting);
            }
            Fault::Partition => {
                let reach = [Reach::Refused, Reach::Hanging][(self.nth / 8) as usize % 2];
                // What is open is given up meanwhile, and there is time to turn.
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
                /// What HTTP's 404, 429 and 503 stand for, and what is no error.
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
            // A file has no connection that could break.
            _ if transport == Transport::Files => return,
            _ => {}
        }
        /// How many statuses of gRPC are errors.
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

/// What clients find invalid is replaced, and so is what cannot last and what has an error that will pass.
/// What came beside something that was rejected is not renewed before it changes, so all that has a time to live is
/// set anew. Errors of the resource itself stay. A client that refuses responses whole may also lack good
/// resources that once came beside a bad one: they come again when something changes (M107), and where the
/// bad one was deleted from a type whose deletions nobody is told of, only when they change themselves. And what
/// has come again in vain may hold up others until it changes (M148). So may what is gone of the types of which a full
/// state is sent, where it was rejected and a step waits for ever: it lasts until it is set to what is accepted, as
/// `AckGated` says. Where nothing was ever to be refused, what is good stays as it is: what was lost on the way has to
/// come without being said anew (IL1).
pub(super) fn make_good(world: &mut World) {
    let options = world.options().clone();
    let can_be_refused = options.can_be_invalid() || !options.lies.spare_clients();
    let holds = options.order == Order::OnlyAfterAcks;
    let is_whole = can_be_refused && (holds || options.profile == ProfileName::Envoy);
    for kind in 0..world.types().len() {
        let is_due = |(name, bytes): &(&Text, &bytes::Bytes)| {
            let Beside { ttl, error } = world.truth_beside(kind, name);
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
            match world.truth_beside(kind, &name).ttl.filter(|ttl| *ttl >= LASTING_TTL) {
                Some(ttl) => world.set_for(kind, &name, "good", ttl),
                None => world.set_anew(kind, &name, "good"),
            }
        }
    }
}
