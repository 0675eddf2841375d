//! The rules that need more than one field: names with the `ConfigSource` beside them.

use super::{Source, Target, schema, walk::Walk};
use crate::{
    types,
    wire::{
        Malformed,
        walk::{Content, Fields, string_field},
    },
};

/// A cluster of type `EDS` refers to its endpoints, by the name of the service or else its own.
pub(super) fn cluster<'a>(walk: &mut Walk<'a, '_>, cluster: &'a [u8]) -> Result<(), Malformed> {
    const EDS: Content<'_> = Content::Number(3);
    let (mut name, mut is_eds, mut config) = ("", false, None);
    for field in Fields::of(cluster) {
        let field = field?;
        match field.number {
            1 => name = field.string()?,
            2 => is_eds = field.content == EDS,
            3 => config = Some(field.block()?),
            // A custom type takes the place of the type.
            38 => is_eds = false,
            _ => {}
        }
    }
    if !is_eds {
        return Ok(());
    }
    let config = config.unwrap_or_default();
    if let ConfigSource::Server(source) = source_in(config, 1)? {
        let service = string_field(config, 2)?;
        let name = if service.is_empty() { name } else { service };
        walk.name(types::CLUSTER_LOAD_ASSIGNMENT, name, source);
    }
    Ok(())
}

pub(super) fn rds<'a>(walk: &mut Walk<'a, '_>, rds: &'a [u8]) -> Result<(), Malformed> {
    let name = string_field(rds, 2)?;
    if let ConfigSource::Server(source) = source_in(rds, 1)? {
        walk.name(types::ROUTE_CONFIGURATION, name, source);
    }
    Ok(())
}

/// The routes of scopes that stand in the listener are asked for where the listener says.
pub(super) fn scoped_routes<'a>(
    walk: &mut Walk<'a, '_>,
    scoped_routes: &'a [u8],
) -> Result<(), Malformed> {
    let source = source_in(scoped_routes, 3)?;
    for list in blocks(scoped_routes, 4) {
        for scope in blocks(list?, 1) {
            let scope = scope?;
            let name = string_field(scope, 2)?;
            if let ConfigSource::Server(source) = source {
                walk.name(types::ROUTE_CONFIGURATION, name, source);
            }
            for routes in blocks(scope, 5) {
                walk.message(&schema::ROUTE_CONFIGURATION, routes?)?;
            }
        }
    }
    Ok(())
}

/// Scopes are a wildcard subscription, unless a collection is named.
pub(super) fn scoped_rds<'a>(
    walk: &mut Walk<'a, '_>,
    scoped_rds: &'a [u8],
) -> Result<(), Malformed> {
    let collection = string_field(scoped_rds, 2)?;
    match source_in(scoped_rds, 1)? {
        ConfigSource::File => {}
        ConfigSource::Server(source) if collection.is_empty() => {
            walk.found(types::SCOPED_ROUTE_CONFIGURATION, Target::All, source);
        }
        ConfigSource::Server(source) => {
            walk.name(types::SCOPED_ROUTE_CONFIGURATION, collection, source);
        }
    }
    Ok(())
}

/// Virtual hosts are asked for on demand, by names below that of their route configuration.
pub(super) fn route_configuration<'a>(
    walk: &mut Walk<'a, '_>,
    configuration: &'a [u8],
) -> Result<(), Malformed> {
    let name = string_field(configuration, 1)?;
    for vhds in blocks(configuration, 9) {
        if let ConfigSource::Server(source) = source_in(vhds?, 1)?
            && !name.is_empty()
        {
            walk.found(types::VIRTUAL_HOST, Target::Below(name), source);
        }
    }
    Ok(())
}

/// Without a source a secret is one that stands in the bootstrap.
pub(super) fn secret<'a>(walk: &mut Walk<'a, '_>, secret: &'a [u8]) -> Result<(), Malformed> {
    let name = string_field(secret, 1)?;
    match source_in(secret, 2)? {
        ConfigSource::File | ConfigSource::Server(Source::Unstated) => {}
        ConfigSource::Server(source) => walk.name(types::SECRET, name, source),
    }
    Ok(())
}

/// A filter whose configuration is a resource, which has the filter's name. `FIELD` is where the filter
/// says so.
pub(super) fn filter<'a, const FIELD: u32>(
    walk: &mut Walk<'a, '_>,
    filter: &'a [u8],
) -> Result<(), Malformed> {
    let name = string_field(filter, 1)?;
    for discovery in blocks(filter, FIELD) {
        let discovery = discovery?;
        if let ConfigSource::Server(source) = source_in(discovery, 1)? {
            walk.name(types::EXTENSION_CONFIG, name, source);
        }
        for default in blocks(discovery, 2) {
            walk.any(default?)?;
        }
    }
    Ok(())
}

/// What a `ConfigSource` says.
#[derive(Clone, Copy, Debug)]
enum ConfigSource {
    File,
    Server(Source),
}

/// The `ConfigSource` in a field of a message.
fn source_in(message: &[u8], field: u32) -> Result<ConfigSource, Malformed> {
    let mut source = ConfigSource::Server(Source::Unstated);
    for config in blocks(message, field) {
        for field in Fields::of(config?) {
            source = match field?.number {
                1 | 8 => ConfigSource::File,
                2 => ConfigSource::Server(Source::Api),
                3 => ConfigSource::Server(Source::Aggregated),
                5 => ConfigSource::Server(Source::SameServer),
                _ => source,
            };
        }
    }
    Ok(source)
}

/// The contents of one field, each time it stands in a message.
fn blocks(message: &[u8], number: u32) -> impl Iterator<Item = Result<&[u8], Malformed>> {
    Fields::of(message).filter_map(move |field| match field {
        Ok(field) => (field.number == number).then(|| field.block()),
        Err(why) => Some(Err(why)),
    })
}
