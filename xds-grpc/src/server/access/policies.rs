//! Ready-made authorizers, which compare the client certificate with patterns and with the node id.

use core::{fmt, future::ready};
use std::sync::Arc;

use thiserror::Error;
use xds_core::{ViewName, server::StatusCode};

use super::{
    authorize::{Admitted, AuthorizationDecision, AuthorizationRequest, Authorizer, Denied},
    peer::Peer,
};
use crate::runtime::BoxFuture;

/// Authorizer that admits clients whose certificate has an allowed subject alternative name (SAN).
///
/// A pattern with a colon applies to the URIs of the certificate, and any other one to its DNS
/// names. `*` stands for one or more characters of a path segment of a URI, or of a label of a DNS
/// name; it never matches `/` or `.`, respectively. DNS names are compared without regard to case.
///
/// | pattern | matches | does not match |
/// |---|---|---|
/// | `spiffe://mesh/ns/*/sa/envoy` | `spiffe://mesh/ns/a/sa/envoy` | `spiffe://mesh/ns/a/b/sa/envoy` |
/// | `envoy-*.example` | `envoy-1.example` | `envoy-1.a.example`, `envoy-.example` |
///
/// Other clients are refused with `PERMISSION_DENIED`. Admitted ones see the default view; to
/// select another view, or to check more, [combine](Authorizer::and) this authorizer with others:
///
/// ```
/// use xds_grpc::{
///     ServerOptions,
///     server::{AllowSans, AuthorizationDecision, AuthorizationRequest, Authorizer, NodeFromSan},
/// };
///
/// async fn view_of_the_zone(client: AuthorizationRequest) -> AuthorizationDecision {
///     Ok(if client.node_id.contains("/zone-b/") { "zone-b" } else { "zone-a" }.into())
/// }
///
/// # fn main() -> Result<(), xds_grpc::server::InvalidSanPattern> {
/// let policy = AllowSans::new(["spiffe://mesh/*/envoy"])?.and(NodeFromSan).and(view_of_the_zone);
/// let options = ServerOptions::default().with_authorizer(policy);
/// # drop(options);
/// # Ok(())
/// # }
/// ```
///
/// It requires [client certificates](crate::credentials::ClientCertificates). It is also an authorizer
/// of [client status](crate::csds::CsdsAuthorizer), which gives access to all clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowSans {
    patterns: Arc<[SanPattern]>,
}

/// Authorizer that admits clients whose node id is the identity in their certificate: its first
/// URI, or its first DNS name if it has no URI.
///
/// Other clients are refused with `PERMISSION_DENIED`, and a message that contains both. Admitted
/// ones see the default view. It can be [combined](Authorizer::and) with others, and requires
/// [client certificates](crate::credentials::ClientCertificates).
///
/// Without this authorizer, clients that report the same node id see the configuration of that
/// node, even if their certificates differ. Their streams are counted separately by the identity in
/// the certificate
/// ([`ServerLimits::streams_per_node`](xds_core::server::ServerLimits::streams_per_node)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeFromSan;

/// Authorizer that asks two others, as returned by [`Authorizer::and`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BothAuthorizers<A, B> {
    first: A,
    second: B,
}

/// Pattern of a subject alternative name that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidSanPattern {
    /// The pattern is empty.
    #[error("the pattern is empty")]
    Empty,
    /// The pattern contains `**`.
    #[error("{0:?} contains **: * stands for one path segment or label, or a part of it")]
    DoubleStar(String),
}

/// Pattern of URIs or of DNS names.
#[derive(Clone, PartialEq, Eq)]
struct SanPattern {
    text: Box<str>,
    kind: SanKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SanKind {
    Uri,
    Dns,
}

impl AllowSans {
    /// Allows names that match one of the patterns. Without patterns, no client is admitted.
    ///
    /// # Errors
    ///
    /// Returns an error if a pattern is empty or contains `**`.
    pub fn new<P: AsRef<str>>(
        patterns: impl IntoIterator<Item = P>,
    ) -> Result<Self, InvalidSanPattern> {
        let patterns = patterns.into_iter().map(|pattern| SanPattern::new(pattern.as_ref()));
        Ok(Self { patterns: patterns.collect::<Result<_, _>>()? })
    }

    /// Checks a client certificate.
    ///
    /// # Errors
    ///
    /// Returns the reason why the client is not admitted.
    pub fn check(&self, peer: &Peer) -> Result<(), Denied> {
        self.allows(peer).map_err(|why| Denied::new(StatusCode::PermissionDenied, why))
    }

    fn allows(&self, peer: &Peer) -> Result<(), String> {
        if peer.certificates.is_empty() {
            return Err("the client presented no certificate".into());
        }
        let (uris, dns_names) = (peer.uris(), peer.dns_names());
        let is_allowed = self.patterns.iter().any(|pattern| {
            let names = match pattern.kind {
                SanKind::Uri => &uris,
                SanKind::Dns => &dns_names,
            };
            names.iter().any(|name| pattern.matches(name))
        });
        if is_allowed {
            return Ok(());
        }
        let names = [uris, dns_names].concat();
        Err(match names.as_slice() {
            [] => "the client certificate has no URI and no DNS name".into(),
            names => format!("the names of the client certificate are not allowed: {names:?}"),
        })
    }
}

impl SanPattern {
    fn new(pattern: &str) -> Result<Self, InvalidSanPattern> {
        match pattern {
            "" => return Err(InvalidSanPattern::Empty),
            _ if pattern.contains("**") => {
                return Err(InvalidSanPattern::DoubleStar(pattern.into()));
            }
            _ => {}
        }
        // DNS names contain no colon, and URIs contain one after the scheme.
        Ok(match pattern.contains(':') {
            true => Self { text: pattern.into(), kind: SanKind::Uri },
            false => Self { text: pattern.to_ascii_lowercase().into(), kind: SanKind::Dns },
        })
    }

