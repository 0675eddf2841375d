//! Options of a run.

use std::fmt;

use crate::tape::Choices;

/// Options of a run, drawn from its choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicaOptions {
    /// Number of replicas.
    pub replicas: u32,
    /// Number of clients.
    pub clients: u32,
    /// Number of random operations.
    pub operations: u32,
    /// Whether replicas confirm their revision for each stream.
    pub confirms: bool,
    /// Whether requests are held until a replica is ready, instead of refusing streams.
    pub holds_until_ready: bool,
    /// Maximum delay of a change on its way to a replica, in milliseconds.
    pub lag_ms: u32,
    /// Whether members of the source may return an older list than another one did.
    pub members_lag: bool,
}

impl ReplicaOptions {
    pub(super) fn draw(choices: &mut Choices) -> Self {
        Self {
            replicas: choices.between("replicas", 2, 3),
            clients: choices.between("clients", 1, 3),
            operations: choices.between("operations", 1, 40),
            confirms: !choices.chance("unconfirmed", 250),
            holds_until_ready: choices.chance("holds until ready", 300),
            lag_ms: choices.pick("lag", &[5, 50, 1_000, 9_000]),
            members_lag: choices.chance("members lag", 400),
        }
    }
}

impl fmt::Display for ReplicaOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            replicas,
            clients,
            operations,
            confirms,
            holds_until_ready,
            lag_ms,
            members_lag,
        } = self;
        write!(
            f,
            "replicas={replicas} clients={clients} operations={operations} confirms={confirms} \
             holds_until_ready={holds_until_ready} lag={lag_ms}ms members_lag={members_lag}"
        )
    }
}
