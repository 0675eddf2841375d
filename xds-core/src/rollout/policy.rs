//! Policy of a rollout: cohorts, conditions and reactions.

use alloc::{string::String, vec::Vec};
use core::time::Duration;

use thiserror::Error;

use super::share::Share;
use crate::selector::{NodeFacts, NodeSelector};

/// Maximum of each time in a policy: 30 days.
pub const LONGEST_WAIT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Maximum number of steps.
pub const MOST_STEPS: usize = 100;

/// Clients that see a candidate from a step on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cohort {
    /// Clients that may be in the cohort.
    pub clients: NodeSelector,
    /// Share of them, by a stable hash of the node id. Clients without a node id are only in a
    /// cohort of [`Share::ALL`].
    pub share: Share,
}

impl Cohort {
    /// Returns a cohort of a share of all clients.
    #[must_use]
    pub fn of(share: Share) -> Self {
        Self { clients: NodeSelector::default(), share }
    }

    /// Returns a cohort of all clients that a selector matches.
    #[must_use]
    pub fn selected(clients: impl Into<NodeSelector>) -> Self {
        Self { clients: clients.into(), share: Share::ALL }
    }

    /// Whether the client with this node is in the cohort.
    #[must_use]
    pub fn has(&self, salt: &str, node: &NodeFacts) -> bool {
        self.clients.matches(node) && self.share.has(salt, &node.id)
    }

    /// Whether the cohort has conditions, also on the node id, so that it needs `NodeDetail::Full`.
    pub(super) fn needs_facts(&self) -> bool {
        !self.clients.conditions().is_empty()
    }

    fn contains(&self, other: &Self) -> bool {
        let is_wider = !self.needs_facts() || self.clients == other.clients;
        is_wider && self.share >= other.share
    }
}

/// Step of a rollout: a larger cohort, and the conditions under which the next step begins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RolloutStep {
    /// Clients that see the candidate from this step on, in addition to those of earlier steps.
    pub cohort: Cohort,
    /// Share of the cohort's connected clients that have to acknowledge the candidate; all by
    /// default. [`Share::NONE`] waits for none.
    pub acknowledged: Share,
    /// Number of connected clients of this and earlier steps that there have to be; 1 by default. If
    /// there is none, the rollout therefore halts at the timeout. With 0 the step passes.
    pub min_clients: u32,
    /// Time in which the conditions have to be fulfilled, 5 minutes by default. It applies again at
    /// the end of the soak.
    pub timeout: Duration,
    /// Time for which the rollout observes the cohort after the conditions are fulfilled; 10 minutes
    /// by default.
    pub soak: Duration,
}

impl RolloutStep {
    /// Returns a step with the default conditions.
    #[must_use]
    pub fn new(cohort: Cohort) -> Self {
        Self {
            cohort,
            acknowledged: Share::ALL,
            min_clients: 1,
            timeout: Duration::from_secs(5 * 60),
            soak: Duration::from_secs(10 * 60),
        }
    }

    /// Sets the soak time.
    #[must_use]
    pub fn with_soak(mut self, soak: Duration) -> Self {
        self.soak = soak;
        self
    }

    /// Sets the timeout.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// Reaction to a halt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnHalt {
    /// The cohort gets the stable views back at once.
    #[default]
    RollBack,
    /// Clients keep their sides until a command.
    Hold,
}

/// Handling of a change that arrives while a rollout is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnNewer {
    /// The current rollout ends. One new rollout with both changes begins.
    #[default]
    Supersede,
    /// The newer change waits until the rollout under way has ended. Waiting changes are rolled out
    /// together.
    Queue,
}

/// Conditions under which a rollout halts, in addition to the timeouts of its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HaltConditions {
    /// Number of clients of the cohort that may reject the candidate; 0 by default.
    pub max_rejections: u32,
    /// Number of warnings that are tolerated; unlimited by default.
    pub max_warnings: Option<u32>,
    /// Share of the cohort that may disconnect; unlimited by default.
    pub max_lost: Option<Share>,
    /// Time that disconnected clients have to connect again before they count as lost; 30 seconds
    /// by default.
    pub lost_after: Duration,
}

