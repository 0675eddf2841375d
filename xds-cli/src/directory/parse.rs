//! Parsing of one file into resources.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use xds_core::{ResourceName, TypeUrl, references::ResourceId, server::ServerLimits};
use xds_format::{
    ErrorKind, Format, Position, Resource, ResourcePositions, decode_check, encode_message,
    parse_all, resource_name,
};
use xds_source::{Content, Document, Object};

use crate::{
    diagnostic::{Diagnostic, Level, Rule},
    resource_types::Validation,
    schema::{self, schema},
    text::type_name,
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

/// Parses the resources of an object of a source.
pub(super) fn parse_object(object: &Object, validation: Validation) -> Result<Resources, Problems> {
    let place = Path::new(object.id.as_str());
    match &object.content {
        Content::Document { format, bytes, only: None } => parse(place, *format, bytes, validation),
        Content::Document { format, bytes, only: Some((type_url, name)) } => {
            parse_only(place, *format, bytes, (type_url, name), validation)
        }
        Content::Documents(documents) => parse_documents(place, documents, validation),
        Content::Resources(resources) => {
            let mut parsed = Resources::new();
            let mut problems = Problems::default();
            for (type_url, name, bytes) in resources {
                match encoded_fault(type_url, name, bytes) {
                    Some(fault) => problems.push(invalid(place, fault)),
                    None => {
                        let key = Key { type_url: type_url.clone(), name: name.clone() };
                        parsed.insert(key, bytes.clone());
                    }
                }
            }
            if problems.first.is_empty() { Ok(parsed) } else { Err(problems) }
        }
        Content::Invalid(why) => Err(Problems::one(place, why.as_str())),
        _ => Err(Problems::one(place, "contents of this kind are not supported")),
    }
}

/// Parses documents that are valid together or not at all. The result contains the errors of all of
/// them.
fn parse_documents(
    place: &Path,
    documents: &[Document],
    validation: Validation,
) -> Result<Resources, Problems> {
    let (mut resources, mut problems) = (Resources::new(), Problems::default());
    let mut owners: BTreeMap<Key, PathBuf> = BTreeMap::new();
    for Document { name, format, bytes, .. } in documents {
        let path = place.join(name);
        let parsed = match parse(&path, *format, bytes, validation) {
            Ok(parsed) => parsed,
            Err(found) => {
                found.first.into_iter().for_each(|problem| problems.push(problem));
                problems.more += found.more;
                continue;
            }
        };
        for (key, bytes) in parsed {
            if let Some(owner) = owners.get(&key) {
                problems.push(already_defined(&path, &key, owner));
                continue;
            }
            owners.insert(key.clone(), path.clone());
            resources.insert(key, bytes);
        }
    }
    if problems.first.is_empty() { Ok(resources) } else { Err(problems) }
}

/// Returns the error about a resource that another file or document defines already.
pub(super) fn already_defined(path: &Path, key: &Key, owner: &Path) -> Diagnostic {
    let (type_name, owner) = (type_name(key.type_url.as_str()), owner.display());
    let name = &key.name;
    invalid(path, format!("the {type_name} resource `{name}` is already defined in {owner}"))
}

/// Returns the encoded message of a value in etcd, whose key states the type and the name.
#[cfg(feature = "etcd")]
pub(crate) fn parse_value(
    type_url: &TypeUrl,
    name: &ResourceName,
    value: &Bytes,
) -> Result<Bytes, Problems> {
    let place = format!("{} {name}", type_name(type_url.as_str()));
    let content = xds_etcd::content_of_value(type_url, name, value.clone());
    let revision = xds_source::Revision::default();
    let object = Object::new(place.as_str(), xds_core::ViewName::default(), revision, content);
    let parsed = parse_object(&object, Validation::default())?.into_values().next();
    parsed.ok_or_else(|| Problems::one(Path::new(&place), "the value has no resource"))
}

/// Parses an object that has exactly one resource, whose type and name are known. Its type may be
/// left out.
fn parse_only(
    place: &Path,
    format: Format,
    content: &[u8],
    (type_url, name): (&TypeUrl, &ResourceName),
    validation: Validation,
) -> Result<Resources, Problems> {
    if format == Format::Binary || states_type(format, content) {
        let resources = parse(place, format, content, validation)?;
        let is_only = |key: &Key| key.type_url == *type_url && key.name == *name;
        return match resources.keys().all(is_only) && resources.len() == 1 {
            true => Ok(resources),
            false => {
                let expected = ResourceId { type_url: type_url.clone(), name: name.clone() };
                let text = format!("the value must be {expected}, as the key states");
                Err(Problems::one(place, text))
            }
        };
    }
    let shown = place.display().to_string();
    let message = type_url.as_str().rsplit_once('/').map_or("", |(_, message)| message);
    let bytes = encode_message(schema(), &shown, message, format, content).map_err(|error| {
        Problems { first: vec![Diagnostic::of_format(Rule::InvalidFile, place, &error)], more: 0 }
    })?;
    let bytes = Bytes::from(bytes);
    if let Some(fault) = encoded_fault(type_url, name, &bytes) {
        return Err(Problems::one(place, fault));
    }
    let violations = validation.violations(type_url.as_str(), &bytes);
    if let Some(why) = violations.first() {
        let id = ResourceId { type_url: type_url.clone(), name: name.clone() };
        return Err(Problems::one(place, format!("{id}: {why}")));
    }
    Ok(Resources::from([(Key { type_url: type_url.clone(), name: name.clone() }, bytes)]))
}

/// Field that states the type of a resource in JSON and YAML.
const TYPE_FIELD: &[u8] = b"@type";

/// Whether a document states the type of its resource. Extensions inside it state their types in any
/// case.
fn states_type(format: Format, content: &[u8]) -> bool {
    if !content.windows(TYPE_FIELD.len()).any(|part| part == TYPE_FIELD) {
        return false;
    }
    match xds_format::parse(schema(), "", format, content) {
        Ok(_) => true,
        Err(error) => {
            let is_untyped = matches!(error.kind(), ErrorKind::UnexpectedShape { .. });
            !(is_untyped && error.path().is_empty())
        }
    }
}

/// Returns the fault of an encoded resource whose type and name are stated elsewhere.
fn encoded_fault(type_url: &TypeUrl, name: &ResourceName, bytes: &Bytes) -> Option<String> {
    if let Err(why) = decode_check(schema(), type_url.as_str(), bytes) {
        return Some(why.to_string());
    }
    // Only types that the schema knows have a name.
    if let Ok(found) = resource_name(schema(), type_url.as_str(), bytes)
        && found != name.as_str()
    {
        return Some(format!("the resource is named `{found}`, but its key states `{name}`"));
    }
    fault_of(type_url.as_str(), name.as_str(), bytes, &ServerLimits::default())
}

fn invalid(place: &Path, text: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Rule::InvalidFile, Level::Error, place, text)
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
        let Resource { type_url, name, bytes, .. } = &resource;
        if let Some(fault) = fault_of(type_url, name, bytes, &limits) {
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
fn fault_of(type_url: &str, name: &str, bytes: &Bytes, limits: &ServerLimits) -> Option<String> {
    let longest = name.len().max(type_url.len());
    if name == "*" {
        Some("the resource name `*` is reserved for the wildcard".to_owned())
    } else if longest > limits.name_bytes {
        Some(format!("resource name of {longest} bytes exceeds the limit of {}", limits.name_bytes))
    } else if bytes.len() > limits.resource_bytes {
        let (bytes, limit) = (bytes.len(), limits.resource_bytes);
        Some(format!("the resource `{name}` of {bytes} bytes exceeds the limit of {limit}"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xds_core::types;

    #[test]
    fn type_of_a_listener_may_be_left_out_although_its_filters_state_theirs() {
        let filter = r#""http_filters": [{"name": "router", "typed_config": {"@type":
            "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]"#;
        let manager = format!(
            r#"{{"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", {filter}}}"#
        );
        let listener = |first: &str, last: &str| {
            let text = format!(
                r#"{{{first}"name": "web", "api_listener": {{"api_listener": {manager}}}{last}}}"#
            );
            parse_only(
                Path::new("key"),
                Format::Json,
                text.as_bytes(),
                (&types::LISTENER.into(), &"web".into()),
                Validation::default(),
            )
        };
        let stated = format!(r#""@type": "{}", "#, types::LISTENER);
        assert_eq!(listener("", "").unwrap(), listener(&stated, "").unwrap());
        for first in ["", &stated] {
            let problems = listener(first, r#", "adress": {}"#).unwrap_err();
            let text = problems.first[0].to_string();
            assert!(text.contains("unknown field `adress`"), "{text}");
        }
        // A type that is not the one of the key.
        let stated = format!(r#""@type": "{}", "#, types::CLUSTER);
        assert!(listener(&stated, "").is_err());
    }
}
