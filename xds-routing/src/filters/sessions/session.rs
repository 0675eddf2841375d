//! Session of a call.

use alloc::{
    format,
    string::{String, ToString as _},
    sync::Arc,
};
use core::fmt::Write as _;

use base64::Engine as _;
use xds_core::ResourceName;

use super::cookie::{BASE64, SessionCookie};

/// Session of a call: the endpoint that the cookie of the request names, if it has one, and the
/// cookie for the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    cookie: Arc<SessionCookie>,
    /// Addresses in the cookie of the request, separated by commas. Empty without a cookie.
    addresses: String,
    /// Cluster of the call.
    cluster: ResourceName,
    /// Cluster in the cookie of the request. May be empty.
    stated_cluster: String,
}

impl Session {
    /// Reads the cookie of a request whose routing has chosen `cluster`.
    pub(crate) fn of_request(
        cookie: &Arc<SessionCookie>,
        cookies: Option<&str>,
        cluster: &ResourceName,
    ) -> Self {
        let value = cookies.and_then(|cookies| cookie.read(cookies)).unwrap_or_default();
        let (addresses, stated_cluster) = value.split_once(';').unwrap_or((&value, ""));
        Self {
            cookie: Arc::clone(cookie),
            addresses: addresses.into(),
            cluster: cluster.clone(),
            stated_cluster: stated_cluster.into(),
        }
    }

    /// Returns the name of the cluster in the cookie of the request.
    pub(crate) fn stated_cluster(&self) -> &str {
        &self.stated_cluster
    }

    /// Sets the cluster of the call.
    pub(crate) fn set_cluster(&mut self, cluster: &ResourceName) {
        self.cluster = cluster.clone();
    }

    /// Returns the addresses of the endpoint in the cookie of the request, separated by commas.
    /// Empty if the request has no such cookie.
    #[must_use]
    pub fn addresses(&self) -> &str {
        &self.addresses
    }

    /// Returns the cluster of the call, which the cookie for the response contains.
    #[must_use]
    pub const fn cluster(&self) -> &ResourceName {
        &self.cluster
    }

    /// Returns the value of the header `set-cookie` for the response from an endpoint with these
    /// [addresses](crate::balancer::CallPermit::session_addresses). `None` if the cookie of the
    /// request is correct: it contains these addresses and the cluster of the call.
    ///
    /// Attributes are those of gRPC: `HttpOnly`, `Path` if the cookie has a path, and `Max-Age` if
    /// its lifetime is at least a millisecond.
    #[must_use]
    pub fn set_cookie(&self, actual: &str) -> Option<String> {
        let cluster = self.cluster.to_string();
        if self.addresses == actual && self.stated_cluster == cluster {
            return None;
        }
        let SessionCookie { name, path, ttl } = &*self.cookie;
        let value = BASE64.encode(format!("{actual};{cluster}"));
        let mut header = format!("{name}={value}; HttpOnly");
        if !path.is_empty() {
            let _ = write!(header, "; Path={path}");
        }
        if ttl.as_millis() > 0 {
            let _ = write!(header, "; Max-Age={}", ttl.as_secs());
        }
        Some(header)
    }
}