impl Default for HaltConditions {
    fn default() -> Self {
        Self {
            max_rejections: 0,
            max_warnings: None,
            max_lost: None,
            lost_after: Duration::from_secs(30),
        }
    }
}

/// Policy of a rollout.
///
/// ```
/// use core::time::Duration;
/// use xds_core::rollout::{Cohort, RolloutPolicy, RolloutStep, Share};
///
/// let minute = Duration::from_secs(60);
/// let policy = RolloutPolicy::new([
///     RolloutStep::new(Cohort::of(Share::percent(5))).with_soak(10 * minute),
///     RolloutStep::new(Cohort::of(Share::percent(50))).with_soak(30 * minute),
/// ]);
/// policy.validate()?;
///
/// let same_twice = [RolloutStep::new(Cohort::of(Share::percent(5))), policy.steps[0].clone()];
/// let error = RolloutPolicy::new(same_twice).validate().unwrap_err();
/// assert_eq!(error.to_string(), "step 2 adds no client to those of step 1: remove it");
/// # Ok::<(), xds_core::rollout::PolicyError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RolloutPolicy {
    /// Steps in order. After the last one, all clients get the change. Without steps they all get it
    /// at once, and a rollout under way is superseded: the emergency mode.
    pub steps: Vec<RolloutStep>,
    /// Conditions under which the rollout halts.
    pub halt: HaltConditions,
    /// Reaction to a halt.
    pub on_halt: OnHalt,
    /// Handling of this change if another rollout is under way.
    pub on_newer: OnNewer,
    /// Names of the external metrics that have to be good at the end of each soak.
    pub metrics: Vec<String>,
    /// Time in which each metric has to report after a soak; 5 minutes with
    /// [`with_metric`](Self::with_metric). Then a rollout whose metric is silent halts.
    pub metric_timeout: Duration,
    /// Text that is hashed with node ids. Policies with different salts begin with different clients.
    pub salt: String,
}

/// Reason for which a policy is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The cohort of a step has no client.
    #[error("step {step} selects no client: its share is 0%")]
    EmptyShare {
        /// Number of the step, from 1.
        step: usize,
    },
    /// A condition of a selector has no pattern, so no client fulfils it.
    #[error("step {step} selects no client: condition {condition} has no pattern")]
    EmptyCondition {
        /// Number of the step, from 1.
        step: usize,
        /// Number of the condition, from 1.
        condition: usize,
    },
    /// A step adds no client.
    #[error("step {step} adds no client to those of step {earlier}: remove it")]
    AddsNothing {
        /// Number of the step, from 1.
        step: usize,
        /// Number of the earlier step with the same clients or more.
        earlier: usize,
    },
    /// A step has no time to fulfil its conditions, and so always halts.
    #[error("step {step} always halts: its timeout is 0, but it waits for clients")]
    NoTime {
        /// Number of the step, from 1.
        step: usize,
    },
    /// A time is so long that the rollout would practically never end.
    #[error("{what} of step {step} is longer than 30 days: the rollout would not end")]
    NeverEnds {
        /// Number of the step, from 1.
        step: usize,
        /// Name of the time.
        what: &'static str,
    },
    /// Metrics have no usable time in which they have to report.
    #[error("metric `{metric}` has to report in more than 0 seconds and at most 30 days")]
    MetricTimeout {
        /// Name of the metric.
        metric: String,
    },
    /// A metric is listed twice or has no name.
    #[error("metric `{metric}` has no name, or is listed twice")]
    MetricName {
        /// Name of the metric.
        metric: String,
    },
    /// The number of steps exceeds the limit.
    #[error("{steps} steps: at most 100 are possible")]
    TooManySteps {
        /// Number of steps.
        steps: usize,
    },
    /// Conditions look at fields of nodes that are not kept.
    #[error(
        "step {step} selects clients by more than a share: create the rollouts with \
         `NodeDetail::Full`"
    )]
    NodesNotKept {
        /// Number of the step, from 1.
        step: usize,
    },
}

