//! Policies, and the decision about a request.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use thiserror::Error;
use xds_core::StatusCode;

use super::{condition::AccessCondition, request::RbacRequest};
use crate::pattern::Headers;

/// Access rules of an RBAC filter: policies by name, in the order in which they are evaluated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rbac {
    /// Allows all requests: there are no rules, or their action is `LOG`, which gRPC ignores.
    #[default]
    Disabled,
    /// Allows the requests that match a policy, and denies all others.
    Allow(BTreeMap<String, AccessPolicy>),
    /// Denies the requests that match a policy, and allows all others.
    Deny(BTreeMap<String, AccessPolicy>),
}

/// Policy of an RBAC filter. It matches a request if a permission and a principal match.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessPolicy {
    /// Conditions for the requested operation. Never empty.
    pub permissions: Vec<AccessCondition>,
    /// Conditions for the client. Never empty.
    pub principals: Vec<AccessCondition>,
}

/// Denial of a request. The text names the policy, so it is for the log of the server. The client
/// gets [`MESSAGE`](Self::MESSAGE).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AccessDenied {
    /// The policy with this name denies the request.
    #[error("denied by the RBAC policy `{0}`")]
    ByPolicy(String),
    /// No policy allows the request.
    #[error("not allowed by any RBAC policy")]
    NotAllowed,
}

impl AccessDenied {
    /// Status message for the client. It does not reveal the rules.
    pub const MESSAGE: &'static str = "unauthorized RPC rejected";

    /// Returns the gRPC status code for the client, `PermissionDenied`.
    #[must_use]
    pub const fn code(&self) -> StatusCode {
        StatusCode::PermissionDenied
    }
}

impl Rbac {
    /// Decides whether a request may proceed.
    ///
    /// # Errors
    ///
    /// Returns the reason if the request is denied.
    pub fn decide<H: Headers + ?Sized>(
        &self,
        request: &RbacRequest<'_, H>,
    ) -> Result<(), AccessDenied> {
        match self {
            Self::Disabled => Ok(()),
            Self::Allow(policies) => match matching(policies, request) {
                Some(_) => Ok(()),
                None => Err(AccessDenied::NotAllowed),
            },
            Self::Deny(policies) => match matching(policies, request) {
                Some(name) => Err(AccessDenied::ByPolicy(name.into())),
                None => Ok(()),
            },
        }
    }
}

/// Returns the name of the first policy that matches.
fn matching<'a, H: Headers + ?Sized>(
    policies: &'a BTreeMap<String, AccessPolicy>,
    request: &RbacRequest<'_, H>,
) -> Option<&'a str> {
    let mut policies = policies.iter();
    policies.find(|(_, policy)| policy.matches(request)).map(|(name, _)| name.as_str())
}

impl AccessPolicy {
    fn matches<H: Headers + ?Sized>(&self, request: &RbacRequest<'_, H>) -> bool {
        let any = |conditions: &[AccessCondition]| conditions.iter().any(|it| it.matches(request));
        any(&self.permissions) && any(&self.principals)
    }
}
