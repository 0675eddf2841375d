//! Tests of bootstraps, in one program to share helpers.

mod client;
mod envoy;
mod grpc;
mod hostile;
mod nested;
mod proxy;
mod servers;
mod sources;
mod static_resources;

use serde_json::{Value, json};
use xds_bootstrap::{Bootstrap, BootstrapError};
use xds_core::client::{ClientConfig, ServerAddress};

pub(crate) fn read(value: &Value) -> Result<Bootstrap, BootstrapError> {
    Bootstrap::from_json(&value.to_string())
}

pub(crate) fn load(value: &Value) -> Bootstrap {
    read(value).unwrap_or_else(|why| panic!("{why}"))
}

pub(crate) fn refusal(value: &Value) -> String {
    read(value).map_or_else(|why| why.to_string(), |_| panic!("it loads: {value}"))
}

pub(crate) fn server(uri: &str) -> Value {
    json!({ "server_uri": uri, "channel_creds": [{ "type": "insecure" }] })
}

/// Returns a bootstrap with one server that has additional fields.
pub(crate) fn with(entry: Value) -> Value {
    let mut server = server("a");
    for (key, value) in entry.as_object().expect("an object") {
        server[key] = value.clone();
    }
    json!({ "xds_servers": [server] })
}

pub(crate) fn with_top(key: &str, value: Value) -> Value {
    let mut top = json!({ "xds_servers": [server("a")] });
    top[key] = value;
    top
}

pub(crate) fn warnings(bootstrap: &Bootstrap) -> Vec<String> {
    bootstrap.warnings.iter().map(ToString::to_string).collect()
}

/// Returns the first server of a client.
pub(crate) fn first_server(config: &ClientConfig) -> &ServerAddress {
    &config.servers[0]
}
