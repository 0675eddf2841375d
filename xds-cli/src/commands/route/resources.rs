//! Resources that a request passes: listeners, route configurations, clusters and endpoints.

use std::{
    collections::BTreeMap,
    io::{self, Read as _},
    path::Path,
};

use bytes::Bytes;
use serde_json::{Value as Json, json};
use xds_core::types;
use xds_format::{Format, ParseOptions, PrintOptions, UnknownFields, nearest, parse_with, to_json};

use crate::{
    directory::Sources,
    failure::Failure,
    output,
    schema::schema,
    text::{escaped, type_name},
};

/// Types of the resources.
pub(super) const TYPES: [&str; 4] =
    [types::LISTENER, types::ROUTE_CONFIGURATION, types::CLUSTER, types::CLUSTER_LOAD_ASSIGNMENT];

/// Maximum size of a dump, in bytes.
const MOST_BYTES: u64 = 512 * 1024 * 1024;

/// Resource, encoded and as canonical JSON without secrets.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) bytes: Bytes,
    pub(super) json: Json,
}

/// Resources by type and name.
#[derive(Clone, Debug, Default)]
pub(super) struct RouteResources(BTreeMap<(&'static str, String), Resource>);

impl RouteResources {
    pub(super) fn get(&self, type_url: &'static str, name: &str) -> Option<&Resource> {
        self.0.get(&(type_url, name.to_owned()))
    }

    /// Returns the resources of a type by name.
    pub(super) fn of(&self, type_url: &'static str) -> impl Iterator<Item = (&str, &Resource)> {
        let resources = self.0.iter().filter(move |((of, _), _)| *of == type_url);
        resources.map(|((_, name), resource)| (name.as_str(), resource))
    }

    pub(super) fn insert(&mut self, type_url: &str, name: &str, bytes: Bytes) {
        let Some(type_url) = TYPES.into_iter().find(|known| *known == type_url) else { return };
        // A resource that does not decode has been reported by whoever read it.
        if let Ok(json) = to_json(schema(), type_url, &bytes, &PrintOptions::default()) {
            self.0.insert((type_url, name.to_owned()), Resource { bytes, json });
        }
    }

    /// Describes a missing resource, with the most similar name that exists.
    pub(super) fn missing(&self, type_url: &'static str, name: &str) -> String {
        let hint = match nearest(name, self.of(type_url).map(|(name, _)| name)) {
            Some(similar) => format!(": did you mean `{similar}`?"),
            None => String::new(),
        };
        format!("{} `{name}` does not exist{hint}", noun(type_url))
    }
}

/// Returns the name of a resource type in a sentence.
pub(super) fn noun(type_url: &str) -> &'static str {
    match type_url {
        types::LISTENER => "the listener",
        types::ROUTE_CONFIGURATION => "the route configuration",
        types::CLUSTER => "the cluster",
        _ => "the resource with endpoints",
    }
}

/// Reads the files in a directory. Broken files are reported and ignored.
pub(super) fn of_directory(directory: &Path) -> Result<RouteResources, Failure> {
    let files = xds_fs::list(directory)
        .map_err(|why| Failure::Directory { directory: directory.to_owned(), why })?;
    let mut sources = Sources::default();
    for error in sources.update(files) {
        let text = error.to_string();
        let lines = text.lines().map(|line| format!("xds: {}", escaped(line)));
        lines.for_each(|line| output::print_to_stderr(&line));
    }
    let mut resources = RouteResources::default();
    for (_, key, bytes) in sources.by_file() {
        resources.insert(key.type_url.as_str(), key.name.as_str(), bytes.clone());
    }
    Ok(resources)
}

/// Reads the JSON of a configuration dump or of a client status. RouteResources that this schema cannot
/// read are reported and ignored.
pub(super) fn of_dump(file: &Path) -> Result<RouteResources, Failure> {
    let unreadable = |why| Failure::Unreadable { file: file.to_owned(), why };
    let mut text = Vec::new();
    let read: Box<dyn io::Read> = match file.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(std::fs::File::open(file).map_err(unreadable)?),
    };
    read.take(MOST_BYTES + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(unreadable(io::Error::other("the file exceeds 512 MiB")));
    }
    let dump: Json = serde_json::from_slice(&text)
        .map_err(|why| unreadable(io::Error::new(io::ErrorKind::InvalidData, why)))?;
    let mut found = Vec::new();
    collect(&dump, &mut found);
    let mut resources = RouteResources::default();
    // A newer Envoy may have fields that this schema lacks.
    let options = ParseOptions::envoy().with_unknown_fields(UnknownFields::Skipped);
    for resource in found {
        let document = json!({ "resources": [resource] }).to_string();
        match parse_with(schema(), "dump", Format::Json, document.as_bytes(), options) {
            Ok(document) => document.resources.into_iter().for_each(|it| {
                resources.insert(&it.type_url, &it.name, it.bytes);
            }),
            Err(why) => {
                let kind = resource.get("@type").and_then(Json::as_str).unwrap_or_default();
                let name = ["name", "cluster_name"].into_iter().find_map(|it| resource.get(it));
                let name = name.and_then(Json::as_str).unwrap_or_default();
                let text = format!("{} `{name}` is ignored: {why}", type_name(kind));
                output::print_to_stderr(&format!("xds: {}", escaped(&text)));
            }
        }
    }
    Ok(resources)
}

/// States of resources that are not in use.
const NOT_IN_USE: [&str; 4] =
    ["warming_state", "draining_state", "error_state", "dynamic_warming_clusters"];

/// Collects the resources in use of a dump, at any depth.
fn collect<'j>(json: &'j Json, found: &mut Vec<&'j Json>) {
    match json {
        Json::Object(members) => {
            let type_url = members.get("@type").and_then(Json::as_str).unwrap_or_default();
            if TYPES.contains(&type_url) {
                found.push(json);
                return;
            }
            let used = members.iter().filter(|(name, _)| !NOT_IN_USE.contains(&name.as_str()));
            used.for_each(|(_, value)| collect(value, found));
        }
        Json::Array(elements) => elements.iter().for_each(|it| collect(it, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_in_use_are_collected_from_a_dump() {
        let cluster = |name: &str| json!({ "@type": types::CLUSTER, "name": name });
        let dump = json!({ "configs": [
            { "@type": "type.googleapis.com/envoy.admin.v3.ClustersConfigDump",
              "static_clusters": [{ "cluster": cluster("a") }],
              "dynamic_warming_clusters": [{ "cluster": cluster("b") }],
              "dynamic_active_clusters": [{ "cluster": cluster("c"), "error_state": cluster("d") }] },
        ] });
        let mut found = Vec::new();
        collect(&dump, &mut found);
        let mut names: Vec<_> = found.iter().filter_map(|it| it["name"].as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["a", "c"]);
    }
}
