//! Files of resources that a bootstrap of Envoy names (`path_config_source`), and the files that
//! these resources name in turn.

use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
};

use bytes::Bytes;
use serde_json::Value as Json;
use xds_core::types;
use xds_format::{Format, Leniency, YamlFile, nearest};

use super::{
    bootstrap_file::{BootstrapFile, read_bounded},
    named_files::{Contents, Found, NamedFile, walk},
    report::Report,
};
use crate::{
    diagnostic::{Diagnostic, Level, Rule},
    directory::{Key, MOST_ERRORS, parse_file},
    resource_types::Validation,
    text::type_name,
};

/// Maximum number of files of resources that are followed.
const MOST_FILES: usize = 1_000;

/// Reference to a file of resources.
struct Source {
    path: PathBuf,
    /// Type of the resources that the referrer expects.
    type_url: Option<&'static str>,
    /// Name of the resource that the referrer expects.
    name: Option<String>,
    /// Diagnostic about the reference, without a text.
    place: Diagnostic,
}

impl Source {
    fn error(&self, why: &str) -> Diagnostic {
        let field = &self.place.field;
        Diagnostic { text: format!("{field}: {why}"), ..self.place.clone() }
    }
}

/// Resources in the files of the config sources.
#[derive(Default)]
pub(super) struct NamedResources {
    pub(super) resources: BTreeMap<Key, Bytes>,
    /// Number of all named files.
    pub(super) files: usize,
}

/// Checks all files that a bootstrap names.
pub(super) async fn check(file: &BootstrapFile<'_>, report: &mut Report) -> NamedResources {
    let mut named = NamedResources::default();
    let mut queue = VecDeque::new();
    named.files += check_contents(file, report, &mut queue).await;
    // Each file with the names of its resources by type, or `None` if it is broken.
    let mut read: BTreeMap<PathBuf, Option<Vec<Key>>> = BTreeMap::new();
    while let Some(source) = queue.pop_front() {
        if !read.contains_key(&source.path) && read.len() < MOST_FILES {
            named.files += 1;
            let keys = match read_source(&source, report) {
                Some((bytes, resources)) => {
                    let keys = resources.keys().cloned().collect();
                    named.resources.extend(resources);
                    let shown = source.path.display().to_string();
                    // Files in other formats name no further files here.
                    if let Ok(yaml) = YamlFile::parse(&shown, &bytes, Leniency::Envoy) {
                        let json = yaml.to_json();
                        let inner = BootstrapFile { path: &source.path, yaml, json };
                        named.files += check_contents(&inner, report, &mut queue).await;
                    }
                    Some(keys)
                }
                None => None,
            };
            read.insert(source.path.clone(), keys);
        }
        if let Some(Some(keys)) = read.get(&source.path) {
            check_expectation(&source, keys, report);
        }
    }
    named
}

/// Checks the certificates and other data that a file names, and adds its config sources to the
/// queue. Returns the number of the former.
async fn check_contents(
    file: &BootstrapFile<'_>,
    report: &mut Report,
    queue: &mut VecDeque<Source>,
) -> usize {
    let (mut data, mut sources) = (Vec::new(), Vec::new());
    walk(&file.json, &mut |found, around| {
        // The metadata of the node, and of resources, is not interpreted.
        if found.key == "metadata" || around.iter().any(|it| it.key == "metadata") {
            return;
        }
        data.extend(data_file(found, around));
        sources.extend(source(file, found, around));
    });
    queue.extend(sources);
    for it in &data {
        if let Some((path, why)) = it.fault().await {
            report.diagnostics.push(file.diagnostic(Rule::NamedFile, Level::Error, &path, why));
        }
    }
    data.len()
}

/// Returns the file of a `DataSource` or a `WatchedDirectory`.
fn data_file(found: &Found<'_>, around: &[Found<'_>]) -> Option<NamedFile> {
    if found.key == "watched_directory" {
        let (field, path) = found.text("path")?;
        return Some(NamedFile { field, path: path.into(), contents: Contents::Directory });
    }
    let (field, path) = found.text("filename")?;
    let contents = match found.key.as_str() {
        "trusted_ca" => Contents::Roots,
        "certificate_chain" => {
            let key = around.last().and_then(|it| it.object("private_key"));
            match key.as_ref().and_then(|it| it.text("filename")) {
                Some((key_field, key)) => Contents::Certificate { key_field, key: key.into() },
                None => Contents::Data,
            }
        }
        // It is checked with its certificate.
        "private_key"
            if around
                .last()
                .and_then(|it| it.object("certificate_chain"))
                .is_some_and(|it| it.text("filename").is_some()) =>
        {
            return None;
        }
        _ => Contents::Data,
    };
    Some(NamedFile { field, path: path.into(), contents })
}

