//! Conditions for requests and clients.

use alloc::{boxed::Box, string::String, vec::Vec};
use core::ops::Range;

use super::request::RbacRequest;
use crate::{
    connection::ConnectionSecurity,
    pattern::{
        CidrRange, HeaderMatcher, HeaderValues, Headers, MatchProfile, QueryString, StringMatcher,
        VisibleHeaders,
    },
};

/// Condition for a request or its client: a permission or a principal of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessCondition {
    /// All conditions match. Never empty.
    And(Vec<Self>),
    /// At least one condition matches. Never empty.
    Or(Vec<Self>),
    /// The condition does not match.
    Not(Box<Self>),
    /// Matches every request or none. Conditions for values that gRPC lacks are constant: dynamic
    /// metadata is absent, and the requested server name is empty.
    Constant(bool),
    /// A header or a pseudo-header matches.
    Header(HeaderMatcher),
    /// The path matches.
    Path(StringMatcher),
    /// The range contains the address of the server.
    ServerAddress(CidrRange),
    /// The range contains the port of the server.
    ServerPort(Range<u32>),
    /// The range contains the address of the client.
    ClientAddress(CidrRange),
    /// The connection has TLS and, if there is a matcher, the name of the client matches: any of
    /// the URIs in its certificate, or any of the DNS names if there is no URI, or the subject if
    /// there is neither. Without a certificate the name is empty.
    Authenticated(Option<StringMatcher>),
}

/// Header matchers of RBAC see pseudo-headers, binary headers in base64, and only the content type
/// that the client sent.
const PROFILE: MatchProfile = MatchProfile {
    query: QueryString::InPath,
    headers: VisibleHeaders::All,
    values: HeaderValues::Joined,
    content_type: None,
};

impl AccessCondition {
    /// Whether a request matches. Validation limits the depth of the recursion.
    pub(super) fn matches<H: Headers + ?Sized>(&self, request: &RbacRequest<'_, H>) -> bool {
        let connection = request.connection;
        match self {
            Self::And(all) => all.iter().all(|it| it.matches(request)),
            Self::Or(any) => any.iter().any(|it| it.matches(request)),
            Self::Not(inverted) => !inverted.matches(request),
            Self::Constant(result) => *result,
            Self::Header(header) => header.matches_by(&PROFILE, request),
            Self::Path(path) => path.matches(request.path),
            Self::ServerAddress(range) => range.contains(connection.local.ip()),
            Self::ServerPort(ports) => ports.contains(&connection.local.port().into()),
            Self::ClientAddress(range) => range.contains(connection.remote.ip()),
            Self::Authenticated(name) => is_authenticated(name.as_ref(), &connection.security),
        }
    }
}

fn is_authenticated(name: Option<&StringMatcher>, security: &ConnectionSecurity) -> bool {
    let matches = |text: &str| name.is_none_or(|name| name.matches(text));
    let any = |names: &[String]| names.iter().any(|name| matches(name));
    match security {
        ConnectionSecurity::Plaintext => false,
        ConnectionSecurity::Tls => matches(""),
        ConnectionSecurity::MutualTls(client) if !client.uris.is_empty() => any(&client.uris),
        ConnectionSecurity::MutualTls(client) if !client.dns_names.is_empty() => {
            any(&client.dns_names)
        }
        ConnectionSecurity::MutualTls(client) => matches(&client.subject),
    }
}