    fn matches(&self, name: &str) -> bool {
        match self.kind {
            SanKind::Uri => all_match(&self.text, name, '/'),
            SanKind::Dns => all_match(&self.text, &name.to_ascii_lowercase(), '.'),
        }
    }
}

/// Returns whether each part of a name matches the part of the pattern at its position.
fn all_match(pattern: &str, name: &str, separator: char) -> bool {
    let (mut patterns, mut parts) = (pattern.split(separator), name.split(separator));
    loop {
        match (patterns.next(), parts.next()) {
            (None, None) => return true,
            (Some(pattern), Some(part)) if part_matches(pattern, part) => {}
            _ => return false,
        }
    }
}

/// Returns whether a part without separators matches. `*` stands for one or more characters.
fn part_matches(pattern: &str, part: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == part };
    let Some(mut remaining) = part.strip_prefix(start) else { return false };
    let mut rest = rest.split('*').peekable();
    while let Some(literal) = rest.next() {
        // The asterisk stands for at least one character.
        let mut characters = remaining.chars();
        if characters.next().is_none() {
            return false;
        }
        let after = characters.as_str();
        if rest.peek().is_none() {
            return after.ends_with(literal);
        }
        // Matching the first occurrence leaves the most text for the next asterisk.
        let Some((_, next)) = after.split_once(literal) else { return false };
        remaining = next;
    }
    remaining.is_empty()
}

// Prints the pattern as text.
impl fmt::Debug for SanPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl NodeFromSan {
    fn allows(request: &AuthorizationRequest) -> Result<(), String> {
        let node_id = &*request.node_id;
        if request.peer.certificates.is_empty() {
            return Err(format!(
                "the node id is {node_id:?}, but the client presented no certificate"
            ));
        }
        match request.peer.identity() {
            Some(identity) if identity == node_id => Ok(()),
            Some(identity) => Err(format!(
                "the node id is {node_id:?}, but the client certificate is for {identity:?}"
            )),
            None => Err(format!(
                "the node id is {node_id:?}, but the client certificate has no URI and no DNS name"
            )),
        }
    }
}

impl Authorizer for AllowSans {
    fn authorize(&self, request: AuthorizationRequest) -> BoxFuture<'_, AuthorizationDecision> {
        Box::pin(ready(decision(self.allows(&request.peer))))
    }
}

impl Authorizer for NodeFromSan {
    fn authorize(&self, request: AuthorizationRequest) -> BoxFuture<'_, AuthorizationDecision> {
        Box::pin(ready(decision(Self::allows(&request))))
    }
}

fn decision(allowed: Result<(), String>) -> AuthorizationDecision {
    match allowed {
        Ok(()) => Ok(Admitted::to(ViewName::default())),
        Err(why) => Err(Denied::new(StatusCode::PermissionDenied, why)),
    }
}

impl<A, B> BothAuthorizers<A, B> {
    pub(crate) const fn new(first: A, second: B) -> Self {
        Self { first, second }
    }
}

impl<A: Authorizer, B: Authorizer> Authorizer for BothAuthorizers<A, B> {
    fn authorize(&self, request: AuthorizationRequest) -> BoxFuture<'_, AuthorizationDecision> {
        Box::pin(async move {
            self.first.authorize(request.clone()).await?;
            self.second.authorize(request).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_matches_within_a_label_or_path_segment() {
        for (pattern, name, expected) in [
            ("node-1", "node-1", true),
            ("Node-1.Example", "node-1.EXAMPLE", true),
            ("node-*", "node-12", true),
            ("node-*", "node-", false),
            ("node-*", "node-1.example", false),
            ("*.example", "a.example", true),
            ("*.example", "a.b.example", false),
            ("*.example", "example", false),
            ("*.example", ".example", false),
            ("*-a-*.example", "x-a-a-y.example", true),
            ("*-a-*.example", "x-a-.example", false),
            ("a*a", "a", false),
            ("a*a", "aa", false),
            ("a*a", "aba", true),
            ("a*b*c", "axbxbxc", true),
            ("*", "ünï", true),
            ("spiffe://mesh/*/envoy", "spiffe://mesh/a/envoy", true),
            ("spiffe://mesh/*/envoy", "spiffe://mesh/a/b/envoy", false),
            ("spiffe://mesh/*/envoy", "spiffe://mesh//envoy", false),
            ("spiffe://mesh/*/envoy", "spiffe://Mesh/a/envoy", false),
            ("spiffe://mesh/*", "spiffe://mesh/a.b", true),
            ("spiffe://*/envoy", "spiffe://mesh/envoy", true),
            ("spiffe://mesh/envoy", "spiffe://mesh/envoy/", false),
        ] {
            let matches = SanPattern::new(pattern).unwrap().matches(name);
            assert_eq!(matches, expected, "{pattern} {name}");
        }
        assert_eq!(AllowSans::new([""]), Err(InvalidSanPattern::Empty));
        let why = AllowSans::new(["a", "spiffe://mesh/**"]).unwrap_err();
        assert!(why.to_string().starts_with("\"spiffe://mesh/**\" contains **"), "{why}");
    }
}
