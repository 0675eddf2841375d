//! Validation rules from a bootstrap.

use alloc::string::String;

use xds_bootstrap::Bootstrap;

use crate::rules::{Routing, Rules};

impl Rules {
    /// Creates the rules of a client from its bootstrap: whether routing is enabled, and which
    /// certificate providers TLS contexts may name (gRFC A29).
    ///
    /// The `trusted_xds_server` feature is a property of each server, not of these rules.
    // S2.065, S2.066
    #[must_use]
    pub fn from_bootstrap(bootstrap: &Bootstrap) -> Self {
        let routing = match bootstrap.feature_switches.routing.is_on() {
            true => Routing::Full,
            false => Routing::LastRoute,
        };
        let providers: alloc::vec::Vec<String> =
            bootstrap.certificate_providers.keys().cloned().collect();
        Self { certificate_providers: Some(providers), ..Self::default() }.with_routing(routing)
    }
}
