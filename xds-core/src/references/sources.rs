//! Rules for references that depend on several fields, such as a name and its `ConfigSource`.

use super::{
    reference::{ConfigSource, ReferenceTarget},
    walk::Walk,
};
use crate::{
    types,
    wire::{
        Malformed,
        walk::{FieldValue, Fields, string_field},
    },
};

/// Reference of a cluster of type `EDS` to its endpoints, by the service name or otherwise its own
/// name.
pub(super) fn cluster<'a>(walk: &mut Walk<'a, '_>, cluster: &'a [u8]) -> Result<(), Malformed> {
    const EDS: FieldValue<'_> = FieldValue::Number(3);
    let (mut name, mut is_eds, mut config) = ("", false, None);
    for field in Fields::of(cluster) {
        let field = field?;
        match field.number {
            1 => name = field.string()?,
            2 => is_eds = field.value == EDS,
            3 => config = Some(field.block()?),
            // A custom cluster type replaces the type.
            38 => is_eds = false,
            _ => {}
        }
    }
    if !is_eds {
        return Ok(());
    }
    let config = config.unwrap_or_default();
    if let StatedSource::Server(source) = source_in(config, 1)? {
        let service = string_field(config, 2)?;
        let name = if service.is_empty() { name } else { service };
        walk.name(types::CLUSTER_LOAD_ASSIGNMENT, name, source);
    }
    Ok(())
}

pub(super) fn rds<'a>(walk: &mut Walk<'a, '_>, rds: &'a [u8]) -> Result<(), Malformed> {
    let name = string_field(rds, 2)?;
    if let StatedSource::Server(source) = source_in(rds, 1)? {
        walk.name(types::ROUTE_CONFIGURATION, name, source);
    }
    Ok(())
}

/// References of inline scopes, whose routes have the source stated in the listener.
pub(super) fn scoped_routes<'a>(
    walk: &mut Walk<'a, '_>,
    scoped_routes: &'a [u8],
) -> Result<(), Malformed> {
    let source = source_in(scoped_routes, 3)?;
    for list in blocks(scoped_routes, 4) {
        for scope in blocks(list?, 1) {
            let scope = scope?;
            let name = string_field(scope, 2)?;
            if let StatedSource::Server(source) = source {
                walk.name(types::ROUTE_CONFIGURATION, name, source);
            }
            for routes in blocks(scope, 5) {
                walk.resource(types::ROUTE_CONFIGURATION, routes?)?;
            }
        }
    }
    Ok(())
}

/// Reference to scopes: all of them, unless a collection is named.
pub(super) fn scoped_rds<'a>(
    walk: &mut Walk<'a, '_>,
    scoped_rds: &'a [u8],
) -> Result<(), Malformed> {
    let collection = string_field(scoped_rds, 2)?;
    match source_in(scoped_rds, 1)? {
        StatedSource::File => {}
        StatedSource::Server(source) if collection.is_empty() => {
            walk.found(types::SCOPED_ROUTE_CONFIGURATION, ReferenceTarget::All, source);
        }
        StatedSource::Server(source) => {
            walk.name(types::SCOPED_ROUTE_CONFIGURATION, collection, source);
        }
    }
    Ok(())
}

/// Reference to virtual hosts, which are requested on demand by names below the name of their route
/// configuration.
pub(super) fn route_configuration<'a>(
    walk: &mut Walk<'a, '_>,
    configuration: &'a [u8],
) -> Result<(), Malformed> {
    let name = string_field(configuration, 1)?;
    for vhds in blocks(configuration, 9) {
        if let StatedSource::Server(source) = source_in(vhds?, 1)?
            && !name.is_empty()
        {
            walk.found(types::VIRTUAL_HOST, ReferenceTarget::Prefix(name), source);
        }
    }
    Ok(())
}

/// Reference to a secret. A secret without a source is in the bootstrap.
pub(super) fn secret<'a>(walk: &mut Walk<'a, '_>, secret: &'a [u8]) -> Result<(), Malformed> {
    let name = string_field(secret, 1)?;
    match source_in(secret, 2)? {
        StatedSource::File | StatedSource::Server(ConfigSource::Unspecified) => {}
        StatedSource::Server(source) => walk.name(types::SECRET, name, source),
    }
    Ok(())
}

/// Reference of a filter to its configuration, a resource with the filter's name. `FIELD` is the
/// number of the filter's `config_discovery`.
pub(super) fn filter<'a, const FIELD: u32>(
    walk: &mut Walk<'a, '_>,
    filter: &'a [u8],
) -> Result<(), Malformed> {
    let name = string_field(filter, 1)?;
    for discovery in blocks(filter, FIELD) {
        let discovery = discovery?;
        if let StatedSource::Server(source) = source_in(discovery, 1)? {
            walk.name(types::EXTENSION_CONFIG, name, source);
        }
        for default in blocks(discovery, 2) {
            walk.any(default?)?;
        }
    }
    Ok(())
}

/// Source stated by a `ConfigSource`.
#[derive(Clone, Copy, Debug)]
enum StatedSource {
    File,
    Server(ConfigSource),
}

/// Returns the `ConfigSource` in a field of a message.
fn source_in(message: &[u8], field: u32) -> Result<StatedSource, Malformed> {
    let mut source = StatedSource::Server(ConfigSource::Unspecified);
    for config in blocks(message, field) {
        for field in Fields::of(config?) {
            source = match field?.number {
                1 | 8 => StatedSource::File,
                2 => StatedSource::Server(ConfigSource::Api),
                3 => StatedSource::Server(ConfigSource::Aggregated),
                5 => StatedSource::Server(ConfigSource::SameServer),
                _ => source,
            };
        }
    }
    Ok(source)
}

/// Returns the contents of all occurrences of a field.
fn blocks(message: &[u8], number: u32) -> impl Iterator<Item = Result<&[u8], Malformed>> {
    Fields::of(message).filter_map(move |field| match field {
        Ok(field) => (field.number == number).then(|| field.block()),
        Err(why) => Some(Err(why)),
    })
}
