//! Configurations for the clients that a server mostly has, and for those who come from another server.

use super::{
    AbsenceGrace, AnswerOverdue, LegacyWildcard, Missing, NackRecovery, NodeChanged,
    ReconnectTrust, Removals, RequireNode, ServerConfig, SotwResponse, TypeConfig, VersionMode,
    Warming, WildcardExit,
};
use crate::types;

/// # Presets
///
/// Each differs from the default in what the table says; everything else is as the default has it, and can
/// be changed in the result.
///
/// | | default | [`envoy`](Self::envoy) | [`grpc`](Self::grpc) | [`strict_spec`](Self::strict_spec) | [`go_control_plane_like`](Self::go_control_plane_like) |
/// |---|---|---|---|---|---|
/// | no node, or another one later (M4, M3) | closed; ignored | | | closed; closed | served; ignored |
/// | empty first list of names (M22, M32) | everything, for listeners and clusters | | nothing | | everything, for all types |
/// | wildcard dropped (M93) | told what goes with it | | | nothing | |
/// | names that do not exist, state of the world | held; 4 s in full state | | `NOT_FOUND` | | held |
/// | names that do not exist, incremental (M127) | told | | | | never told |
/// | deletions, incremental (M133) | told | not for extension configurations | | | |
/// | responses of other types than listeners and clusters (M75) | changes | | | | everything, absence included |
/// | returning client with the current version (M41, M42) | not answered, for everything in full state | | | | not answered |
/// | rejected resources, unchanged (M107) | ride along once | | | never again | never again |
/// | endpoints after clusters (M151) | sent again | | not sent again | | not sent again |
/// | versions of types (M69, M72) | made of content | | | | the application's, where it gives any |
/// | no answer from the client (M65) | observed after 30 s | | | | waited for |
impl ServerConfig {
    /// For proxies: they warm clusters, reject responses whole, and must not lose an extension
    /// configuration while a filter refers to it.
    #[must_use]
    pub fn envoy() -> Self {
        let mut extensions = TypeConfig::of(types::EXTENSION_CONFIG);
        extensions.removals = Removals::Suppress;
        Self::default().with_type(types::EXTENSION_CONFIG, extensions)
    }

    /// For gRPC clients: they name what they want, never mean everything by an empty list, warm nothing, and
    /// need not wait 15 seconds to learn that something does not exist if they read errors of single
    /// resources (TP3); those that do not read them are no worse off.
    #[must_use]
    pub fn grpc() -> Self {
        let config = Self { warming: Warming::Off, ..Self::default() };
        config.with_every_type(|it| {
            it.legacy_wildcard = LegacyWildcard::Ignored;
            it.missing = Missing::NotFound;
        })
    }

    /// Nothing that the specification does not ask for, and no leniency: for tests of clients.
    #[must_use]
    pub fn strict_spec() -> Self {
        let config = Self { node_changed: NodeChanged::Closed, ..Self::default() };
        config.with_every_type(|it| {
            it.wildcard_exit = WildcardExit::Silent;
            it.nack_recovery = NackRecovery::Minimal;
        })
    }

    /// For those who come from go-control-plane's snapshot cache with clients made for its answers. It is
    /// followed where a client may depend on it, not where it violates the protocol: a rejected response
    /// is not sent again and again, a name comes once however often it is covered, what a client asks
    /// for again it is sent, a request for a part of what there is is answered, and so is one that has an
    /// empty nonce; one with a made-up nonce is not. Since the cache may give a version to any resources, a client that
    /// comes back with one is not taken at its word: as with [`VersionMode::Label`].
    #[must_use]
    pub fn go_control_plane_like() -> Self {
        let config =
            Self { require_node: RequireNode::Optional, warming: Warming::Off, ..Self::default() };
        config.with_every_type(|it| {
            it.sotw_response = SotwResponse::FullState;
            it.legacy_wildcard = LegacyWildcard::Honored;
            it.missing = Missing::Hold;
            it.absence_grace = AbsenceGrace::Never;
            it.reconnect_trust = ReconnectTrust::SameNames;
            it.nack_recovery = NackRecovery::Minimal;
            it.answer_overdue = AnswerOverdue::Wait;
            it.versions = VersionMode::Label;
        })
    }
}
