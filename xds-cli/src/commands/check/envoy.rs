//! Check of an Envoy bootstrap.

use serde_json::Value as Json;
use xds_bootstrap::{BootstrapError, envoy::EnvoyBootstrap};
use xds_core::{
    references::{ConfigSource, Consistency, Finding},
    types,
};
use xds_format::{Format, deprecated_uses, encode_message_with, nearest};

use super::{
    bootstrap_file::BootstrapFile,
    config_sources::{self, NamedResources},
    duplicates,
    named_files::{field, walk},
    report::Report,
};
use crate::{
    diagnostic::{Diagnostic, Level, Rule},
    directory::{Key, MOST_ERRORS},
    resource_types::Validation,
    schema::{FILES, schema},
};

/// Message of the whole bootstrap.
const BOOTSTRAP: &str = "envoy.config.bootstrap.v3.Bootstrap";

/// Static resource with its field.
struct EncodedResource {
    key: Key,
    field: String,
    bytes: Vec<u8>,
}

/// Adds the findings about a bootstrap, and returns the number of files that it names.
pub(super) async fn check(file: &BootstrapFile<'_>, report: &mut Report) -> usize {
    let parsed = EnvoyBootstrap::from_json(&file.json.to_string());
    let mut found = Vec::new();
    message(file, parsed.as_ref().ok(), &mut found);
    let mut statics = Vec::new();
    match &parsed {
        Ok(bootstrap) => {
            for warning in &bootstrap.warnings {
                let why = warning.kind().to_string();
                found.push(file.diagnostic(Rule::Bootstrap, Level::Warning, warning.path(), why));
            }
            if let Err(empty) = bootstrap.node.check_for_envoy() {
                let why = "must not be empty, unless it is given with --service-node and \
                           --service-cluster on Envoy's command line";
                found.push(file.diagnostic(Rule::Bootstrap, Level::Warning, empty.path(), why));
            }
            found.extend(duplicates::check(file, bootstrap));
            statics = static_resources(bootstrap);
            let mut of_servers = Vec::new();
            servers(file, bootstrap, &statics, &mut of_servers);
            of_servers.retain(|error| found.iter().all(|it| it.position != error.position));
            found.extend(of_servers);
        }
        Err(why) => {
            let error = error(file, why);
            // The same mistake is often found in the message.
            if found.iter().all(|it| it.position != error.position) {
                found.push(error);
            }
        }
    }
    transport_versions(file, &mut found);
    found.sort_by_key(|it| it.position);
    report.diagnostics.extend(found);
    let named = config_sources::check(file, report).await;
    report.diagnostics.extend(references(file, &statics, &named));
    named.files
}

fn error(file: &BootstrapFile<'_>, why: &BootstrapError) -> Diagnostic {
    file.diagnostic(Rule::Bootstrap, Level::Error, why.path(), why.kind().to_string())
}

/// Checks all fields of the message, and the constraints of the API if they are valid.
fn message(file: &BootstrapFile<'_>, parsed: Option<&EnvoyBootstrap>, found: &mut Vec<Diagnostic>) {
    match file.yaml.encode_all(schema(), BOOTSTRAP, "", FILES, MOST_ERRORS) {
        Ok(bytes) => {
            let type_url = format!("type.googleapis.com/{BOOTSTRAP}");
            for why in Validation::On.violations(&type_url, &bytes) {
                let reason = why.kind().to_string();
                found.push(file.diagnostic(Rule::Bootstrap, Level::Error, why.path(), reason));
            }
            // Envoy does not know types of an earlier version.
            let uses = deprecated_uses(schema(), &type_url, &bytes).unwrap_or_default();
            for it in uses {
                if let Some(current) = it.current {
                    let why = format!(
                        "`{}` is a type of an earlier version of the API: use `{current}`",
                        it.full_name
                    );
                    found.push(file.diagnostic(Rule::Bootstrap, Level::Error, &it.path, why));
                }
            }
        }
        Err(errors) => {
            let warnings = parsed.map(|it| it.warnings.as_slice()).unwrap_or_default();
            // Fields of version 2 are reported as warnings.
            let lines: Vec<_> = warnings.iter().map(|it| file.position(it.path())).collect();
            let is_of_version_2 = |error: &xds_format::FormatError| {
                lines
                    .iter()
                    .flatten()
                    .any(|it| error.position().is_some_and(|at| at.line == it.line))
            };
            let errors = errors.errors.iter().filter(|error| !is_of_version_2(error));
            found.extend(errors.map(|it| Diagnostic::of_format(Rule::Bootstrap, file.path, it)));
        }
    }
}

/// Fields with an `ApiConfigSource`.
const API_CONFIG_SOURCES: [&str; 4] =
    ["api_config_source", "ads_config", "load_stats_config", "hds_config"];

