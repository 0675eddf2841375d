//! Settings of one type.

use super::type_policies::{
    AbsenceDelay, AnswerOverdue, LegacyWildcard, Missing, NackDetection, NackRecovery,
    ReconnectTrust, Removals, SotwResponse, VersionMode, WildcardExit, Window,
};
use crate::types;

/// Settings for the resources of one type. The default is that of all types except listeners and
/// clusters; [`of`](Self::of) returns the default of a given type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeConfig {
    /// Content of a state-of-the-world response.
    pub sotw_response: SotwResponse,
    /// Meaning of an empty list of names before the first name.
    pub legacy_wildcard: LegacyWildcard,
    /// Form in which incremental responses report that a requested resource does not exist.
    pub absence: Absence,
    /// Names that subscribe to all resources of a directory.
    pub globs: Globs,
    /// Policy for clients that end their wildcard subscription.
    pub wildcard_exit: WildcardExit,
    /// Policy for names without a resource in the state-of-the-world variant.
    pub missing: Missing,
    /// Delay before an incremental response reports that a requested name does not exist.
    pub absence_delay: AbsenceDelay,
    /// Whether deletions are sent to incremental clients.
    pub removals: Removals,
    /// Whether the versions that a client states after a reconnect are trusted.
    pub reconnect_trust: ReconnectTrust,
    /// Source of the versions in responses.
    pub versions: VersionMode,
    /// Criterion that distinguishes a NACK from an ACK.
    pub nack_detection: NackDetection,
    /// Policy for the unchanged resources of a rejected response.
    pub nack_recovery: NackRecovery,
    /// Maximum number of responses that may wait for the client's answer.
    pub window: Window,
    /// Policy for clients that do not answer a response.
    pub answer_overdue: AnswerOverdue,
}

impl TypeConfig {
    /// Returns the default settings of the v3 API for a type.
    ///
    /// Listeners and clusters have full-state responses and the legacy wildcard. Other types do not
    /// have the legacy wildcard, because Envoy sends an empty first list of routes or endpoints
    /// that means none.
    // S0.112, S0.104, M32
    #[must_use]
    pub fn of(type_url: &str) -> Self {
        TypeDefaults::default().of(type_url)
    }
}

/// Settings of the types that the configuration does not list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeDefaults {
    /// Settings of listeners and clusters.
    pub full_state: TypeConfig,
    /// Settings of all other types.
    pub others: TypeConfig,
}

impl TypeDefaults {
    pub(super) fn of(&self, type_url: &str) -> TypeConfig {
        if types::is_full_state_in_sotw(type_url) { self.full_state } else { self.others }
    }
}

impl Default for TypeDefaults {
    /// The settings that [`TypeConfig::of`] returns.
    fn default() -> Self {
        let full_state = TypeConfig {
            sotw_response: SotwResponse::FullState,
            legacy_wildcard: LegacyWildcard::Honored,
            ..TypeConfig::default()
        };
        Self { full_state, others: TypeConfig::default() }
    }
}

/// Form in which incremental responses report a requested name without a resource. Deletions of
/// resources that were sent are always in `removed_resources`.
// X05
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Absence {
    /// A name in `removed_resources`.
    // M127
    #[default]
    RemovedName,
    /// A `Resource` with the name and without content, for clients of early editions of the
    /// protocol.
    // S0.196
    EmptyResource,
}

/// Names that are globs: subscriptions to all resources of a directory ([xDS TP1][TP1]).
///
/// [TP1]: https://github.com/cncf/xds/blob/main/proposals/TP1-xds-transport-next.md
// M35, TP1
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Globs {
    /// Names of the form `xdstp://authority/type/path/*`. They match names with the same context
    /// parameters.
    #[default]
    Xdstp,
    /// All names that end in `/*`.
    AnyName,
}
