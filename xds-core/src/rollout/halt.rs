//! Reason of a halt, with the clients and resources that caused it.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::fmt;

use crate::{
    id::StreamId,
    text::{ResourceName, TypeUrl},
};

/// Maximum number of clients that a reason lists.
const MOST_CULPRITS: usize = 100;
/// Number of clients and names in the text of a reason.
const SHOWN: usize = 3;

/// Client that contributed to a halt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HaltingClient {
    /// Stream of the client.
    pub stream: StreamId,
    /// Id of the client's node; empty if it has none.
    pub node_id: Arc<str>,
    /// Type of the resources, if known.
    pub type_url: Option<TypeUrl>,
    /// Resources of the rejected response that were new to the client.
    pub names: Vec<ResourceName>,
    /// Message of the client, or what is missing.
    pub reason: String,
}

/// Condition that was not fulfilled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HaltCause {
    /// Clients of the cohort rejected the candidate.
    Rejected,
    /// Warnings exceed what the policy tolerates.
    Warned,
    /// Clients did not acknowledge in time.
    TooSlow {
        /// Number of clients that have acknowledged.
        acknowledged: u32,
        /// Number of clients in the cohort.
        members: u32,
    },
    /// The cohort has too few connected clients.
    TooFewClients {
        /// Number of clients in the cohort.
        members: u32,
        /// Number that the policy requires.
        required: u32,
    },
    /// Other replicas have not reported the progress of their clients in time.
    SilentReplicas(
        /// Names of the replicas.
        Vec<Arc<str>>,
    ),
    /// Clients of the cohort have disconnected.
    Lost {
        /// Number of clients that are connected.
        left: u32,
        /// Largest number since the step began.
        of: u32,
    },
    /// A metric is bad.
    MetricBad {
        /// Name of the metric.
        metric: String,
        /// Reason that it reported.
        why: String,
    },
    /// Metrics have not reported in time.
    MetricSilent(
        /// Names of the metrics.
        Vec<String>,
    ),
    /// Command `abort`.
    Aborted,
    /// A newer change has taken the place of this one.
    Superseded,
    /// The rollout was halted by another replica for this reason.
    Elsewhere(
        /// Reason as it was stored.
        String,
    ),
}

/// Reason of a halt or rollback. Its text is one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HaltReason {
    /// Step in which it happened, from 0.
    pub step: usize,
    /// Condition that was not fulfilled.
    pub cause: HaltCause,
    /// Clients that caused it, in order; at most 100.
    pub culprits: HaltingClients,
}

/// List of clients of limited length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HaltingClients {
    listed: Vec<HaltingClient>,
    omitted: usize,
}

impl HaltingClients {
    pub(super) fn push(&mut self, culprit: HaltingClient) {
        match self.listed.len() < MOST_CULPRITS {
            true => self.listed.push(culprit),
            false => self.omitted += 1,
        }
    }

    /// Returns the clients, in order; at most 100.
    #[must_use]
    pub fn listed(&self) -> &[HaltingClient] {
        &self.listed
    }

    /// Number of clients that are not listed.
    #[must_use]
    pub fn omitted(&self) -> usize {
        self.omitted
    }

    /// Number of clients, each counted once by its node id.
    pub(super) fn clients(&self) -> u32 {
        let is_first = |(index, it): &(usize, &HaltingClient)| {
            let mut earlier = self.listed.iter().take(*index);
            !earlier.any(|other| match it.node_id.is_empty() {
                true => other.stream == it.stream,
                false => other.node_id == it.node_id,
            })
        };
        let listed = self.listed.iter().enumerate().filter(is_first).count();
        u32::try_from(listed + self.omitted).unwrap_or(u32::MAX)
    }
}

impl FromIterator<HaltingClient> for HaltingClients {
    fn from_iter<I: IntoIterator<Item = HaltingClient>>(culprits: I) -> Self {
        let mut all = Self::default();
        culprits.into_iter().for_each(|it| all.push(it));
        all
    }
}

impl fmt::Display for HaltingClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node_id.is_empty() {
            true => write!(f, "{}", self.stream)?,
            false => write!(f, "node {:?}", &*self.node_id)?,
        }
        if let Some(type_url) = &self.type_url {
            let short = type_url.as_str().rsplit_once('.').map_or(type_url.as_str(), |it| it.1);
            write!(f, ", {short}")?;
        }
        for name in self.names.iter().take(SHOWN) {
            write!(f, " `{name}`")?;
        }
        if let Some(more) = self.names.len().checked_sub(SHOWN).filter(|it| *it > 0) {
            write!(f, " and {more} more")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl fmt::Display for HaltCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected => f.write_str("clients rejected the change"),
            Self::Warned => f.write_str("too many warnings"),
            Self::TooSlow { acknowledged, members } => {
                write!(f, "{acknowledged} of {members} clients have acknowledged in time")
            }
            Self::TooFewClients { members, required } => {
                write!(f, "{members} connected clients are in the cohort, {required} are required")
            }
            Self::SilentReplicas(names) => {
                write!(f, "replicas have not reported in time: {}", names.join(", "))
            }
            Self::Lost { left, of } => write!(f, "{left} of {of} clients are still connected"),
            Self::MetricBad { metric, why } => write!(f, "metric `{metric}` is bad: {why}"),
            Self::MetricSilent(names) => {
                write!(f, "metrics have not reported in time: {}", names.join(", "))
            }
            Self::Aborted => f.write_str("aborted by a command"),
            Self::Superseded => f.write_str("superseded by a newer change"),
            Self::Elsewhere(why) => f.write_str(why),
        }
    }
}

impl fmt::Display for HaltReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, cause, culprits } = self;
        if let HaltCause::Elsewhere(why) = cause {
            return f.write_str(why);
        }
        write!(f, "step {}: {cause}", step + 1)?;
        for (index, culprit) in culprits.listed.iter().take(SHOWN).enumerate() {
            write!(f, "{}{culprit}", if index == 0 { " (" } else { "; " })?;
        }
        let more = (culprits.listed.len() + culprits.omitted).saturating_sub(SHOWN);
        if more > 0 {
            write!(f, "; and {more} more")?;
        }
        f.write_str(if culprits.listed.is_empty() { "" } else { ")" })
    }
}