/// Checks that all sources use version 3 of the protocol, because Envoy refuses the other ones.
fn transport_versions(file: &BootstrapFile<'_>, found: &mut Vec<Diagnostic>) {
    walk(&file.json, &mut |source, around| {
        let is_metadata = || around.iter().any(|it| METADATA.contains(&it.key.as_str()));
        if !API_CONFIG_SOURCES.contains(&source.key.as_str()) || is_metadata() {
            return;
        }
        let version = source.get("transport_api_version").filter(|(_, value)| !value.is_null());
        let (path, stated) = match &version {
            None => (field(&source.path, "transport_api_version"), "AUTO, the default"),
            Some((path, Json::String(text))) => match text.to_ascii_uppercase().as_str() {
                "AUTO" | "0" => (path.clone(), "AUTO"),
                "V2" | "1" => (path.clone(), "V2"),
                _ => return,
            },
            Some((path, value)) => match value.as_u64() {
                Some(0) => (path.clone(), "AUTO"),
                Some(1) => (path.clone(), "V2"),
                _ => return,
            },
        };
        let why = format!("must be V3: Envoy does not start with {stated}");
        found.push(file.diagnostic(Rule::Bootstrap, Level::Error, &path, why));
    });
}

/// Fields with arbitrary contents.
const METADATA: [&str; 3] = ["metadata", "filter_metadata", "static_layer"];

fn static_resources(bootstrap: &EnvoyBootstrap) -> Vec<EncodedResource> {
    let encode = |it: &xds_bootstrap::envoy::StaticResource| {
        let (text, name) = (it.message.value().to_string(), it.type_url.message_name());
        // Errors are reported with the message of the whole bootstrap.
        let bytes =
            encode_message_with(schema(), "", name, Format::Json, text.as_bytes(), FILES).ok()?;
        let name = xds_format::resource_name(schema(), it.type_url.as_str(), &bytes).ok()?;
        let key = Key { type_url: it.type_url.clone(), name: name.as_str().into() };
        Some(EncodedResource { key, field: it.path.clone(), bytes })
    };
    bootstrap.static_resources.iter().filter_map(encode).collect()
}

/// Checks that the clusters of the management servers are static and have endpoints.
fn servers(
    file: &BootstrapFile<'_>,
    bootstrap: &EnvoyBootstrap,
    statics: &[EncodedResource],
    found: &mut Vec<Diagnostic>,
) {
    let clusters = statics.iter().filter(|it| it.key.type_url == *types::CLUSTER);
    let clusters: Vec<&str> = clusters.map(|it| it.key.name.as_str()).collect();
    for (id, targets) in bootstrap.transports() {
        let field = id.as_str();
        for target in targets {
            // Services of Google's library have an address instead of a cluster.
            if matches!(target, xds_bootstrap::envoy::Target::Service(service)
                if !matches!(service.target, xds_bootstrap::envoy::GrpcTarget::Envoy { .. }))
            {
                continue;
            }
            let name = target.name();
            let mut bad = |field: &str, why| {
                found.push(file.diagnostic(Rule::Bootstrap, Level::Error, field, why))
            };
            match bootstrap.upstream_cluster(name) {
                Ok(Some(cluster)) if cluster.addresses.is_empty() => {
                    bad(field, format!("cluster `{name}` has no endpoints: add a load_assignment"));
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    let similar = nearest(name, clusters.iter().copied());
                    let similar =
                        similar.map(|it| format!(", did you mean `{it}`?")).unwrap_or_default();
                    let why =
                        format!("cluster `{name}` is not in static_resources.clusters{similar}");
                    bad(field, why);
                }
                Err(why) => bad(why.path(), why.kind().to_string()),
            }
        }
    }
}

/// Checks that the clusters that the static resources refer to exist, unless a server provides
/// clusters.
fn references(
    file: &BootstrapFile<'_>,
    statics: &[EncodedResource],
    named: &NamedResources,
) -> Vec<Diagnostic> {
    if config_sources::is_from_server(&file.json, "cds_config") {
        return Vec::new();
    }
    let own = statics.iter().map(|it| (&it.key, it.bytes.as_slice()));
    let all = own.chain(named.resources.iter().map(|(key, bytes)| (key, bytes.as_ref())));
    let all: Vec<_> = all.collect();
    let set = all.iter().map(|(key, it)| (key.type_url.clone(), key.name.clone(), *it));
    let missing = Consistency::default().check(set).into_iter().filter_map(|finding| {
        let Finding::Missing { referrer, type_url, name: Some(name), source } = &finding else {
            return None;
        };
        if type_url.as_str() != types::CLUSTER || *source != ConfigSource::Unspecified {
            return None;
        }
        let clusters = all.iter().filter(|(key, _)| key.type_url == *type_url);
        let similar = nearest(name.as_str(), clusters.map(|(key, _)| key.name.as_str()));
        let similar = similar.map(|it| format!(", did you mean `{it}`?")).unwrap_or_default();
        let text = format!("{finding}{similar}");
        let of = statics
            .iter()
            .find(|it| it.key.type_url == referrer.type_url && it.key.name == referrer.name)?;
        let found = Diagnostic::new(Rule::DanglingReference, Level::Error, file.path, text);
        let position =
            file.yaml.mention(&of.field, name.as_str(), &["cluster", "clusters.name", "clusters"]);
        Some(found.at(position).in_field(of.field.as_str()).about(referrer.clone()))
    });
    missing.collect()
}
