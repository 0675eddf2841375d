//! Decision about a call that a server receives.

use alloc::string::String;

use thiserror::Error;
use xds_core::{ResourceName, StatusCode};

use super::configuration::ServerRoutes;
use crate::{
    Call, Random,
    connection::Connection,
    dependencies::DependencyError,
    filters::{AccessDenied, FilterConfig, RbacRequest},
    listener::FilterChain,
    pattern::Headers,
    route::{Action, NoRoute},
};

/// Call that a server receives.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct IncomingCall<'a, H: ?Sized> {
    /// Authority (`:authority`, or `host` without it), which selects the virtual host.
    pub authority: &'a str,
    /// HTTP method, which is `POST` in gRPC.
    pub method: &'a str,
    /// Path of the call, `/package.Service/Method`.
    pub path: &'a str,
    /// Headers of the request without pseudo-headers.
    pub headers: &'a H,
}

impl<'a, H: Headers + ?Sized> IncomingCall<'a, H> {
    /// Creates a call with the method `POST`.
    #[must_use]
    pub const fn new(authority: &'a str, path: &'a str, headers: &'a H) -> Self {
        Self { authority, method: "POST", path, headers }
    }

    /// Sets the HTTP method.
    #[must_use]
    pub const fn with_method(self, method: &'a str) -> Self {
        Self { method, ..self }
    }
}

/// Reason why a call does not reach the services of a server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CallRefused {
    /// The route configuration of the filter chain cannot be obtained.
    #[error("no routes: {0}")]
    NoRoutes(DependencyError),
    /// The route configuration of the filter chain is not among those of the server: a bug of the
    /// caller.
    #[error("the routes are not those of the filter chain")]
    OtherRoutes,
    /// No virtual host matches the authority of the call.
    #[error("no virtual host of route configuration `{routes}` matches `{authority}`")]
    NoVirtualHost {
        /// Name of the route configuration, which may be empty.
        routes: ResourceName,
        /// Authority of the call.
        authority: String,
    },
    /// No route matches the call.
    #[error(transparent)]
    NoRoute(#[from] NoRoute),
    /// The action of the matching route is not `non_forwarding_action`.
    #[error("the matching route is not for servers")]
    NotForServers,
    /// An RBAC filter denies the call.
    #[error("{}", AccessDenied::MESSAGE)]
    Denied(AccessDenied),
}

impl CallRefused {
    /// Returns the gRPC status code of the call. The status message is the text of the error.
    #[must_use]
    pub const fn code(&self) -> StatusCode {
        match self {
            Self::Denied(denied) => denied.code(),
            Self::OtherRoutes => StatusCode::Internal,
            Self::NoRoutes(_)
            | Self::NoVirtualHost { .. }
            | Self::NoRoute(_)
            | Self::NotForServers => StatusCode::Unavailable,
        }
    }
}

impl ServerRoutes {
    /// Decides whether a call on a connection reaches the services: it needs a route, and each RBAC
    /// filter must allow it.
    ///
    /// # Errors
    ///
    /// Returns the reason for the status of the call.
    pub fn admit<H: Headers + ?Sized>(
        &self,
        chain: &FilterChain,
        connection: &Connection,
        call: &IncomingCall<'_, H>,
        random: &mut Random,
    ) -> Result<(), CallRefused> {
        let routes = match self.of(&chain.http) {
            Some(Ok(routes)) => routes,
            Some(Err(error)) => return Err(CallRefused::NoRoutes(error.clone())),
            None => return Err(CallRefused::OtherRoutes),
        };
        let host =
            routes.virtual_host(call.authority).ok_or_else(|| CallRefused::NoVirtualHost {
                routes: routes.name().clone(),
                authority: call.authority.into(),
            })?;
        let route = host.find(&Call::new(call.path, call.headers), random)?;
        if !matches!(route.action, Action::NonForwarding) {
            return Err(CallRefused::NotForServers);
        }
        let request = RbacRequest::new(call.path, Some(call.authority), call.headers, connection)
            .with_method(call.method);
        let overrides = [&route.overrides, host.overrides(), routes.overrides()];
        for filter in &chain.http.filters {
            if let FilterConfig::Rbac(rbac) = filter.effective(overrides) {
                rbac.decide(&request).map_err(CallRefused::Denied)?;
            }
        }
        Ok(())
    }
}
