//! Differences between gRPC and Envoy in how requests match routes.

/// Rules by which the properties of a request are compared with the criteria of a route.
///
/// [`GRPC`](Self::GRPC) follows [gRFC A28], [`ENVOY`](Self::ENVOY) follows Envoy 1.40.
///
/// [gRFC A28]:
///     https://github.com/grpc/proposal/blob/master/A28-xds-traffic-splitting-and-routing.md
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MatchProfile {
    /// Treatment of the query string.
    pub query: QueryString,
    /// Headers that matchers see.
    pub headers: VisibleHeaders,
    /// Treatment of several values of one header.
    pub values: HeaderValues,
    /// Value of an absent `content-type`.
    pub content_type: Option<&'static str>,
}

impl MatchProfile {
    /// Rules of gRPC.
    // B13, X45
    pub const GRPC: Self = Self {
        query: QueryString::InPath,
        headers: VisibleHeaders::Metadata,
        values: HeaderValues::Joined,
        content_type: Some("application/grpc"),
    };

    /// Rules of Envoy.
    pub const ENVOY: Self = Self {
        query: QueryString::Separate,
        headers: VisibleHeaders::All,
        values: HeaderValues::Each,
        content_type: None,
    };

    /// Returns the part of a path that path matchers see.
    #[must_use]
    pub fn path<'a>(&self, path: &'a str) -> &'a str {
        self.split(path).0
    }

    /// Returns the query string of a path. Empty if there is none.
    #[must_use]
    pub fn query<'a>(&self, path: &'a str) -> &'a str {
        self.split(path).1
    }

    fn split<'a>(&self, path: &'a str) -> (&'a str, &'a str) {
        match self.query {
            QueryString::InPath => (path, ""),
            QueryString::Separate => path.split_once('?').unwrap_or((path, "")),
        }
    }
}

/// Treatment of the part of a path after a question mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueryString {
    /// Part of the path.
    InPath,
    /// Path matchers do not see it, and query matchers do.
    Separate,
}

/// Headers that matchers see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VisibleHeaders {
    /// All except binary headers (`-bin`) and pseudo-headers (`:path` etc.).
    Metadata,
    /// All.
    All,
}

impl VisibleHeaders {
    pub(super) fn includes(self, name: &str) -> bool {
        self == Self::All || !(name.ends_with("-bin") || name.starts_with(':'))
    }
}

/// Treatment of several values of one header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderValues {
    /// Tests see all values, joined by commas.
    Joined,
    /// Tests see one value at a time. The header matches if one of the values passes.
    Each,
}
