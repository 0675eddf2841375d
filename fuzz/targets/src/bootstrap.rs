//! Fuzz target for gRPC and Envoy bootstrap files.

use xds_bootstrap::{Bootstrap, envoy};
use xds_core::{Client, Time};

/// Checks that a client can be created from every valid bootstrap.
pub fn bootstrap(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(bootstrap) = Bootstrap::from_json(text) {
        let _ = Client::new(bootstrap.client_config(), 1, Time::ZERO);
        for server in bootstrap.all_servers() {
            let _ = server.to_json();
        }
        let _ = bootstrap.server_listener_name("[::1]:80");
    }
    if let Ok(bootstrap) = envoy::EnvoyBootstrap::from_json(text)
        && let Ok(config) = bootstrap.client_config()
    {
        let _ = Client::new(config, 1, Time::ZERO);
    }
    if let Ok(source) = envoy::ConfigSource::from_json(text) {
        let _ = source.check_for_grpc();
    }
}
