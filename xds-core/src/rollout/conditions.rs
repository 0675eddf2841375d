//! Conditions of a rollout: when the next phase begins, and when it halts.

use alloc::{string::String, sync::Arc, vec::Vec};

use super::{
    halt::{HaltCause, HaltReason, HaltingClients},
    machine::{Rollout, RolloutOutput},
    policy::{OnHalt, RolloutStep},
    table::{Action, RolloutPhase, Trigger, transition},
};
use crate::{
    time::Time,
    zoo::{self, Bug},
};

impl Rollout {
    /// Makes all transitions that are due.
    pub(super) fn advance(&mut self) {
        loop {
            self.store_unstored();
            if self.proposal.is_some() {
                break;
            }
            if let Some(reason) = self.deferred.take() {
                self.halt(reason.cause, reason.culprits);
            }
            let Some(trigger) = self.due() else { break };
            if !self.fire(trigger) {
                break;
            }
        }
        self.report();
    }

    /// Makes the transition of a trigger, or proposes it. Returns whether there is one in this phase.
    pub(super) fn fire(&mut self, trigger: Trigger) -> bool {
        let Some(next) = transition(self.phase, trigger) else { return false };
        let moves_on = zoo::is(Bug::HaltMovesOn) && next.to == RolloutPhase::Halted;
        let step = self.step + usize::from(next.action == Action::NextStep || moves_on);
        if next.action.waits_for_store() {
            self.propose(next.to, step);
            return true;
        }
        self.is_unstored |= next.to.stored() != self.phase.stored();
        self.enter(next.to, step);
        self.store_unstored();
        true
    }

    /// Halts as the policy says, unless the phase excludes it. A rollout that is halted already only
    /// notes the clients.
    pub(super) fn halt(&mut self, cause: HaltCause, culprits: HaltingClients) {
        let reason = self.reason_of(cause, culprits);
        // Its outcome decides: a completed change cannot be rolled back.
        if self.is_completing() {
            self.deferred.get_or_insert(reason);
        } else if self.phase.may_halt() {
            self.reason = Some(reason);
            let trigger = self.on_halt();
            self.fire(trigger);
        } else if let Some(before) = &mut self.reason
            && self.phase == RolloutPhase::Halted
            && before.cause == reason.cause
        {
            *before = reason;
        }
    }

    pub(super) fn reason_of(&self, cause: HaltCause, culprits: HaltingClients) -> HaltReason {
        HaltReason { step: self.step, cause, culprits }
    }

    /// Enters a phase, and moves the clients whose side it changes.
    pub(super) fn enter(&mut self, phase: RolloutPhase, step: usize) {
        let before = core::mem::replace(&mut self.phase, phase);
        (self.step, self.entered) = (step, self.clock.now());
        if phase == RolloutPhase::Deploying {
            (self.peak, self.shrunk_since) = (0, None);
            self.good.clear();
            if matches!(before, RolloutPhase::Paused | RolloutPhase::Halted) {
                (self.rejections, self.warnings) =
                    (HaltingClients::default(), HaltingClients::default());
                self.reason = None;
            }
        }
        if phase == RolloutPhase::Completed {
            self.reason = None;
            self.outputs.push_back(RolloutOutput::Apply);
        }
        let served = self.served();
        let (clients, outputs) = (&mut self.clients, &mut self.outputs);
        clients.serve(served, |stream, side| outputs.push_back(RolloutOutput::Move(stream, side)));
        if self.is_over() {
            self.outputs.push_back(RolloutOutput::Ended(phase));
        }
    }

    /// Returns the step whose cohort, with those of earlier steps, sees the candidate.
    pub(super) fn served(&self) -> Option<usize> {
        self.phase.is_served().then_some(self.step)
    }

    /// Returns the time at which the phase or the wait for lost clients ends.
    pub(super) fn deadline(&self) -> Option<Time> {
        if self.proposal.is_some() {
            return None;
        }
        let shrunk = self.shrunk_since.map(|since| since.after(self.policy.halt.lost_after));
        let step = self.current_step();
        let ends = match self.phase {
            RolloutPhase::Deploying => step.map(|it| self.entered.after(it.timeout)),
            RolloutPhase::Soaking => step.map(|it| self.entered.after(it.soak)).map(|soaked| {
                if soaked <= self.clock.now() && zoo::is(Bug::NoTimeoutAfterSoak) {
                    return soaked.after(core::time::Duration::MAX);
                }
                let late = step.map_or(soaked, |it| soaked.after(it.timeout));
                if soaked <= self.clock.now() { late } else { soaked }
            }),
            RolloutPhase::Judging => Some(self.entered.after(self.policy.metric_timeout)),
            _ => return None,
        };
        [ends, shrunk].into_iter().flatten().min()
    }

