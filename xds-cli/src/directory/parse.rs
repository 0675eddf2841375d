//! Parsing of one file into resources.

use std::{collections::BTreeMap, path::Path};

use bytes::Bytes;
use xds_core::{ResourceName, TypeUrl, server::ServerLimits};
use xds_format::{Format, Resource, parse_with};

use crate::{
    resource_types::Validation,
    schema::{self, schema},
    text::type_name,
};

/// Type and name of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) type_url: TypeUrl,
    pub(crate) name: ResourceName,
}

pub(crate) type Resources = BTreeMap<Key, Bytes>;

/// Parses the resources of a file. An error begins with the path of the file.
pub(crate) fn parse(
    path: &Path,
    format: Format,
    content: &[u8],
    validation: Validation,
) -> Result<Resources, String> {
    let shown = path.display().to_string();
    let document = parse_with(schema(), &shown, format, content, schema::FILES)
        .map_err(|error| error.to_string())?;
    let limits = ServerLimits::default();
    let mut resources = Resources::new();
    for resource in document.resources {
        if let Some(fault) = fault_of(&resource, &limits) {
            return Err(format!("{shown}: {fault}"));
        }
        if resource.wrapper.as_ref().is_some_and(|it| it.ttl.is_some() || !it.aliases.is_empty()) {
            tracing::warn!(
                file = shown,
                resource = resource.name,
                "the TTL and the aliases of a resource are not supported"
            );
        }
        if let Some(why) = validation.rejections(&resource.type_url, &resource.bytes).first() {
            let (type_name, name) = (type_name(&resource.type_url), &resource.name);
            return Err(format!("{shown}: {type_name} `{name}`: {why}"));
        }
        let key = Key { type_url: resource.type_url.into(), name: resource.name.into() };
        resources.insert(key, resource.bytes);
    }
    Ok(resources)
}

/// Returns the fault for which the server would reject a whole transaction.
fn fault_of(resource: &Resource, limits: &ServerLimits) -> Option<String> {
    let longest = resource.name.len().max(resource.type_url.len());
    if resource.name == "*" {
        Some("the resource name `*` is reserved for the wildcard".to_owned())
    } else if longest > limits.name_bytes {
        Some(format!("resource name of {longest} bytes exceeds the limit of {}", limits.name_bytes))
    } else if resource.bytes.len() > limits.resource_bytes {
        let (name, bytes, limit) = (&resource.name, resource.bytes.len(), limits.resource_bytes);
        Some(format!("the resource `{name}` of {bytes} bytes exceeds the limit of {limit}"))
    } else {
        None
    }
}
