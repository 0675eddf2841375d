//! Static resources of a bootstrap that Envoy refuses or ignores because of an earlier one.
//!
//! Envoy throws an exception for a cluster of the same name ([`cluster_manager_impl.cc`]), a secret
//! of the same kind and name ([`secret_manager_impl.cc`]) and a listener at the same address. It
//! ignores a listener of the same name ([`listener_manager_impl.cc`]).
//!
//! [`cluster_manager_impl.cc`]: https://github.com/envoyproxy/envoy/blob/main/source/common/upstream/cluster_manager_impl.cc
//! [`secret_manager_impl.cc`]: https://github.com/envoyproxy/envoy/blob/main/source/common/secret/secret_manager_impl.cc
//! [`listener_manager_impl.cc`]: https://github.com/envoyproxy/envoy/blob/main/source/common/listener_manager/listener_manager_impl.cc

use std::{collections::BTreeMap, net::IpAddr};

use serde_json::{Map, Value as Json};
use xds_bootstrap::envoy::{EnvoyBootstrap, StaticResource};
use xds_core::types;
use xds_format::{Format, PrintOptions, encode_message_with, to_json};

use super::bootstrap_file::BootstrapFile;
use crate::{
    diagnostic::{Diagnostic, Level, Rule},
    schema::{FILES, schema},
};

/// Returns an error or a warning for each resource that Envoy refuses or ignores.
pub(super) fn check(file: &BootstrapFile<'_>, bootstrap: &EnvoyBootstrap) -> Vec<Diagnostic> {
    let mut names: BTreeMap<(&str, String, String), usize> = BTreeMap::new();
    let mut addresses: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for resource in &bootstrap.static_resources {
        // Errors are reported with the message of the whole bootstrap.
        let Some(json) = canonical(resource) else { continue };
        let line = file.position(&resource.path).map_or(0, |it| it.line);
        let type_url = resource.type_url.as_str();
        let name = text(&json, "name");
        // Envoy gives an unnamed listener a name of its own.
        let key = (type_url, kind(type_url, &json), name.to_owned());
        let earlier = if name.is_empty() { None } else { names.get(&key).copied() };
        if let Some(earlier) = earlier {
            let (level, outcome, noun) = match type_url {
                types::LISTENER => (Level::Warning, "ignores this listener", "listener"),
                types::CLUSTER => (Level::Error, "does not start", "cluster"),
                _ => (Level::Error, "does not start", "secret"),
            };
            let why = format!("Envoy {outcome}: line {earlier} has a {noun} of this name");
            let field = format!("{}.name", resource.path);
            found.push(file.diagnostic(Rule::Bootstrap, level, &field, why));
            continue;
        }
        names.insert(key, line);
        for (field, address) in bound_addresses(&json) {
            if let Some(earlier) = addresses.get(&address) {
                let field = format!("{}.{field}", resource.path);
                let why =
                    format!("Envoy does not start: line {earlier} has a listener at this address");
                found.push(file.diagnostic(Rule::Bootstrap, Level::Error, &field, why));
            } else {
                addresses.insert(address, line);
            }
        }
    }
    found
}

/// Returns the canonical JSON of a resource, without its secrets.
fn canonical(resource: &StaticResource) -> Option<Map<String, Json>> {
    let (text, name) = (resource.message.value().to_string(), resource.type_url.message_name());
    let bytes =
        encode_message_with(schema(), "", name, Format::Json, text.as_bytes(), FILES).ok()?;
    let options = PrintOptions::default();
    match to_json(schema(), resource.type_url.as_str(), &bytes, &options).ok()? {
        Json::Object(object) => Some(object),
        _ => None,
    }
}

/// Returns what separates resources of one type and name: the kind of a secret.
fn kind(type_url: &str, json: &Map<String, Json>) -> String {
    let is_kind =
        |key: &&String| type_url == types::SECRET && !["@type", "name"].contains(&key.as_str());
    json.keys().find(is_kind).cloned().unwrap_or_default()
}

/// Returns the fields and addresses of a listener that no other listener may have. Any number of
/// listeners may let the system choose a port.
fn bound_addresses(json: &Map<String, Json>) -> Vec<(String, String)> {
    let is_bound = json.get("bind_to_port") != Some(&Json::Bool(false));
    let mut found = Vec::new();
    let mut add = |field: String, address: Option<&Json>| {
        found.extend(address.and_then(|it| identity(it, is_bound)).map(|it| (field, it)));
    };
    add("address".to_owned(), json.get("address"));
    let more = json.get("additional_addresses").and_then(Json::as_array);
    for (index, address) in more.into_iter().flatten().enumerate() {
        add(format!("additional_addresses[{index}].address"), address.get("address"));
    }
    found
}

/// Returns a text that is equal for equal addresses; `None` for one with a port that the system
/// chooses.
fn identity(address: &Json, is_bound: bool) -> Option<String> {
    let (kind, address) = address.as_object()?.iter().next()?;
    let Some(socket) = address.as_object().filter(|_| kind == "socket_address") else {
        return Some(format!("{kind} {address}"));
    };
    let port = socket.get("port_value").and_then(Json::as_u64).unwrap_or_default();
    if port == 0 && is_bound {
        return None;
    }
    let host = text(socket, "address");
    let host = host.parse::<IpAddr>().map_or_else(|_| host.to_owned(), |it| it.to_string());
    Some(format!("{} {host} {port}", text(socket, "protocol")))
}

fn text<'j>(object: &'j Map<String, Json>, field: &str) -> &'j str {
    object.get(field).and_then(Json::as_str).unwrap_or_default()
}
