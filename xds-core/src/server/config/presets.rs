//! Configurations for common kinds of clients.

use super::{
    AbsenceDelay, AnswerOverdue, LegacyWildcard, Missing, NackRecovery, NodeChanged,
    ReconnectTrust, Removals, RequireNode, ServerConfig, SotwResponse, TypeConfig, VersionMode,
    Warming, WildcardExit,
};
use crate::types;

/// # Presets
///
/// Each preset differs from the default only as the table says, and can be changed further.
///
/// | | default | [`envoy`] | [`grpc`] | [`strict_spec`] | [go-control-plane] |
/// |---|---|---|---|---|---|
/// | first request without node | close | | | close | serve |
/// | changed node | ignore | | | close | ignore |
/// | empty first list of names | wildcard for LDS, CDS | | nothing | | wildcard |
/// | client ends its wildcard | send removed names | | | nothing | |
/// | missing names, SotW | hold; LDS, CDS 4 s | | `NOT_FOUND` | | hold |
/// | missing names, incremental | removed at once | | | | never reported |
/// | deletions, incremental | sent | except ECDS | | | |
/// | SotW responses except LDS, CDS | changes | | | | full state |
/// | reconnect with current version | skip full-state wildcard | | | | skip |
/// | rest of a rejected response | sent once more | | | not sent | not sent |
/// | endpoints after clusters | sent again | | not sent | | not sent |
/// | type versions | digest of content | | | | set by application |
/// | unanswered response | report after 30 s | | | | wait |
///
/// [`envoy`]: Self::envoy
/// [`grpc`]: Self::grpc
/// [`strict_spec`]: Self::strict_spec
/// [go-control-plane]: Self::go_control_plane_like
// M4, M3; M22, M32; M93; M127; M133; M75; M41, M42; M107; M151; M69, M72; M65
impl ServerConfig {
    /// Settings for Envoy, which warms clusters, rejects whole responses, and must not lose an
    /// extension configuration that a filter refers to.
    #[must_use]
    pub fn envoy() -> Self {
        let mut extensions = TypeConfig::of(types::EXTENSION_CONFIG);
        extensions.removals = Removals::Suppress;
        Self::default().with_type(types::EXTENSION_CONFIG, extensions)
    }

    /// Settings for gRPC clients, which subscribe by name, never mean the wildcard by an empty
    /// list, and do not warm clusters. Clients that support resource errors ([gRFC A88][A88]) learn
    /// of a missing resource without waiting for the does-not-exist timer; other clients ignore
    /// these errors.
    ///
    /// [A88]: https://github.com/grpc/proposal/blob/master/A88-xds-data-error-handling.md
    // TP3
    #[must_use]
    pub fn grpc() -> Self {
        let config = Self { warming: Warming::Off, ..Self::default() };
        config.with_every_type(|it| {
            it.legacy_wildcard = LegacyWildcard::Ignored;
            it.missing = Missing::NotFound;
        })
    }

    /// Settings that do no more than the specification requires and tolerate no faults, for testing
    /// clients.
    #[must_use]
    pub fn strict_spec() -> Self {
        let config = Self { node_changed: NodeChanged::Close, ..Self::default() };
        config.with_every_type(|it| {
            it.wildcard_exit = WildcardExit::Silent;
            it.nack_recovery = NackRecovery::Minimal;
        })
    }

    /// Settings for clients made for go-control-plane's snapshot cache.
    ///
    /// They reproduce its behavior where a client may depend on it, except where it violates the
    /// protocol: rejected responses are not sent repeatedly, a name that is covered twice is sent
    /// once, a resource that is requested again is sent again, and requests for a part of the
    /// resources or with an empty nonce are answered. A request with an unknown nonce is not.
    /// Because the cache may assign any version to any resources, the version that a reconnecting
    /// client states is not trusted ([`VersionMode::Label`]).
    #[must_use]
    pub fn go_control_plane_like() -> Self {
        let config =
            Self { require_node: RequireNode::Optional, warming: Warming::Off, ..Self::default() };
        config.with_every_type(|it| {
            it.sotw_response = SotwResponse::FullState;
            it.legacy_wildcard = LegacyWildcard::Honored;
            it.missing = Missing::Hold;
            it.absence_delay = AbsenceDelay::Never;
            it.reconnect_trust = ReconnectTrust::SameNames;
            it.nack_recovery = NackRecovery::Minimal;
            it.answer_overdue = AnswerOverdue::Wait;
            it.versions = VersionMode::Label;
        })
    }
}
