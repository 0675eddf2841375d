//! Check of a gRPC bootstrap.

use serde_json::{Map, Value as Json, json};
use xds_bootstrap::{Bootstrap, BootstrapError, ErrorKind};

use super::{
    bootstrap_file::BootstrapFile,
    misspelt::misspelt_fields,
    named_files::{Contents, Found, NamedFile, field, walk},
};
use crate::diagnostic::{Diagnostic, Level, Rule};

/// Adds the findings about a bootstrap, and returns the number of files that it names.
pub(super) async fn check(
    file: &BootstrapFile<'_>,
    text: &str,
    found: &mut Vec<Diagnostic>,
) -> usize {
    let before = found.len();
    let parsed = Bootstrap::from_json(text);
    if let Err(first) = &parsed {
        let errors = errors_of_parts(&file.json);
        let errors = if errors.is_empty() { vec![first.clone()] } else { errors };
        found.extend(errors.iter().map(|why| error(file, why.path(), why.kind())));
    }
    // The certificate providers are read even if another part is invalid.
    let providers = file.json.get("certificate_providers");
    let only_providers = providers.and_then(|providers| {
        let parts = json!({ "xds_servers": [valid_server()], "certificate_providers": providers });
        Bootstrap::from_json(&parts.to_string()).ok()
    });
    if let Some(bootstrap) = parsed.ok().or(only_providers) {
        for warning in &bootstrap.warnings {
            let why = warning.kind().to_string();
            found.push(file.diagnostic(Rule::Bootstrap, Level::Warning, warning.path(), why));
        }
        for (name, provider) in &bootstrap.certificate_providers {
            if let Err(why) = provider.file_watcher() {
                let config = field(&field("certificate_providers", name), "config");
                let path = [config.as_str(), why.path()].join(".");
                let path = path.strip_suffix('.').unwrap_or(&path);
                found.push(error(file, path, why.kind()));
            }
        }
    }
    for (path, similar) in misspelt_fields(&file.json) {
        let why = format!("unknown field, did you mean `{similar}`? gRPC ignores it");
        found.push(file.diagnostic(Rule::Bootstrap, Level::Warning, &path, why));
    }
    let named = named_files(&file.json);
    for it in &named {
        if let Some((path, why)) = it.fault().await {
            found.push(file.diagnostic(Rule::NamedFile, Level::Error, &path, why));
        }
    }
    found[before..].sort_by_key(|it| it.position);
    named.len()
}

fn error(file: &BootstrapFile<'_>, path: &str, kind: &ErrorKind) -> Diagnostic {
    let why = kind.to_string();
    let remedy = match kind {
        ErrorKind::Missing => "; add the field",
        ErrorKind::NoSupportedCredentials(_) => {
            "; add an entry of type `tls` or `insecure`, for example {\"type\": \"insecure\"}"
        }
        _ => "",
    };
    file.diagnostic(Rule::Bootstrap, Level::Error, path, why + remedy)
}

/// Parses each part of a bootstrap on its own, because parsing stops at the first error. Returns
/// one error for each part that has one.
fn errors_of_parts(json: &Json) -> Vec<BootstrapError> {
    let Json::Object(parts) = json else { return Vec::new() };
    let mut errors = Vec::new();
    let mut parse = |parts: Json| {
        errors.extend(Bootstrap::from_json(&parts.to_string()).err());
    };
    match parts.get("xds_servers") {
        Some(Json::Array(servers)) if !servers.is_empty() => {
            for at in 0..servers.len() {
                // Valid entries take the places of the others, so that paths stay the same.
                let mut list = vec![valid_server(); servers.len()];
                list[at] = servers[at].clone();
                parse(json!({ "xds_servers": list }));
            }
        }
        Some(other) => parse(json!({ "xds_servers": other })),
        None => parse(json!({})),
    }
    for (name, value) in parts.iter().filter(|(name, _)| *name != "xds_servers") {
        let by_name = ["authorities", "certificate_providers", "allowed_grpc_services"];
        match value {
            Json::Object(entries) if by_name.contains(&name.as_str()) => {
                for (entry, value) in entries {
                    let one: Map<_, _> = [(entry.clone(), value.clone())].into_iter().collect();
                    parse(json!({ "xds_servers": [valid_server()], name: one }));
                }
            }
            value => parse(json!({ "xds_servers": [valid_server()], name: value })),
        }
    }
    errors
}

fn valid_server() -> Json {
    json!({ "server_uri": "localhost:1", "channel_creds": [{ "type": "insecure" }] })
}

/// Returns the files that the credentials and the certificate providers name.
fn named_files(json: &Json) -> Vec<NamedFile> {
    let mut named = Vec::new();
    walk(json, &mut |config, around| {
        // The node's metadata may have such fields, too.
        if config.key != "config" || around.iter().any(|it| it.key == "node") {
            return;
        }
        let roots = config.text("ca_certificate_file").map(|it| (it, Contents::Roots));
        let token = config.text("jwt_token_file").map(|it| (it, Contents::Token));
        for ((field, path), contents) in [roots, token].into_iter().flatten() {
            named.push(NamedFile { field, path: path.into(), contents });
        }
        named.extend(identity(config));
    });
    named
}

fn identity(config: &Found<'_>) -> Option<NamedFile> {
    let (field, certificate) = config.text("certificate_file")?;
    let (key_field, key) = config.text("private_key_file")?;
    let contents = Contents::Certificate { key_field, key: key.into() };
    Some(NamedFile { field, path: certificate.into(), contents })
}