    /// Returns the transition that is due. A condition that is not fulfilled sets the reason.
    fn due(&mut self) -> Option<Trigger> {
        let is_observed = matches!(
            self.phase,
            RolloutPhase::Deploying | RolloutPhase::Soaking | RolloutPhase::Judging
        );
        if is_observed && let Some(cause) = self.lost() {
            return Some(self.halt_trigger(cause, HaltingClients::default()));
        }
        let now = self.clock.now();
        match self.phase {
            RolloutPhase::Starting if !self.is_ready => None,
            RolloutPhase::Starting if self.policy.steps.is_empty() => Some(Trigger::Promote),
            RolloutPhase::Starting => Some(Trigger::Begun),
            RolloutPhase::Deploying => {
                let is_late = self.entered.after(self.current_step()?.timeout) <= now;
                self.await_clients(Trigger::Acknowledged, is_late)
            }
            RolloutPhase::Soaking => {
                let RolloutStep { soak, timeout, .. } = *self.current_step()?;
                let soaked = self.entered.after(soak);
                if soaked > now {
                    return None;
                }
                let is_late = soaked.after(timeout) <= now && !zoo::is(Bug::NoTimeoutAfterSoak);
                self.await_clients(Trigger::Soaked, is_late)
            }
            RolloutPhase::Judging => self.await_metrics(),
            _ => None,
        }
    }

    /// Returns the trigger if enough clients have acknowledged, and halts if it is too late for that.
    fn await_clients(&mut self, fulfilled: Trigger, is_late: bool) -> Option<Trigger> {
        let (required, share) =
            self.current_step().map(|step| (step.min_clients, step.acknowledged))?;
        let total = self.total();
        if let Some((members, acknowledged)) = total
            && members >= required
            && share.is_reached(acknowledged, members)
        {
            return Some(fulfilled);
        }
        if !is_late {
            return None;
        }
        let cause = match total {
            None => HaltCause::SilentReplicas(self.silent_peers()),
            Some((members, _)) if members < required => {
                HaltCause::TooFewClients { members, required }
            }
            Some((members, acknowledged)) => HaltCause::TooSlow { acknowledged, members },
        };
        let lagging: HaltingClients = self.clients.lagging().collect();
        Some(self.halt_trigger(cause, lagging))
    }

    fn await_metrics(&mut self) -> Option<Trigger> {
        let missing = self.policy.metrics.iter().filter(|name| !self.good.contains(*name));
        let missing: Vec<String> = missing.cloned().collect();
        if missing.is_empty() {
            let is_last = self.step + 1 >= self.policy.steps.len();
            return Some(if is_last { Trigger::LastStepDone } else { Trigger::StepDone });
        }
        let is_late = self.entered.after(self.policy.metric_timeout) <= self.clock.now();
        is_late
            .then(|| self.halt_trigger(HaltCause::MetricSilent(missing), HaltingClients::default()))
    }

    /// Notes the size of the cohort. Returns the cause of a halt if too many clients are lost.
    fn lost(&mut self) -> Option<HaltCause> {
        let max = self.policy.halt.max_lost?;
        let Some((members, _)) = self.total() else {
            self.shrunk_since = None;
            return None;
        };
        self.peak = self.peak.max(members);
        if !max.is_exceeded(self.peak - members, self.peak) {
            self.shrunk_since = None;
            return None;
        }
        let now = self.clock.now();
        let since = *self.shrunk_since.get_or_insert(now);
        let is_lost = since.after(self.policy.halt.lost_after) <= now;
        is_lost.then_some(HaltCause::Lost { left: members, of: self.peak })
    }

    fn halt_trigger(&mut self, cause: HaltCause, culprits: HaltingClients) -> Trigger {
        self.reason = Some(self.reason_of(cause, culprits));
        self.on_halt()
    }

    fn on_halt(&self) -> Trigger {
        match self.policy.on_halt {
            OnHalt::Hold => Trigger::HaltAndHold,
            OnHalt::RollBack => Trigger::HaltAndRollBack,
        }
    }

    fn current_step(&self) -> Option<&RolloutStep> {
        self.policy.steps.get(self.step)
    }

    /// Returns the numbers of clients in the cohort, and of those that have acknowledged, over all
    /// replicas; `None` if one has not reported since the last change of the state.
    fn total(&self) -> Option<(u32, u32)> {
        let own = (self.clients.members, self.clients.acknowledged);
        self.peers.values().try_fold(own, |(members, acknowledged), report| {
            let report = report.filter(|it| it.generation == self.generation())?;
            let members = report.members.saturating_add(members);
            Some((members, report.acknowledged.saturating_add(acknowledged)))
        })
    }

    fn silent_peers(&self) -> Vec<Arc<str>> {
        let generation = self.generation();
        let silent = self
            .peers
            .iter()
            .filter(|(_, report)| report.is_none_or(|it| it.generation != generation));
        silent.map(|(name, _)| name.clone()).collect()
    }
}