/// Returns the file of a `ConfigSource`.
fn source(file: &BootstrapFile<'_>, found: &Found<'_>, around: &[Found<'_>]) -> Option<Source> {
    let is_source = found.key.ends_with("config") || found.key.ends_with("config_source");
    if !is_source || found.value.get("@type").is_some() || found.key == "path_config_source" {
        return None;
    }
    let inner = found.object("path_config_source");
    let (field, path) = match &inner {
        Some(inner) => inner.text("path")?,
        None => found.text("path")?,
    };
    let parent = around.last()?;
    let name = |of: &Found<'_>, key| of.text(key).map(|(_, name)| name.to_owned());
    let (type_url, name) = match (found.key.as_str(), parent.key.as_str()) {
        ("lds_config", _) => (Some(types::LISTENER), None),
        ("cds_config", _) => (Some(types::CLUSTER), None),
        ("eds_config", _) => {
            let cluster = around.get(around.len().wrapping_sub(2));
            let name = name(parent, "service_name").or_else(|| name(cluster?, "name"));
            (Some(types::CLUSTER_LOAD_ASSIGNMENT), name)
        }
        ("sds_config", _) => (Some(types::SECRET), name(parent, "name")),
        ("rtds_config", _) => (Some(types::RUNTIME), name(parent, "name")),
        ("config_source", "rds") => {
            (Some(types::ROUTE_CONFIGURATION), name(parent, "route_config_name"))
        }
        ("rds_config_source", _) => (Some(types::ROUTE_CONFIGURATION), None),
        ("scoped_rds_config_source", _) => (Some(types::SCOPED_ROUTE_CONFIGURATION), None),
        ("config_source", "config_discovery") => {
            let filter = around.get(around.len().wrapping_sub(2));
            (Some(types::EXTENSION_CONFIG), filter.and_then(|it| name(it, "name")))
        }
        _ => (None, None),
    };
    let place = file.diagnostic(Rule::NamedFile, Level::Error, &field, "");
    Some(Source { path: path.into(), type_url, name, place })
}

/// Reads and parses a file of resources. Its errors are added to the report.
fn read_source(source: &Source, report: &mut Report) -> Option<(Vec<u8>, BTreeMap<Key, Bytes>)> {
    let format = match Format::from_path(&source.path) {
        Ok(format) => format,
        Err(why) => {
            report.diagnostics.push(source.error(&why.to_string()));
            return None;
        }
    };
    let bytes = match read_bounded(&source.path) {
        Ok(bytes) => bytes,
        Err(why) => {
            let shown = source.path.display();
            let mut why = format!("cannot read {shown}: {why}");
            if source.path.is_relative() {
                why += "; a relative path starts at the working directory";
            }
            report.diagnostics.push(source.error(&why));
            return None;
        }
    };
    match parse_file(&source.path, format, &bytes, Validation::On) {
        Ok(resources) => Some((bytes, resources)),
        Err(problems) => {
            report.add_problems(&source.path, problems);
            None
        }
    }
}

/// Checks that a file has the resources that a reference expects.
fn check_expectation(source: &Source, keys: &[Key], report: &mut Report) {
    let Some(expected) = source.type_url else { return };
    let of_type = || keys.iter().filter(|key| key.type_url.as_str() == expected);
    for other in keys.iter().filter(|key| key.type_url.as_str() != expected).take(MOST_ERRORS) {
        let (short, path) = (type_name(other.type_url.as_str()), source.path.display());
        let (name, expected) = (&other.name, type_name(expected));
        report.diagnostics.push(source.error(&format!(
            "{path} has the {short} resource `{name}`, but only {expected} resources may be in it"
        )));
    }
    let Some(name) = &source.name else { return };
    if of_type().all(|key| key.name.as_str() != name) {
        let (path, short) = (source.path.display(), type_name(expected));
        let similar = nearest(name, of_type().map(|key| key.name.as_str()));
        let similar = similar.map(|it| format!(", did you mean `{it}`?")).unwrap_or_default();
        let why = format!("{path} has no {short} resource `{name}`{similar}");
        report.diagnostics.push(source.error(&why));
    }
}

/// Whether a document has a config source that is a server or a stream, for the resources of
/// `field` in `dynamic_resources`.
pub(super) fn is_from_server(json: &Json, field: &str) -> bool {
    let mut is_from_server = false;
    walk(json, &mut |found, around| {
        if found.key == field && around.last().is_some_and(|it| it.key == "dynamic_resources") {
            let has = |name| found.get(name).is_some();
            is_from_server = !has("path") && !has("path_config_source");
        }
    });
    is_from_server
}
