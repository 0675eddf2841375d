//! Parsing of one file into resources.

use std::{collections::BTreeMap, path::Path};

use bytes::Bytes;
use xds_core::{ResourceName, TypeUrl, references::ResourceId, server::ServerLimits};
use xds_format::{Format, Position, Resource, ResourcePositions, parse_all};

use crate::{
    diagnostic::{Diagnostic, Level, Rule},
    resource_types::Validation,
    schema::{self, schema},
};

/// Maximum number of errors that are reported for a file. Others are counted.
pub(crate) const MOST_ERRORS: usize = 20;

/// Type and name of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) type_url: TypeUrl,
    pub(crate) name: ResourceName,
}

pub(crate) type Resources = BTreeMap<Key, Bytes>;

/// Errors of a file, at least one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Problems {
    pub(crate) first: Vec<Diagnostic>,
    /// Number of further errors.
    pub(crate) more: usize,
}

impl Problems {
    pub(crate) fn one(file: &Path, text: impl Into<String>) -> Self {
        let problem = Diagnostic::new(Rule::InvalidFile, Level::Error, file, text);
        Self { first: vec![problem], more: 0 }
    }

    /// Number of errors.
    pub(crate) fn count(&self) -> usize {
        self.first.len() + self.more
    }

    fn push(&mut self, problem: Diagnostic) {
        match self.first.len() < MOST_ERRORS {
            true => self.first.push(problem),
            false => self.more += 1,
        }
    }
}

/// Parses the resources of a file. The result contains all errors of the file, except that a syntax
/// error ends it.
pub(crate) fn parse(
    path: &Path,
    format: Format,
    content: &[u8],
    validation: Validation,
) -> Result<Resources, Problems> {
    let shown = path.display().to_string();
    let document = parse_all(schema(), &shown, format, content, schema::FILES, MOST_ERRORS)
        .map_err(|errors| Problems {
            first: errors
                .errors
                .iter()
                .map(|error| Diagnostic::of_format(Rule::InvalidFile, path, error))
                .collect(),
            more: errors.more,
        })?;
    let limits = ServerLimits::default();
    let (mut resources, mut problems) = (Resources::new(), Problems::default());
    // Positions are needed only if there is a problem.
    let mut positions = None;
    let mut position = |resource: &Resource, field: &str| -> Option<Position> {
        let parsed = positions
            .get_or_insert_with(|| ResourcePositions::parse(format, content, schema::FILES));
        parsed.as_ref()?.position(&resource.type_url, &resource.name, field)
    };
    for resource in document.resources {
        let id = ResourceId {
            type_url: resource.type_url.as_str().into(),
            name: resource.name.as_str().into(),
        };
        let invalid = |text| Diagnostic::new(Rule::InvalidFile, Level::Error, path, text);
        if let Some(fault) = fault_of(&resource, &limits) {
            problems.push(invalid(fault).at(position(&resource, "")));
            continue;
        }
        if resource.wrapper.as_ref().is_some_and(|it| it.ttl.is_some() || !it.aliases.is_empty()) {
            tracing::warn!(
                file = shown,
                resource = resource.name,
                "the TTL and the aliases of a resource are not supported"
            );
        }
        for why in validation.violations(&resource.type_url, &resource.bytes) {
            let problem = invalid(format!("{id}: {why}")).at(position(&resource, why.path()));
            problems.push(problem.in_field(why.path()).about(id.clone()));
        }
        let key = Key { type_url: id.type_url, name: id.name };
        resources.insert(key, resource.bytes);
    }
    match problems.first.is_empty() {
        true => Ok(resources),
        false => Err(problems),
    }
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
