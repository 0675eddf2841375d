//! Resources in the JSON of Envoy's configuration dump or of a client status.

use std::{fmt::Write as _, fs::File, io, path::Path};

use serde_json::{Value as Json, json};
use xds_format::{
    Format, FormatError, Leniency, ParseOptions, UnknownFields, YamlFile, encode_message_with,
    parse_with,
};

use super::resources::{RouteResources, TYPES, noun};
use crate::{
    bounded::{MOST_INPUT, read_at_most},
    failure::Failure,
    output,
    schema::schema,
    text::escaped,
};

/// Reads the resources in use of a dump. Parts that this schema cannot read are reported and
/// ignored.
pub(super) fn read(file: &Path) -> Result<RouteResources, Failure> {
    let place = match file.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => escaped(&file.display().to_string()),
    };
    let text =
        read_bytes(file).map_err(|why| Failure::Unreadable { file: place.clone().into(), why })?;
    let no_dump = |why: &dyn core::fmt::Display| {
        Failure::Dump(format!(
            "{place} is not a configuration dump of Envoy or a client status: {why}"
        ))
    };
    if text.trim_ascii().is_empty() {
        return Err(no_dump(&"it is empty"));
    }
    let dump: Json = serde_json::from_slice(&text).map_err(|why| no_dump(&why))?;
    let mut found = Vec::new();
    collect(&dump, String::new(), &mut found);
    if found.is_empty() {
        let why = "it has no listeners, route configurations, clusters or endpoints in use";
        return Err(no_dump(&why));
    }
    let (mut resources, mut unread) = (RouteResources::default(), Vec::new());
    for (path, resource) in found {
        add(&path, resource, &mut resources, &mut unread);
    }
    report(&place, &text, &unread);
    Ok(resources)
}

fn read_bytes(file: &Path) -> io::Result<Vec<u8>> {
    match file.as_os_str() == "-" {
        true => read_at_most(io::stdin(), MOST_INPUT),
        false => read_at_most(File::open(file)?, MOST_INPUT),
    }
}

/// Part of a dump that cannot be read.
#[derive(Debug)]
struct Unread {
    /// Path in the dump.
    path: String,
    why: String,
}

impl Unread {
    fn new(path: &str, why: &FormatError, ignored: &str) -> Self {
        let inner = why.path();
        let separator = if inner.is_empty() || inner.starts_with('[') { "" } else { "." };
        Self {
            path: format!("{path}{separator}{inner}"),
            why: format!("{}: {ignored} is ignored", why.kind()),
        }
    }
}

/// Reports parts that cannot be read, with their positions.
fn report(place: &str, text: &[u8], unread: &[Unread]) {
    if unread.is_empty() {
        return;
    }
    // The positions are only needed here: a dump may be large.
    let positions = YamlFile::parse_json(place, text, Leniency::Envoy).ok();
    for Unread { path, why } in unread {
        let position = positions.as_ref().and_then(|it| it.position(path));
        let position = position.map_or_else(String::new, |at| format!(":{at}"));
        let line = format!("{place}{position}: {path}: {why}");
        output::print_to_stderr(&format!("xds: {}", escaped(&line)));
    }
}

/// A newer Envoy may have fields that this schema lacks.
fn options() -> ParseOptions {
    ParseOptions::envoy().with_unknown_fields(UnknownFields::Skipped)
}

/// Adds a resource, without the messages inside that cannot be read.
fn add(path: &str, resource: &Json, resources: &mut RouteResources, unread: &mut Vec<Unread>) {
    let parse = |resource: &Json| {
        let document = json!({ "resources": [resource] }).to_string();
        parse_with(schema(), "", Format::Json, document.as_bytes(), options())
    };
    let parsed = parse(resource).or_else(|_| {
        let mut readable = resource.clone();
        children(&mut readable, path, &mut |child, path| is_readable(child, path, unread));
        parse(&readable)
    });
    let text = |field| resource.get(field).and_then(Json::as_str);
    match parsed {
        Ok(document) => document.resources.into_iter().for_each(|it| {
            resources.insert(&it.type_url, &it.name, it.bytes);
        }),
        Err(why) => {
            let type_url = text("@type").unwrap_or_default();
            let name = text("name").or_else(|| text("cluster_name")).unwrap_or_default();
            resources.insert_unreadable(type_url, name);
            let why = why.kind().to_string();
            let why = format!("{why}: {} `{name}` is ignored", noun(type_url));
            unread.push(Unread { path: path.to_owned(), why });
        }
    }
}

/// Whether the schema can read a value, after the messages of stated types inside that it cannot
/// read have been removed.
fn is_readable(json: &mut Json, path: &str, unread: &mut Vec<Unread>) -> bool {
    children(json, path, &mut |child, path| is_readable(child, path, unread));
    if json.get("@type").is_none() {
        return true;
    }
    let text = json.to_string();
    let encoded = encode_message_with(schema(), "", ANY, Format::Json, text.as_bytes(), options());
    if let Err(why) = &encoded {
        unread.push(Unread::new(path, why, "the message"));
    }
    encoded.is_ok()
}

const ANY: &str = "google.protobuf.Any";

/// Keeps the members or elements of a value that `keep` accepts.
fn children(json: &mut Json, path: &str, keep: &mut dyn FnMut(&mut Json, &str) -> bool) {
    match json {
        Json::Object(members) => {
            members.retain(|name, value| keep(value, &member(path, name)));
        }
        Json::Array(elements) => {
            let mut index = 0;
            elements.retain_mut(|element| {
                let path = format!("{path}[{index}]");
                index += 1;
                keep(element, &path)
            });
        }
        _ => {}
    }
}

/// Returns the path of a member, as errors of files have it.
fn member(path: &str, name: &str) -> String {
    let is_name = name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
    let mut out = path.to_owned();
    // Writing to a string cannot fail.
    let _ = match (is_name && !name.is_empty(), path.is_empty()) {
        (true, true) => write!(out, "{name}"),
        (true, false) => write!(out, ".{name}"),
        (false, _) => write!(out, "[{}]", json!(name)),
    };
    out
}

/// States of resources that are not in use.
const NOT_IN_USE: [&str; 4] =
    ["warming_state", "draining_state", "error_state", "dynamic_warming_clusters"];

/// Collects the resources in use of a dump with their paths, at any depth.
fn collect<'j>(json: &'j Json, path: String, found: &mut Vec<(String, &'j Json)>) {
    match json {
        Json::Object(members) => {
            let type_url = members.get("@type").and_then(Json::as_str).unwrap_or_default();
            if TYPES.contains(&type_url) {
                found.push((path, json));
                return;
            }
            let used = members.iter().filter(|(name, _)| !NOT_IN_USE.contains(&name.as_str()));
            used.for_each(|(name, value)| collect(value, member(&path, name), found));
        }
        Json::Array(elements) => {
            let elements = elements.iter().enumerate();
            elements.for_each(|(at, it)| collect(it, format!("{path}[{at}]"), found));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use xds_core::types;

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
        collect(&dump, String::new(), &mut found);
        let mut paths: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
        paths.sort_unstable();
        assert_eq!(
            paths,
            [
                "configs[0].dynamic_active_clusters[0].cluster",
                "configs[0].static_clusters[0].cluster"
            ]
        );
    }
}
