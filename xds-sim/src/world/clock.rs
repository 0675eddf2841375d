//! Virtual time: selection of the next event and delivery of timeouts.

use std::{cmp::Reverse, time::Duration};

use xds_core::Time;

use super::{
    Party, World, names,
    parts::{Plane, Scheduled, ScheduledEvent},
};
use crate::{
    options::{Fault, Ties},
    situations::Situation,
    world::{
        actor::{self, Actor, act_as},
        events,
    },
};

/// Maximum number of events at one instant; more are a busy loop.
const ENDLESS: u32 = 20_000;

/// Maximum number of times that a scenario advances time; more are an endless wait.
const ENDLESS_WAITS: u32 = 100_000;

/// Maximum number of outputs at one instant; more are a busy loop. Valid runs can have many:
/// thousands of watches of several clients, with as many changes.
const ENDLESS_OUTPUTS: u32 = 200_000;

impl World {
    /// Advances virtual time, jumping from event to event.
    pub fn advance(&mut self, duration: Duration) {
        self.run_until(self.now.after(duration));
    }

    /// Processes everything that is due up to this time.
    ///
    /// Does not return if a rule is broken, because the run is over. A scenario that waits without
    /// end is stopped too.
    pub fn run_until(&mut self, end: Time) {
        self.waits += 1;
        if self.waits > ENDLESS_WAITS {
            let what = "the scenario waits endlessly".into();
            self.break_rule(&Actor::Scenario.rule(), what);
        }
        if self.is_over() {
            actor::stop();
        }
        let _guard = act_as(Actor::World);
        while !self.is_over() && self.step(end) {}
        if end > self.now {
            self.pass_to(end);
        }
    }

    /// Processes the next event before `end`. Returns false if there is none.
    fn step(&mut self, end: Time) -> bool {
        let timer = self.next_timer();
        let item = self.heap.peek().map(|Reverse(next)| next.at);
        let is_timer_first = match (timer, item) {
            (None, None) => return false,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some((timer, _)), Some(item)) => {
                timer < item || (timer == item && self.options.ties == Ties::TimersFirst)
            }
        };
        if let (Some((timer, _)), Some(item)) = (timer, item)
            && timer.max(self.now) == item
        {
            self.note_tie();
        }
        if is_timer_first {
            let Some((at, party)) = timer.filter(|(at, _)| *at <= end) else { return false };
            if self.lateness > Duration::ZERO {
                self.note(Situation::TimerLate);
                self.takes_effect(Fault::LateTimers);
            }
            self.pass_to(at);
            self.fire(party);
        } else {
            if item.is_none_or(|at| at > end) {
                return false;
            }
            let Some(Reverse(next)) = self.heap.pop() else { return false };
            self.pass_to(next.at);
            self.handle_event(next.item);
        }
        true
    }

    pub(super) fn pass_to(&mut self, at: Time) {
        if at > self.now {
            self.now = at;
            (self.events_at_instant, self.outputs_at_instant) = (0, 0);
        }
    }

    /// Counts an event, and reports a busy loop if there are too many at one instant.
    pub(super) fn count_event(&mut self) {
        self.events += 1;
        self.events_at_instant += 1;
        if self.events_at_instant > ENDLESS {
            self.break_rule(&events::HONEST_TIMEOUTS, "endless work at one instant".into());
        }
    }

    /// Counts an output of a core or of a control plane. Returns false if there are too many or the
    /// run is over, and no more outputs may be taken.
    pub(super) fn may_take_more(&mut self, party: Party) -> bool {
        self.outputs_at_instant += 1;
        if self.outputs_at_instant > ENDLESS_OUTPUTS {
            let what = format!("{} always has something to do at one instant", self.actor(party));
            self.break_rule(&events::HONEST_TIMEOUTS, what);
        }
        !self.is_over()
    }

    fn actor(&self, party: Party) -> String {
        match party {
            Party::Client(at) => names::client(at),
            Party::Server(at) => match self.servers[at].core {
                Plane::Core(_) => names::server(at),
                Plane::Own(_) => format!("the control plane of {}", names::server(at)),
            },
        }
    }

    pub(super) fn next_timer(&self) -> Option<(Time, Party)> {
        let clients = self.clients.iter().enumerate();
        let clients = clients.filter_map(|(at, it)| Some((it.deadline?, Party::Client(at))));
        let servers = self.servers.iter().enumerate();
        let servers = servers.filter_map(|(at, it)| Some((it.deadline?, Party::Server(at))));
        clients.chain(servers).min()
    }

    pub(super) fn fire(&mut self, party: Party) {
        self.count_event();
        let is_seen_to = !self.is_suspended(party);
        let deadline = match party {
            Party::Client(at) => {
                self.fire_client(at);
                self.clients[at].deadline
            }
            Party::Server(at) => {
                let before = self.finished_work(at);
                self.fire_server(at);
                let is_ours = matches!(self.servers[at].core, Plane::Core(_));
                // A part of long work was handled, and another one is due.
                let is_part = self.finished_work(at) != before;
                self.servers[at].deadline.filter(|_| is_ours && !is_part)
            }
        };
        // One call of the timeout handler must process everything else that is due.
        if is_seen_to && deadline.is_some_and(|due| due <= self.now) {
            let (actor, now) = (self.actor(party), self.now);
            let what = format!("{actor} handled a timeout at {now}, and is due at that time again");
            self.break_rule(&events::HONEST_TIMEOUTS, what);
        }
    }

    /// Returns figures that change with each part of long work that a server handles.
    fn finished_work(&self, server: usize) -> Option<(u64, usize)> {
        let Plane::Core(server) = &self.servers[server].core else { return None };
        let stats = server.stats();
        Some((stats.handled_names, stats.unfinished_requests))
    }

    pub(super) fn schedule(&mut self, at: Time, item: ScheduledEvent) {
        self.order += 1;
        self.heap.push(Reverse(Scheduled { at, order: self.order, item }));
    }

    /// Returns the time at which a timer fires by the driver's clock. What is due now needs no timer.
    pub(super) fn by_clock(&self, at: Time) -> Time {
        if at <= self.now {
            return at;
        }
        let at = at.after(self.lateness);
        let grain = u64::try_from(self.options.clock_grain.as_nanos()).unwrap_or_default();
        if grain == 0 || at <= self.now {
            return at;
        }
        Time::from_nanos(at.as_nanos().div_ceil(grain).saturating_mul(grain))
    }

    /// Notes if a response arrives at the instant at which a timer is due.
    fn note_tie(&mut self) {
        if let Some(Reverse(Scheduled { item: ScheduledEvent::Response(..), .. })) =
            self.heap.peek()
        {
            self.note(Situation::ResponseAtTimer);
        }
    }
}
