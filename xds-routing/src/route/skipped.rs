//! Routes that no call uses.

/// Route that no call uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedRoute {
    /// Index of the route in the resource.
    pub route: usize,
    /// Reason for skipping it.
    pub why: SkipReason,
}

/// Reason for skipping a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// The route matches query parameters, which gRPC calls do not have.
    // S2.090
    QueryParameters,
    /// The route is otherwise invalid, but cannot match any gRPC path (`/service/method`).
    Path,
    /// The cluster is named by a header.
    // S2.099
    ClusterHeader,
    /// The cluster specifier is absent or unknown.
    // X31
    UnknownClusterSpecifier,
    /// The cluster is chosen by an optional plugin that is not supported.
    OptionalPlugin,
}
