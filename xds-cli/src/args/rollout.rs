//! Arguments for rollouts.

use core::{str::FromStr, time::Duration};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use thiserror::Error;
use xds_core::{
    rollout::{Cohort, OnHalt, PolicyError, RolloutPolicy, RolloutStep, Share},
    selector::{NodeCondition, NodeField},
};

use super::{EtcdArgs, KubeClusterArgs, SourceAddress, parse_duration};

/// Options for rollouts of `xds serve`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Rollouts (a change reaches few clients first)")]
pub(crate) struct RolloutArgs {
    /// Roll out each change gradually: first to these clients, and to all others only after they
    /// have accepted it. If a client rejects it, the earlier resources are served again. A
    /// directory needs --state.
    ///
    /// CLIENTS is a percentage of all clients, selected by a stable hash of the node id, or
    /// FIELD=PATTERN. FIELD is id, cluster, region, zone, sub_zone or metadata.PATH, and * in
    /// PATTERN stands for any characters. For several steps, give the option several times, or
    /// separate the values by commas. Changes that only set endpoints are served to all clients at
    /// once.
    #[arg(long, value_name = "CLIENTS", value_delimiter = ',', conflicts_with = "rollout_policy")]
    canary: Vec<Canary>,

    /// Observe the clients of a step for this time before the next step begins.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10m", requires = "canary")]
    soak: Duration,

    /// Reaction when a client rejects a change, or does not accept it in time.
    #[arg(long, value_name = "WHAT", default_value = "roll-back", requires = "canary")]
    on_halt: HaltReaction,

    /// Roll out each change by the policy in this YAML file: steps, times, conditions and metrics. A
    /// directory needs --state.
    #[arg(long, value_name = "FILE")]
    pub(crate) rollout_policy: Option<PathBuf>,

    /// Keep the state of rollouts in this directory, so that a rollout continues after a restart.
    /// The commands of `xds rollout` use it too. It contains the resources, including secrets, and
    /// is created with mode 0700. Each server needs its own directory.
    ///
    /// Without this option, the state is kept in the source, if that is etcd or Kubernetes, and all
    /// servers that follow the source share their rollouts.
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HaltReaction {
    /// The clients get the earlier resources back at once.
    RollBack,
    /// The clients keep the change until a command of `xds rollout` continues or ends the rollout.
    Hold,
}

impl RolloutArgs {
    /// Returns the policy that --canary describes; `None` without it.
    pub(crate) fn canary(&self) -> Result<Option<RolloutPolicy>, PolicyError> {
        if self.canary.is_empty() {
            return Ok(None);
        }
        let steps =
            self.canary.iter().map(|it| RolloutStep::new(it.0.clone()).with_soak(self.soak));
        let on_halt = match self.on_halt {
            HaltReaction::RollBack => OnHalt::RollBack,
            HaltReaction::Hold => OnHalt::Hold,
        };
        let policy = RolloutPolicy::new(steps.collect::<Vec<_>>()).with_on_halt(on_halt);
        policy.validate()?;
        Ok(Some(policy))
    }
}

/// Clients of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Canary(Cohort);

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "expected a percentage such as 5%, or FIELD=PATTERN with id, cluster, region, zone, sub_zone \
     or metadata.PATH, such as id=canary-*"
)]
struct InvalidCanary;

impl FromStr for Canary {
    type Err = InvalidCanary;

    fn from_str(text: &str) -> Result<Self, InvalidCanary> {
        let Some((field, pattern)) = text.split_once('=') else {
            let share: Share = text.parse().map_err(|_| InvalidCanary)?;
            return Ok(Self(Cohort::of(share)));
        };
        let field = match field {
            "id" => NodeField::Id,
            "cluster" => NodeField::Cluster,
            "region" => NodeField::Region,
            "zone" => NodeField::Zone,
            "sub_zone" => NodeField::SubZone,
            other => {
                let path = other.strip_prefix("metadata.").filter(|it| !it.is_empty());
                NodeField::Metadata(path.ok_or(InvalidCanary)?.to_owned())
            }
        };
        match pattern.is_empty() {
            true => Err(InvalidCanary),
            false => Ok(Self(Cohort::selected([NodeCondition::new(field, [pattern])]))),
        }
    }
}

/// Show, stop and continue the rollouts of `xds serve --canary`.
///
/// STATE is the directory of `xds serve --state`, or the etcd:// address or kube:// that the
/// servers follow. A command is stored there. The servers execute it at once, or when they are
/// started again.
#[derive(Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    /// Show the current rollout or, if there is none, the last one.
    Status(RolloutStatusArgs),
    /// Pause the rollout at the current step. A rejection halts a paused rollout too.
    Pause(RolloutStateArgs),
    /// Resume a paused or halted rollout: its current step starts again.
    Resume(RolloutStateArgs),
    /// Roll back: all clients get the earlier resources.
    Abort(RolloutStateArgs),
    /// Serve the change to all clients now.
    Promote(RolloutStateArgs),
    /// List the rollouts that have ended.
    History(RolloutStatusArgs),
}

#[derive(Args, Debug)]
pub(crate) struct RolloutStateArgs {
    /// Directory of `xds serve --state`, or etcd://HOST:PORT[/PREFIX], or kube://.
    #[arg(value_name = "STATE")]
    pub(crate) state: SourceAddress,

    #[command(flatten)]
    pub(crate) etcd: EtcdArgs,

    #[command(flatten)]
    pub(crate) kube: KubeClusterArgs,
}

#[derive(Args, Debug)]
pub(crate) struct RolloutStatusArgs {
    #[command(flatten)]
    pub(crate) state: RolloutStateArgs,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: RolloutFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RolloutFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Ndjson,
}

impl RolloutCommand {
    /// Returns the place of the state.
    pub(crate) fn state(&self) -> &RolloutStateArgs {
        match self {
            Self::Pause(args) | Self::Resume(args) | Self::Abort(args) | Self::Promote(args) => {
                args
            }
            Self::Status(args) | Self::History(args) => &args.state,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canary_is_a_share_or_a_pattern_for_a_field() {
        let of = |text: &str| text.parse::<Canary>().map(|it| it.0);
        assert_eq!(of("5%"), Ok(Cohort::of(Share::percent(5))));
        let selected =
            |field, pattern| Ok(Cohort::selected([NodeCondition::new(field, [pattern])]));
        assert_eq!(of("id=canary-*"), selected(NodeField::Id, "canary-*"));
        assert_eq!(of("metadata.a.b=x"), selected(NodeField::Metadata("a.b".into()), "x"));
        for text in ["", "x", "101%", "id=", "=x", "metadata.=x", "zones=a"] {
            assert_eq!(of(text), Err(InvalidCanary), "{text}");
        }
    }
}
