//! Random operations, repair, and agreement.

use std::time::Duration;

use xds_core::{
    rollout::{
        Cohort, MetricVerdict, OnHalt, PeerNews, RolloutCommand, RolloutPhase, RolloutPolicy,
        RolloutStep, Share,
    },
    selector::{NodeCondition, NodeField},
};

use super::world::{RolloutWorld, SourceChange, WorldEvent};

/// Time in which a rollout ends that nobody disturbs, with backoffs of clients.
const END: Duration = Duration::from_secs(1_000);

impl RolloutWorld {
    /// Runs the whole storm.
    pub(super) fn storm(&mut self) {
        self.advance(Duration::from_secs(1));
        let operations = self.choices.between("operations", 1, 25);
        for _ in 0..operations {
            if self.violation.is_some() {
                return;
            }
            self.choices.begin_span();
            self.operate();
            let pause = self.choices.pick("pause", &[0, 10, 100, 1_000, 10_000, 40_000]);
            self.choices.end_span();
            self.advance(Duration::from_millis(pause));
        }
        self.is_source_up = true;
        self.note(|| "heal".into());
        for _ in 0..10 {
            self.advance(END / 10);
            self.metric(&MetricVerdict::Good);
        }
        self.advance(END);
        if self.violation.is_none() {
            self.judge_ends();
        }
        // A rollout that waits for a command gets one.
        let command =
            self.choices.pick("last command", &[RolloutCommand::Abort, RolloutCommand::Promote]);
        self.command(0, command);
        self.advance(END);
        if self.violation.is_none() {
            self.judge_agreement();
        }
    }

    fn operate(&mut self) {
        match self.choices.below("operation", 14) {
            0..=2 => self.change_source(),
            3 | 4 => {
                let links = self.links.len() as u32;
                let link = self.choices.below("link", links.max(1)) as usize;
                if self.links.get(link).is_some_and(|it| it.is_open) {
                    self.note(|| format!("link {link} is lost"));
                    self.schedule(Duration::ZERO, WorldEvent::EndAtServer(link));
                    self.schedule(Duration::ZERO, WorldEvent::EndAtClient(link));
                }
            }
            5 => self.stop(),
            12 | 13 => self.change_endpoints(),
            6 => self.is_source_up = !self.is_source_up,
            7 | 8 => {
                let bad = self.choices.chance("bad metric", 200);
                let verdict = match bad {
                    true => MetricVerdict::Bad("m".into()),
                    false => MetricVerdict::Good,
                };
                self.note(|| format!("metric: {verdict:?}"));
                self.metric(&verdict);
            }
            _ => {
                let commands = [
                    RolloutCommand::Pause,
                    RolloutCommand::Resume,
                    RolloutCommand::Resume,
                    RolloutCommand::Abort,
                    RolloutCommand::Promote,
                ];
                let at = self.choices.below("which replica", self.replicas.len() as u32) as usize;
                let command = self.choices.pick("command", &commands);
                self.command(at, command);
            }
        }
    }

    fn command(&mut self, at: usize, command: RolloutCommand) {
        let replica = &mut self.replicas[at];
        if replica.is_running {
            let result = replica.rollouts.command(&mut replica.server, command, self.now);
            self.note(|| format!("replica-{at}: {command:?}: {result:?}"));
        }
    }

    fn stop(&mut self) {
        let at = self.choices.below("which replica", self.replicas.len() as u32) as usize;
        if !self.replicas[at].is_running {
            return;
        }
        self.note(|| format!("replica-{at} stops"));
        self.replicas[at].is_running = false;
        for link in 0..self.links.len() {
            if self.links[link].replica == at && self.links[link].stream.take().is_some() {
                self.schedule(Duration::ZERO, WorldEvent::EndAtClient(link));
            }
        }
        self.tell_peers(at, PeerNews::Left);
        let down = self.choices.pick("down", &[1, 1_000, 20_000]);
        self.schedule(Duration::from_millis(down), WorldEvent::Restarted(at));
    }

    fn change_source(&mut self) {
        let (&newest, change) = self.changes.last_key_value().expect("the beginning");
        let (number, mut contents) = (newest + 1, change.contents.clone());
        let text = match self.choices.chance("bad", 300) {
            true => format!("bad{number}"),
            false => number.to_string(),
        };
        for name in ["a", "b"] {
            match self.choices.below("content", 4) {
                0 => drop(contents.remove(name)),
                1 => {}
                _ => drop(contents.insert(name.into(), text.clone())),
            }
        }
        let policy = self.draw_policy();
        self.note(|| format!("source: change {number}: {contents:?}"));
        self.changes.insert(number, SourceChange { contents, policy });
        for at in 0..self.replicas.len() {
            let start = self.replicas[at].start;
            self.send((2, at), WorldEvent::ChangeArrives(at, start, number));
        }
    }

    /// Changes endpoints, which all clients get at once, also while a rollout is under way.
    fn change_endpoints(&mut self) {
        self.endpoints += 1;
        let number = self.endpoints;
        self.note(|| format!("source: endpoints {number}"));
        for at in 0..self.replicas.len() {
            let start = self.replicas[at].start;
            self.send((2, at), WorldEvent::EndpointsArrive(at, start, number));
        }
    }

    fn draw_policy(&mut self) -> RolloutPolicy {
        if self.choices.chance("all at once", 150) {
            return RolloutPolicy::all_at_once();
        }
        let first = match self.choices.chance("by percent", 500) {
            true => Cohort::of(Share::percent(30)),
            false => Cohort::selected([NodeCondition::new(NodeField::Id, ["node-0", "node-2"])]),
        };
        let steps = [first, Cohort::of(Share::percent(60))].map(|cohort| {
            let mut step = RolloutStep::new(cohort);
            step.soak = Duration::from_secs(self.choices.pick("soak", &[0, 5, 30]));
            step.timeout = Duration::from_secs(self.choices.pick("timeout", &[1, 10, 60]));
            step.min_clients = self.choices.below("min clients", 2);
            step
        });
        let mut policy = RolloutPolicy::new(steps);
        if self.choices.chance("metric", 300) {
            policy = policy.with_metric("m");
        }
        if self.choices.chance("max lost", 200) {
            policy.halt.max_lost = Some(Share::percent(20));
        }
        if self.choices.chance("hold", 400) {
            policy.on_halt = OnHalt::Hold;
        }
        policy
    }

    fn judge_ends(&mut self) {
        for at in 0..self.replicas.len() {
            let progress = self.replicas[at].rollouts.progress();
            if let Some(progress) = progress
                && !matches!(progress.phase, RolloutPhase::Halted | RolloutPhase::Paused)
            {
                self.violate("every rollout ends", format!("replica-{at}: {progress:?}"));
            }
        }
    }
}