impl RolloutPolicy {
    /// Returns a policy with these steps that rolls back at the first rejection.
    #[must_use]
    pub fn new(steps: impl Into<Vec<RolloutStep>>) -> Self {
        Self { steps: steps.into(), ..Self::default() }
    }

    /// Returns the policy that applies a change for all clients at once.
    #[must_use]
    pub fn all_at_once() -> Self {
        Self::default()
    }

    /// Sets the reaction to a halt.
    #[must_use]
    pub fn with_on_halt(mut self, on_halt: OnHalt) -> Self {
        self.on_halt = on_halt;
        self
    }

    /// Adds a metric that has to be good at the end of each soak.
    #[must_use]
    pub fn with_metric(mut self, name: impl Into<String>) -> Self {
        self.metrics.push(name.into());
        if self.metric_timeout.is_zero() {
            self.metric_timeout = Duration::from_secs(5 * 60);
        }
        self
    }

    /// Checks that each step has clients that it may select, and that the rollout ends.
    ///
    /// # Errors
    ///
    /// Returns the first problem. A selector that matches no connected client is not one: clients may
    /// connect, and the [timeout](RolloutStep::timeout) ends the wait for them.
    pub fn validate(&self) -> Result<(), PolicyError> {
        if self.steps.len() > MOST_STEPS {
            return Err(PolicyError::TooManySteps { steps: self.steps.len() });
        }
        for (index, step) in self.steps.iter().enumerate() {
            self.validate_step(index + 1, step)?;
        }
        for (index, metric) in self.metrics.iter().enumerate() {
            if metric.is_empty() || self.metrics.iter().take(index).any(|it| it == metric) {
                return Err(PolicyError::MetricName { metric: metric.clone() });
            }
            if self.metric_timeout.is_zero() || self.metric_timeout > LONGEST_WAIT {
                return Err(PolicyError::MetricTimeout { metric: metric.clone() });
            }
        }
        Ok(())
    }

    fn validate_step(&self, number: usize, step: &RolloutStep) -> Result<(), PolicyError> {
        if step.cohort.share == Share::NONE {
            return Err(PolicyError::EmptyShare { step: number });
        }
        let conditions = step.cohort.clients.conditions();
        if let Some(condition) = conditions.iter().position(|it| it.any_of.is_empty()) {
            return Err(PolicyError::EmptyCondition { step: number, condition: condition + 1 });
        }
        let mut earlier = self.steps.iter().take(number - 1);
        if let Some(earlier) = earlier.position(|it| it.cohort.contains(&step.cohort)) {
            return Err(PolicyError::AddsNothing { step: number, earlier: earlier + 1 });
        }
        if step.timeout.is_zero() && (step.acknowledged > Share::NONE || step.min_clients > 0) {
            return Err(PolicyError::NoTime { step: number });
        }
        for (what, time) in [("the timeout", step.timeout), ("the soak time", step.soak)] {
            if time > LONGEST_WAIT {
                return Err(PolicyError::NeverEnds { step: number, what });
            }
        }
        if self.halt.lost_after > LONGEST_WAIT {
            return Err(PolicyError::NeverEnds { step: number, what: "`lost_after`" });
        }
        Ok(())
    }

    /// Returns the number of the first step whose cohort has the client.
    pub(super) fn first_step(&self, node: &NodeFacts) -> Option<usize> {
        self.steps.iter().position(|step| step.cohort.has(&self.salt, node))
    }

    /// Returns the first step, from 1, whose cohort needs `NodeDetail::Full`.
    pub(super) fn needs_facts(&self) -> Option<usize> {
        self.steps.iter().position(|it| it.cohort.needs_facts()).map(|it| it + 1)
    }
}
