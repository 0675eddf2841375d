//! Rules that the runs are judged by.

use xds_core::{
    ViewName,
    client::Change,
    rollout::{HaltCause, RolloutPhase, RolloutProgress, Side, StoredPhase},
    selector::NodeFacts,
    types,
};

use super::world::{RolloutWorld, SourceContents};
use crate::{Toy, trace::Violation};

impl RolloutWorld {
    pub(super) fn violate(&mut self, rule: &'static str, what: String) {
        if self.violation.is_some() {
            return;
        }
        self.note(|| format!("VIOLATION {rule}: {what}"));
        let (at, number) = (self.now, self.events);
        self.violation = Some(Violation { invariant: rule, rule, what, at, number });
    }

    /// Returns the first step of a rollout whose cohort has a client.
    fn first_step(&self, number: u64, node: &str) -> Option<usize> {
        let policy = &self.changes[&number].policy;
        let node = NodeFacts::with_id(node);
        policy.steps.iter().position(|it| it.cohort.has(&policy.salt, &node))
    }

    /// Judges what an application observes: nobody outside of the cohort sees a candidate.
    pub(super) fn observe(&mut self, at: usize, change: Change) {
        let Change::Resource { name, result } = change else { return };
        let name = name.as_str().to_owned();
        let Ok(resource) = result else {
            self.note(|| format!("client-{at}: {name} is missing or invalid"));
            return;
        };
        let text = Toy::text_of(&resource.bytes);
        self.note(|| format!("client-{at}: {name}={text}"));
        let number: u64 = text.parse().unwrap_or_default();
        let node = self.clients[at].node.clone();
        // A later change may have completed with it, or shown it to its cohort.
        let may_see = self.changes.range(number..).any(|(&later, change)| {
            let has_it = change.contents.get(&name) == Some(&text);
            let first = self.first_step(later, &node);
            let is_reached =
                first.is_some_and(|first| self.reached.get(&later).is_some_and(|it| first <= *it));
            has_it && (is_reached || self.completed.contains(&later))
        });
        if !may_see {
            let what = format!("client-{at} observes {name}={text} outside of the cohort");
            self.violate("cohort only", what);
        }
        self.clients[at].values.insert(name, text);
    }

    /// Judges the state of a replica after the rejection of a client that sees a candidate.
    pub(super) fn judge_rejection(&mut self, at: usize) {
        let Some(rollout) = self.replicas[at].rollouts.rollout() else { return };
        let is_running = !matches!(
            rollout.phase(),
            RolloutPhase::Halted | RolloutPhase::Paused | RolloutPhase::RolledBack
        );
        let rolls_back = rollout.policy().on_halt == xds_core::rollout::OnHalt::RollBack;
        let completes = rollout.is_completing();
        if is_running && !completes || rolls_back && rollout.phase() == RolloutPhase::Halted {
            let what = format!("replica-{at} is {:?} after a rejection", rollout.phase());
            self.violate("rolls back at once", what);
        }
    }

    /// Judges the reason of a halt: clients reject only what is bad.
    pub(super) fn judge_blame(&mut self, progress: &RolloutProgress) {
        let reason = progress.reason.as_ref();
        if reason.is_none_or(|it| it.cause != HaltCause::Rejected) {
            return;
        }
        let contents = &self.changes[&progress.id.0].contents;
        if !contents.values().any(|text| text.starts_with("bad")) {
            let what = format!("rollout {}: {reason:?}", progress.id.0);
            self.violate("blames its own change", what);
        }
    }

