//! What a bootstrap says about how resources are judged.

use alloc::string::String;

use xds_bootstrap::Bootstrap;

use crate::rules::{Routing, Rules};

impl Rules {
    /// The rules of a client that is made from a bootstrap: whether there is routing (S2.065, S2.066), and which
    /// certificate providers TLS may name (A29). Which servers are trusted is a matter of the servers.
    #[must_use]
    pub fn from_bootstrap(bootstrap: &Bootstrap) -> Self {
        let routing = match bootstrap.guards.routing.is_on() {
            true => Routing::Full,
            false => Routing::LastRoute,
        };
        let providers: alloc::vec::Vec<String> =
            bootstrap.certificate_providers.keys().cloned().collect();
        Self { certificate_providers: Some(providers), ..Self::default() }.with_routing(routing)
    }
}
