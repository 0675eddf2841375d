//! How the resources of one type are served.

use super::type_policies::{
    AbsenceGrace, AnswerOverdue, LegacyWildcard, Missing, NackDetection, NackRecovery,
    ReconnectTrust, Removals, SotwResponse, VersionMode, WildcardExit, Window,
};
use crate::types;

/// How the resources of one type are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeConfig {
    /// What a state-of-the-world response of the type stands for.
    pub sotw_response: SotwResponse,
    /// What an empty list of names means before the first name.
    pub legacy_wildcard: LegacyWildcard,
    /// How an incremental client is told that what it asks for does not exist.
    pub absence: Absence,
    /// Which names stand for all those below them.
    pub globs: Globs,
    /// What becomes of a subscription to everything that the client ends.
    pub wildcard_exit: WildcardExit,
    /// What a state-of-the-world client is told of names that do not exist.
    pub missing: Missing,
    /// When an incremental client is told that a name does not exist.
    pub absence_grace: AbsenceGrace,
    /// Whether an incremental client is told of deletions.
    pub removals: Removals,
    /// Whether a client's word on what it holds is taken after a reconnect.
    pub reconnect_trust: ReconnectTrust,
    /// What versions are made of.
    pub versions: VersionMode,
    /// How a NACK is told from an ACK.
    pub nack_detection: NackDetection,
    /// What happens to the unchanged resources of a rejected response.
    pub nack_recovery: NackRecovery,
    /// How many responses may wait for the client's answer.
    pub window: Window,
    /// What becomes of a client that does not answer a response.
    pub answer_overdue: AnswerOverdue,
}

impl TypeConfig {
    /// The rules of the v3 API: listeners and clusters are full state (S0.112) and know the legacy
    /// wildcard (S0.104); all other types do not, since proxies send an empty first list of routes
    /// or endpoints that means "none" (M32).
    #[must_use]
    pub fn of(type_url: &str) -> Self {
        let defaults = TypeDefaults::default();
        if types::is_full_state_in_sotw(type_url) { defaults.full_state } else { defaults.others }
    }
}

/// How types are served that the configuration does not list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeDefaults {
    /// Listeners and clusters.
    pub full_state: TypeConfig,
    /// All other types.
    pub others: TypeConfig,
}

impl Default for TypeDefaults {
    /// What [`TypeConfig::of`] gives.
    fn default() -> Self {
        let others = TypeConfig {
            sotw_response: SotwResponse::Changes,
            legacy_wildcard: LegacyWildcard::Ignored,
            wildcard_exit: WildcardExit::default(),
            missing: Missing::default(),
            absence: Absence::default(),
            globs: Globs::default(),
            absence_grace: AbsenceGrace::default(),
            removals: Removals::default(),
            reconnect_trust: ReconnectTrust::default(),
            versions: VersionMode::default(),
            nack_detection: NackDetection::default(),
            nack_recovery: NackRecovery::default(),
            window: Window::default(),
            answer_overdue: AnswerOverdue::default(),
        };
        let full_state = TypeConfig {
            sotw_response: SotwResponse::FullState,
            legacy_wildcard: LegacyWildcard::Honored,
            ..others
        };
        Self { full_state, others }
    }
}

/// How an incremental client is told that a name it subscribes to has no resource (X05). What it was sent
/// and is deleted later is a removed name in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Absence {
    /// By the name, among the removed ones (M127).
    #[default]
    RemovedName,
    /// By a `Resource` that has the name and nothing in it, for clients that know only an early edition of
    /// the protocol (S0.196).
    EmptyResource,
}

/// Which names are globs: subscriptions to all that lies below a directory (M35, TP1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Globs {
    /// Those of the form `xdstp://authority/type/path/*`. They stand for names with the same context
    /// parameters.
    #[default]
    Xdstp,
    /// All that end in `/*`.
    AnyName,
}
