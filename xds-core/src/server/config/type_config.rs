//! How the resources of one type are served.

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
}

impl TypeConfig {
    /// The rules of the v3 API: listeners and clusters are full state (S0.112) and know the legacy
    /// wildcard (S0.104); all other types do not, since proxies send an empty first list of routes
    /// or endpoints that means "none" (M32).
    #[must_use]
    pub fn of(type_url: &str) -> Self {
        if types::is_full_state_in_sotw(type_url) {
            Self {
                sotw_response: SotwResponse::FullState,
                legacy_wildcard: LegacyWildcard::Honored,
                absence: Absence::default(),
                globs: Globs::Xdstp,
            }
        } else {
            Self {
                sotw_response: SotwResponse::Changes,
                legacy_wildcard: LegacyWildcard::Ignored,
                absence: Absence::default(),
                globs: Globs::Xdstp,
            }
        }
    }
}

/// What a state-of-the-world response of a type stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SotwResponse {
    /// Every subscribed resource that exists; absence is deletion (S0.112, M74, M76).
    FullState,
    /// The resources that are new to the client or changed; deletion is silent (S0.111, M75, M77).
    Changes,
}

/// What an empty list of names means while no request of the type on the stream has named any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LegacyWildcard {
    /// A subscription to everything (M22).
    Honored,
    /// A subscription to nothing (M32); the name `*` still subscribes to everything.
    Ignored,
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
