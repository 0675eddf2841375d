//! Fuzz target for the references in resources.

use std::collections::BTreeSet;

use xds_core::{
    Malformed,
    references::{
        self as refers, Consistency, EnvoyReferences, Finding, Reference, ReferenceExtractor as _,
        ReferenceTarget,
    },
    types,
};
use xds_format::{Format, PrintOptions, Redaction, Schema, parse, to_json_string};

/// Types whose resources refer to others.
const TYPES: [&str; 6] = [
    types::CLUSTER,
    types::EXTENSION_CONFIG,
    types::LISTENER,
    types::ROUTE_CONFIGURATION,
    types::SCOPED_ROUTE_CONFIGURATION,
    types::VIRTUAL_HOST,
];

/// Types whose fields can be read independently of each other.
const FIELD_BY_FIELD: [&str; 4] = [
    types::EXTENSION_CONFIG,
    types::LISTENER,
    types::SCOPED_ROUTE_CONFIGURATION,
    types::VIRTUAL_HOST,
];

/// Types whose resources refer to no others.
const LEAVES: [&str; 3] = [types::CLUSTER_LOAD_ASSIGNMENT, types::RUNTIME, types::SECRET];

/// Reads the bytes as a resource of each type, and checks its references.
pub fn references(bytes: &[u8]) {
    for type_url in TYPES {
        check_walk(type_url, bytes);
        check_set(type_url, bytes);
        if refers::references(type_url, bytes).is_ok() {
            check_sound(type_url, bytes);
        }
        if let Some(anew) = written_anew(type_url, bytes) {
            check_anew(type_url, &anew);
        }
    }
    for type_url in FIELD_BY_FIELD {
        check_order(type_url, bytes);
    }
    for type_url in LEAVES {
        assert_eq!(refers::references(type_url, bytes), Ok(Vec::new()), "{type_url}");
    }
}

/// Returns the references that a walk reports, in order, and its result.
fn walk(type_url: &str, bytes: &[u8]) -> (Vec<String>, Result<(), Malformed>) {
    let mut told = Vec::new();
    let mut tell = |reference: Reference<'_>| {
        assert!(types::short_name(reference.type_url).is_some(), "{reference:?} is of no type");
        if let ReferenceTarget::Name(name) | ReferenceTarget::Prefix(name) = reference.target {
            assert!(!name.is_empty(), "{reference:?} has no name");
        }
        told.push(format!("{reference:?}"));
    };
    let end = EnvoyReferences.references(type_url, bytes, &mut tell);
    (told, end)
}

/// Checks the number of references, of which each needs at least two bytes, and that `references`
/// returns the same ones sorted and without duplicates, or the same error.
fn check_walk(type_url: &str, bytes: &[u8]) {
    let (told, end) = walk(type_url, bytes);
    assert!(told.len() <= bytes.len() / 2, "{} in {} bytes", told.len(), bytes.len());
    let listed = refers::references(type_url, bytes);
    assert_eq!(listed.as_ref().map(|_| ()).map_err(|why| *why), end);
    let Ok(listed) = listed else { return };
    assert!(listed.is_sorted_by(|first, second| first < second), "{listed:?}");
    let listed: BTreeSet<String> = listed.iter().map(|one| format!("{one:?}")).collect();
    assert_eq!(listed, BTreeSet::from_iter(told));
}

/// Checks the consistency of a set with only this resource.
///
/// The set must be malformed exactly if the resource is. No reference may be missing if all are
/// external, and each must be reported once if none is.
fn check_set(type_url: &str, bytes: &[u8]) {
    let check = |check: Consistency<'_>| check.check([(type_url, "fuzz", bytes)]);
    let count_missing = |findings: &[Finding]| {
        findings.iter().filter(|finding| matches!(finding, Finding::Missing { .. })).count()
    };
    let alone = check(Consistency::default());
    let is_malformed = alone.iter().any(|it| matches!(it, Finding::Malformed { .. }));
    let found = refers::references(type_url, bytes);
    assert_eq!(is_malformed, found.is_err(), "{alone:?}");
    let Ok(found) = found else { return };
    assert!(count_missing(&alone) <= found.len(), "{alone:?} is missing of {found:?}");
    let around = found.iter().fold(Consistency::default(), |around, one| match one.target {
        ReferenceTarget::Name(name) => around.with_external(one.type_url, name),
        ReferenceTarget::All => around.with_all_external(one.type_url),
        // Resources requested on demand are never missing.
        _ => around,
    });
    let served = check(around);
    assert_eq!(count_missing(&served), 0, "{served:?}");
}

/// Checks that a valid resource has the same references if it is repeated or has unknown fields,
/// and that it is malformed without its last byte, which belongs to a field.
fn check_sound(type_url: &str, bytes: &[u8]) {
    /// Field number 2047 with the value one.
    const NOBODY_KNOWS: [u8; 3] = [0xf8, 0x7f, 1];

    let found = refers::references(type_url, bytes);
    for more in [bytes, &NOBODY_KNOWS] {
        assert_eq!(refers::references(type_url, &[bytes, more].concat()), found);
    }
    if let [beginning @ .., _] = bytes {
        let cut = refers::references(type_url, beginning);
        assert!(matches!(cut, Err(Malformed::Truncated { .. })), "{cut:?}");
    }
}

/// Checks that the references of a truncated resource are the first ones of the whole resource.
fn check_order(type_url: &str, bytes: &[u8]) {
    /// Maximum number of positions at which a resource is truncated.
    const PLACES: usize = 128;

    let (whole, _) = walk(type_url, bytes);
    for end in (0..bytes.len()).step_by(bytes.len() / PLACES + 1) {
        let (beginning, _) = walk(type_url, &bytes[..end]);
        assert!(whole.starts_with(&beginning), "{beginning:?} at {end}, and {whole:?}");
    }
}

/// Checks that a resource accepted by the API's decoders can be walked, unless it is
/// nested too deeply.
fn check_anew(type_url: &str, anew: &[u8]) {
    match refers::references(type_url, anew) {
        Ok(_) => check_sound(type_url, anew),
        Err(why) => assert!(matches!(why, Malformed::Depth { .. }), "{why:?}: {anew:02x?}"),
    }
}

/// Encodes the resource again by means of the API's descriptors, if they accept it. The result has
/// no unknown fields and no groups, which the walk does not skip.
fn written_anew(type_url: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let schema = Schema::envoy();
    let options = PrintOptions::default().with_redaction(Redaction::Shown);
    let printed = to_json_string(schema, type_url, bytes, &options).ok()?;
    let document = parse(schema, "printed", Format::Json, printed.as_bytes()).ok()?;
    document.resources.first().map(|resource| resource.bytes.to_vec())
}
