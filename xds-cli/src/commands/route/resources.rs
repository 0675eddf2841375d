//! Resources that a request passes: listeners, route configurations, clusters and endpoints.

use std::{collections::BTreeMap, path::Path};

use bytes::Bytes;
use serde_json::Value as Json;
use xds_core::types;
use xds_format::{PrintOptions, nearest, to_json};

use crate::{directory::Sources, failure::Failure, output, schema::schema, text::escaped};

/// Types of the resources.
pub(super) const TYPES: [&str; 4] =
    [types::LISTENER, types::ROUTE_CONFIGURATION, types::CLUSTER, types::CLUSTER_LOAD_ASSIGNMENT];

/// Resource, encoded and as canonical JSON without secrets.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) bytes: Bytes,
    pub(super) json: Json,
}

/// Resources by type and name; `None` if a resource exists and cannot be read.
#[derive(Clone, Debug, Default)]
pub(super) struct RouteResources(BTreeMap<(&'static str, String), Option<Resource>>);

impl RouteResources {
    pub(super) fn get(&self, type_url: &'static str, name: &str) -> Option<&Resource> {
        self.0.get(&(type_url, name.to_owned()))?.as_ref()
    }

    /// Returns the resources of a type by name.
    pub(super) fn of(&self, type_url: &'static str) -> impl Iterator<Item = (&str, &Resource)> {
        let resources = self.0.iter().filter(move |((of, _), _)| *of == type_url);
        resources.filter_map(|((_, name), resource)| Some((name.as_str(), resource.as_ref()?)))
    }

    pub(super) fn insert(&mut self, type_url: &str, name: &str, bytes: Bytes) {
        // A resource that does not decode has been reported by whoever read it.
        let json = to_json(schema(), type_url, &bytes, &PrintOptions::default()).ok();
        self.put(type_url, name, json.map(|json| Resource { bytes, json }));
    }

    /// Adds a resource that cannot be read.
    pub(super) fn insert_unreadable(&mut self, type_url: &str, name: &str) {
        self.put(type_url, name, None);
    }

    fn put(&mut self, type_url: &str, name: &str, resource: Option<Resource>) {
        if let Some(type_url) = TYPES.into_iter().find(|known| *known == type_url) {
            self.0.insert((type_url, name.to_owned()), resource);
        }
    }

    /// Describes a missing resource, with the most similar name that exists.
    pub(super) fn missing(&self, type_url: &'static str, name: &str) -> String {
        if self.0.contains_key(&(type_url, name.to_owned())) {
            return format!("{} `{name}` cannot be read", noun(type_url));
        }
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
