//! Criteria that only proxies read, and the criterion that a call does not meet.

use alloc::vec::Vec;

use crate::{
    matching::Call,
    pattern::{Headers, MatchProfile, QueryMatcher},
};

/// Criterion of a route that a call does not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mismatch {
    /// Path.
    Path,
    /// Header matcher with this index.
    Header(usize),
    /// The route is for CONNECT requests.
    NotConnect,
    /// Query parameter with this index.
    QueryParameter(usize),
    /// The route is for gRPC requests.
    NotGrpc,
    /// The route requires a client certificate. Requests are assumed to have none.
    ClientCertificate,
    /// Criterion that depends on more than the request. It is assumed not to be met.
    NotEvaluated(NotEvaluated),
    /// Fraction of the calls.
    Fraction,
}

/// Criterion that depends on more than the request: on filters or on extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotEvaluated {
    /// Path matched by an extension (`path_match_policy`), or absent path.
    PathPolicy,
    /// Dynamic metadata.
    DynamicMetadata,
    /// Filter state.
    FilterState,
    /// Cookies.
    Cookies,
}

/// Criteria that only proxies read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyCriteria {
    /// Whether the route is for CONNECT requests, of any path.
    pub connect: bool,
    /// Query parameters, all of which must match.
    pub query: Vec<QueryMatcher>,
    /// Whether the route is for gRPC requests only.
    pub grpc: bool,
    /// Whether the route requires a client certificate.
    pub client_certificate: bool,
    /// Criterion that is not evaluated, so that no request matches.
    pub not_evaluated: Option<NotEvaluated>,
    /// Fraction of the requests as numerator and denominator.
    pub draw: Option<(u32, u32)>,
}

impl ProxyCriteria {
    /// Returns the first criterion that a request does not meet, except the fraction.
    pub(super) fn mismatch<H: Headers + ?Sized>(
        &self,
        profile: &MatchProfile,
        call: &Call<'_, H>,
    ) -> Option<Mismatch> {
        let is = |name, test: &dyn Fn(&str) -> bool| {
            call.headers.value(name).is_some_and(|value| test(&value))
        };
        if self.connect && !is(":method", &|method| method == "CONNECT") {
            return Some(Mismatch::NotConnect);
        }
        // Only routes for CONNECT requests match requests without a path.
        if !self.connect && call.path.is_empty() {
            return Some(Mismatch::Path);
        }
        if self.grpc && !is("content-type", &is_grpc) {
            return Some(Mismatch::NotGrpc);
        }
        let query = profile.query(call.path);
        if let Some(parameter) = self.query.iter().position(|it| !it.matches(query)) {
            return Some(Mismatch::QueryParameter(parameter));
        }
        if self.client_certificate {
            return Some(Mismatch::ClientCertificate);
        }
        self.not_evaluated.map(Mismatch::NotEvaluated)
    }
}

/// Whether a content type is gRPC's: `application/grpc`, alone or followed by `+`.
fn is_grpc(content_type: &str) -> bool {
    let rest = content_type.strip_prefix("application/grpc");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('+'))
}
