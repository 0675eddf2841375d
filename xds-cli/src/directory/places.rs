//! Lines and columns of findings about valid resources.
//!
//! Findings come from encoded resources, which have no positions. The files of the findings are
//! therefore parsed again.

use std::path::{Path, PathBuf};

use xds_core::{ResourceName, TypeUrl, types};
use xds_format::{Position, ResourcePositions};

use super::sources::Sources;
use crate::{diagnostic::Diagnostic, schema};

/// Finding without a position, and the place that it is about.
pub(super) struct Unplaced {
    pub(super) place: Part,
    pub(super) found: Diagnostic,
}

/// Part of a resource that a finding is about.
pub(super) enum Part {
    Resource,
    /// Field at this path.
    Field(String),
    /// Reference to a resource of this type and name.
    Reference {
        type_url: TypeUrl,
        name: ResourceName,
    },
}

/// Adds the positions, and sorts the findings by file and position.
pub(super) fn placed(sources: &Sources, mut unplaced: Vec<Unplaced>) -> Vec<Diagnostic> {
    unplaced.sort_by(|a, b| a.found.file.cmp(&b.found.file));
    let files = unplaced.chunk_by(|a, b| a.found.file == b.found.file);
    files.flat_map(|of_file| in_file(sources, of_file)).collect()
}

fn in_file(sources: &Sources, unplaced: &[Unplaced]) -> Vec<Diagnostic> {
    let file = unplaced.first().map_or_else(|| Path::new(""), |it| it.found.file.as_path());
    // A position in another content than the one in use would be wrong.
    let documents = sources.documents_in_use(file);
    let documents: Vec<_> = documents
        .iter()
        .filter_map(|(path, format, content)| {
            Some((path, ResourcePositions::parse(*format, content, schema::FILES)?))
        })
        .collect();
    let mut found: Vec<_> = unplaced
        .iter()
        .map(|it| {
            let place = |(path, all): &(&PathBuf, ResourcePositions<'_>)| {
                Some(((*path).clone(), position(all, it)?))
            };
            let mut found = it.found.clone();
            if let Some((path, position)) = documents.iter().find_map(place) {
                found.file = path;
                found = found.at(Some(position));
            }
            found
        })
        .collect();
    found.sort_by(|a, b| (&a.file, a.position).cmp(&(&b.file, b.position)));
    found
}

fn position(positions: &ResourcePositions<'_>, unplaced: &Unplaced) -> Option<Position> {
    let resource = unplaced.found.resource.as_ref()?;
    let (of, name) = (resource.type_url.as_str(), resource.name.as_str());
    match &unplaced.place {
        Part::Resource => positions.position(of, name, ""),
        Part::Field(path) => positions.position(of, name, path),
        Part::Reference { type_url, name: target } => {
            positions.mention(of, name, target.as_str(), fields_with_names_of(type_url.as_str()))
        }
    }
}

/// Fields that contain names of resources of a type.
fn fields_with_names_of(type_url: &str) -> &'static [&'static str] {
    match type_url {
        types::CLUSTER => &["cluster", "clusters.name", "clusters"],
        types::CLUSTER_LOAD_ASSIGNMENT => &["service_name"],
        types::ROUTE_CONFIGURATION => &["route_config_name", "route_configuration_name"],
        types::SCOPED_ROUTE_CONFIGURATION => &["srds_resources_locator"],
        types::SECRET => &[
            "tls_certificate_sds_secret_configs.name",
            "validation_context_sds_secret_config.name",
        ],
        _ => &["filters.name", "http_filters.name", "listener_filters.name"],
    }
}
