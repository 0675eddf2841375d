//! Random operations, repair, and agreement.

use std::{collections::BTreeMap, time::Duration};

use super::{
    client::ReplicaSubscription,
    rules::{BOUNDED, CONVERGENCE},
    situations::ReplicaSituation,
    source::{NAMES, SourceKey, TYPES, all_keys},
    world::{QueuedEvent, ReplicaWorld},
};
use xds_core::{Time, service::Variant};

/// Time in which all participants must agree once everything is repaired: backoff of clients and
/// followers, the wait for a source, the does-not-exist timer.
const CONVERGE: Duration = Duration::from_secs(200);

impl ReplicaWorld {
    /// Runs the whole storm.
    pub(super) fn storm(&mut self) {
        for client in 0..self.clients.len() {
            self.start_watches(client);
        }
        for _ in 0..self.options.operations {
            if self.violation.is_some() {
                return;
            }
            self.choices.begin_span();
            self.operate();
            let pause = self.choices.pick("pause", &[0, 1, 10, 100, 1_000, 5_000, 20_000]);
            let pause = Duration::from_millis(pause);
            self.choices.end_span();
            self.advance(pause);
        }
        self.heal();
        self.advance(CONVERGE);
        if self.violation.is_none() {
            self.judge_agreement();
        }
    }

    fn operate(&mut self) {
        match self.choices.below("operation", 12) {
            0..=3 => {
                let changes = self.choices.between("changes", 1, 3);
                let changes = (0..changes).map(|_| self.draw_change()).collect();
                self.change_source(changes);
            }
            4 => self.change_source(BTreeMap::new()),
            5 => {
                self.source.compacted = self.source.current();
                let compacted = self.source.compacted;
                self.note(|| format!("source: compacted up to {compacted}"));
            }
            6 | 7 => {
                let at = self.draw_replica();
                let is_partitioned = !self.replicas[at].is_partitioned;
                self.partition(at, is_partitioned);
            }
            8 => {
                let at = self.draw_replica();
                self.stop_replica(at);
            }
            9 => {
                let at = self.draw_client();
                let open = self.links.iter().rposition(|it| it.client == at && it.is_open);
                if let Some(link) = open {
                    self.cut(link);
                }
            }
            10 => {
                let at = self.draw_client();
                self.restart_client(at);
            }
            _ => {
                let at = self.draw_client();
                self.toggle_watch(at);
            }
        }
    }

    fn draw_replica(&mut self) -> usize {
        self.choices.below("which replica", self.options.replicas) as usize
    }

    fn draw_client(&mut self) -> usize {
        self.choices.below("which client", self.options.clients) as usize
    }

    fn draw_change(&mut self) -> (SourceKey, Option<String>) {
        let kind = self.choices.below("type", TYPES.len() as u32) as usize;
        let key = (kind, self.choices.below("name", NAMES));
        let before = self.source.written(key, self.source.current());
        match self.choices.below("content", 8) {
            0..=3 => (key, Some(format!("v{}", self.source.current() + 1))),
            4..=5 => (key, None),
            6 if before.is_some() => {
                self.situations.note(ReplicaSituation::EqualRewrite);
                (key, before.map(|it| it.text))
            }
            // A content that the resource may have had before.
            _ => (key, Some("again".into())),
        }
    }

    fn partition(&mut self, at: usize, is_partitioned: bool) {
        let now = self.now;
        let replica = &mut self.replicas[at];
        if replica.is_partitioned && !is_partitioned {
            replica.healed_at = now.max(Time::from_nanos(1));
        }
        replica.is_partitioned = is_partitioned;
        if is_partitioned {
            self.situations.note(ReplicaSituation::Partitioned);
            if let super::replica::Call::Watch { number, .. } = self.replicas[at].call {
                let start = self.replicas[at].start;
                let keepalive = Duration::from_secs(3);
                self.schedule(keepalive, QueuedEvent::WatchLost { replica: at, start, number });
            }
        }
        self.note(|| format!("replica-{at}: partitioned: {is_partitioned}"));
    }

    fn stop_replica(&mut self, at: usize) {
        if !self.replicas[at].is_running {
            return;
        }
        self.situations.note(ReplicaSituation::ReplicaRestarted);
        self.note(|| format!("replica-{at} stops"));
        self.replicas[at].is_running = false;
        for link in 0..self.links.len() {
            if self.links[link].replica == at {
                self.cut(link);
                self.links[link].stream = None;
            }
        }
        let down = self.choices.pick("down", &[1, 100, 3_000]);
        self.schedule(Duration::from_millis(down), QueuedEvent::Restarted(at));
    }

    fn toggle_watch(&mut self, at: usize) {
        let name = self.choices.below("name", NAMES);
        let watched = ReplicaSubscription::Name((1, name));
        let application = &mut self.clients[at];
        if let Some(position) = application.wants.iter().position(|it| *it == watched) {
            application.wants.remove(position);
            let watch = application.watches.iter().find(|(_, it)| **it == watched);
            if let Some(watch) = watch.map(|(&watch, _)| watch) {
                application.watches.remove(&watch);
                application.values.remove(&(1, name));
                application.cached.remove(&(1, name));
                application.core.unwatch(watch, self.now);
            }
        } else {
            application.wants.push(watched);
            self.start_watches(at);
        }
    }

    /// Repairs everything.
    fn heal(&mut self) {
        for at in 0..self.replicas.len() {
            if self.replicas[at].is_partitioned {
                self.partition(at, false);
            }
        }
        self.options.members_lag = false;
        self.note(|| "heal".into());
    }

    fn judge_agreement(&mut self) {
        for at in 0..self.replicas.len() {
            self.judge_whole(at);
            let state = self.source.state_at(self.source.current());
            let reached = self.replicas[at].server.source_status().revision.unwrap_or_default();
            if self.source.state_at(reached) != state {
                let what = format!("replica-{at} is at revision {reached}");
                self.violate(&CONVERGENCE, what);
            }
            if self.replicas[at].server.stats().waiting_for_source > 0 {
                let what = format!("streams wait at replica-{at}");
                self.violate(&BOUNDED, what);
            }
        }
        for at in 0..self.clients.len() {
            for key in all_keys() {
                self.judge_client(at, key);
            }
        }
    }

    fn judge_client(&mut self, at: usize, key: SourceKey) {
        let application = &self.clients[at];
        let is_watched = application.watches.values().any(|watched| match watched {
            ReplicaSubscription::Wildcard(kind) => *kind == key.0,
            ReplicaSubscription::Name(name) => *name == key,
        });
        let written = self.source.written(key, self.source.current()).map(|it| it.text);
        // The state of the world cannot remove endpoints.
        let is_told = application.variant == Variant::Incremental || key.0 == 0;
        let held = application.values.get(&key).cloned().flatten();
        if is_watched && held != written && (is_told || written.is_some()) {
            let what = format!("client-{at} has {held:?} for {key:?}, the source {written:?}");
            self.violate(&CONVERGENCE, what);
        }
    }
}
