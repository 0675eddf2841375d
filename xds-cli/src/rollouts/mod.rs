//! Rollouts of `xds serve`: their policy, their state, and their progress.
//!
//! | file | contents |
//! |---|---|
//! | `policy_file.rs` | parsing of a policy |
//! | `local.rs` | directory of one server as the place of their state |
//! | `keeper.rs` | task that stores the states of rollouts, and passes on those of others |
//! | `observer.rs` | task that passes on the progress of a rollout |
//! | `counts.rs` | progress and counts for metrics |
//! | `metric.rs` | commands that observe the clients of a rollout |
//! | `report.rs` | progress and states as JSON and as text |

mod counts;
mod keeper;
mod local;
mod metric;
mod observer;
mod policy_file;
mod report;

use core::time::Duration;

use xds_core::rollout::{NodeDetail, RolloutPolicy};

pub(crate) use self::{
    counts::{Counts, RolloutCounts},
    keeper::{RolloutStates, keep},
    local::LocalRollouts,
    observer::RolloutObserver,
    policy_file::read,
    report::{progress_json, progress_lines, state_json, state_line},
};

/// Policy of all rollouts of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RolloutSettings {
    pub(crate) policy: RolloutPolicy,
    /// Commands that give the verdicts of the metrics of the policy.
    pub(crate) metrics: Vec<MetricCommand>,
}

/// Command that gives the verdict of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MetricCommand {
    pub(crate) name: String,
    /// Program and its arguments.
    pub(crate) command: Vec<String>,
    /// Time between two runs.
    pub(crate) every: Duration,
}

impl RolloutSettings {
    /// Returns what the server has to keep of nodes.
    pub(crate) fn node_detail(&self) -> NodeDetail {
        let needs_facts =
            |it: &xds_core::rollout::RolloutStep| !it.cohort.clients.conditions().is_empty();
        match self.policy.steps.iter().any(needs_facts) {
            true => NodeDetail::Full,
            false => NodeDetail::Id,
        }
    }
}