    /// Judges the sides that the clients of a replica see.
    pub(super) fn judge_sides(&mut self, at: usize) {
        let replica = &self.replicas[at];
        let Some(rollout) = replica.rollouts.rollout() else { return };
        let (phase, progress) = (rollout.phase(), rollout.progress());
        let number = progress.id.0;
        let served = phase.is_served().then_some(progress.step);
        let mut seen = Vec::new();
        for link in self.links.iter().filter(|it| it.replica == at) {
            let Some(stream) = link.stream else { continue };
            let Some(side) = rollout.side(stream) else { continue };
            let node = &self.clients[link.client].node;
            let is_in = self.first_step(number, node).is_some_and(|it| Some(it) <= served);
            let expected = if is_in && served.is_some() { Side::Candidate } else { Side::Stable };
            seen.push((stream, node.clone(), side, expected));
        }
        for (stream, node, side, expected) in seen {
            if side != expected {
                let what = format!("replica-{at}: {node} sees {side:?} in {phase:?}");
                self.violate("same side", what);
            }
            let moves = self.replicas[at].moves.entry((number, stream)).or_default();
            if moves.last() != Some(&side) {
                moves.push(side);
            }
            let (length, starts) = (moves.len(), moves.first() == Some(&Side::Candidate));
            if length + usize::from(starts) > 3
                || length == 3 - usize::from(starts) && served.is_some()
            {
                let what = format!("replica-{at}: {node} changes sides again in {phase:?}");
                self.violate("forward only", what);
            }
        }
        let reached = self.reached.get(&number).copied();
        if served.is_some() && served > reached {
            let what = format!("replica-{at} serves step {served:?}, and {reached:?} is stored");
            self.violate("cohort only", what);
        }
    }

    /// Judges the views of a replica after a rollout.
    pub(super) fn judge_end(&mut self, at: usize) {
        let replica = &self.replicas[at];
        let held = contents(&replica.server.contents(&ViewName::default()));
        if held != replica.before {
            let what = format!("replica-{at} has {held:?}, not {:?}", replica.before);
            self.violate("equal to before", what);
        }
        let replica = &self.replicas[at];
        if replica.rollouts.rollout().is_none() && replica.server.views().len() > 1 {
            let what = format!("replica-{at} has views {:?}", replica.server.views());
            self.violate("equal to before", what);
        }
    }

    /// Judges that all views of a replica have the newest endpoints: they are applied for all clients.
    pub(super) fn judge_endpoints(&mut self, at: usize) {
        let replica = &self.replicas[at];
        let (type_url, expected) = (types::CLUSTER_LOAD_ASSIGNMENT.into(), replica.endpoints);
        for view in replica.server.views() {
            let held = replica.server.contents(&view);
            let held = held.get(&type_url, &"e".into()).map(|it| Toy::text_of(it));
            if held != Some(expected.to_string()) {
                let what = format!("replica-{at}: view {view} has {held:?}, not {expected}");
                return self.violate("applied for all", what);
            }
        }
    }

    /// Judges that no view of a replica has less than the guard allows: a cluster.
    pub(super) fn judge_guard(&mut self, at: usize) {
        let server = &self.replicas[at].server;
        let is_less = |view: &ViewName| contents(&server.contents(view)).is_empty();
        if let Some(view) = server.views().iter().find(|view| is_less(view)) {
            let what = format!("replica-{at}: view {view} has no cluster");
            self.violate("never less than a guard allows", what);
        }
    }

    /// Judges the agreement of all in the end.
    pub(super) fn judge_agreement(&mut self) {
        let stored = self.stored.clone();
        if stored.as_ref().is_some_and(|it| !it.phase.is_final()) {
            return self.violate("every rollout ends", format!("the state is {stored:?}"));
        }
        let is_completed = |it: &&xds_core::rollout::RolloutState| {
            it.phase == StoredPhase::Completed && it.stable != it.id
        };
        if let Some(state) = stored.as_ref().filter(is_completed) {
            return self.violate("convergence", format!("the state is {state}"));
        }
        let expected = self.changes[&stored.map_or(0, |it| it.stable.0)].contents.clone();
        for at in 0..self.replicas.len() {
            let held = contents(&self.replicas[at].server.contents(&ViewName::default()));
            if held != expected {
                let what = format!("replica-{at} has {held:?}, not {expected:?}");
                self.violate("convergence", what);
            }
            if let Some(progress) = self.replicas[at].rollouts.progress() {
                self.violate("every rollout ends", format!("replica-{at}: {progress:?}"));
            }
        }
        for at in 0..self.clients.len() {
            for (name, text) in expected.iter().filter(|(_, text)| !text.starts_with("bad")) {
                let held = self.clients[at].values.get(name);
                if held != Some(text) {
                    let what = format!("client-{at} has {name}={held:?}, not {text}");
                    self.violate("convergence", what);
                }
            }
        }
    }
}

fn contents(view: &xds_core::server::ViewContents) -> SourceContents {
    let clusters = view.iter().filter(|(type_url, ..)| type_url.as_str() == types::CLUSTER);
    clusters.map(|(_, name, bytes)| (name.as_str().to_owned(), Toy::text_of(bytes))).collect()
}
