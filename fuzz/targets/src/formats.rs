//! Fuzz targets for resource files.

use xds_format::{
    ErrorKind, Format, ParseOptions, PrintOptions, Redaction, Schema, UnknownTypes, Validator,
    parse, parse_with, resource_name, to_json_string, to_text, to_yaml, unprintable,
};

const LENIENT: ParseOptions = ParseOptions::envoy();

/// Fuzz target for JSON files.
pub fn json(bytes: &[u8]) {
    file(Format::Json, bytes);
}

/// Fuzz target for YAML files.
pub fn yaml(bytes: &[u8]) {
    file(Format::Yaml, bytes);
}

/// Fuzz target for files in protobuf's text format.
pub fn text(bytes: &[u8]) {
    file(Format::Text, bytes);
}

/// Fuzz target for binary files.
///
/// Reading and writing a file must reproduce it, and printed resources must parse to resources that
/// print the same.
pub fn binary(bytes: &[u8]) {
    let schema = Schema::envoy();
    let Ok(document) = parse(schema, "f", Format::Binary, bytes) else { return };
    let response = document.to_discovery_response();
    if response.is_empty() {
        // Fields that are not kept, such as unknown ones (S4.044): a list of no resources, but not an empty file.
        assert!(document.resources.is_empty() && !bytes.is_empty());
        return;
    }
    let again = parse(schema, "f", Format::Binary, &response).expect("what was read is valid");
    assert_eq!(again.to_discovery_response(), response);

    let options = for_programs();
    for resource in &document.resources {
        let print = |bytes: &[u8]| to_json_string(schema, &resource.type_url, bytes, &options);
        // Not every decodable resource can be printed: it may contain an `Any` of an unknown type.
        let Ok(printed) = print(&resource.bytes) else { continue };
        let Ok(back) = parse(schema, "printed", Format::Json, printed.as_bytes()) else { continue };
        assert_eq!(back.resources.len(), 1, "{printed}");
        let again = print(&back.resources[0].bytes).expect("it was printed before");
        assert_eq!(again, printed);
    }
}

fn for_programs() -> PrintOptions {
    let options = PrintOptions::default().with_redaction(Redaction::Shown);
    options.with_unknown_types(UnknownTypes::Refused)
}

/// Checks that a valid file has an equivalent binary form, and that its printed resources parse to
/// the same bytes.
fn file(format: Format, bytes: &[u8]) {
    let schema = Schema::envoy();
    let lenient = parse_with(schema, "f", format, bytes, LENIENT);
    let Ok(document) = parse(schema, "f", format, bytes) else { return };
    assert_eq!(lenient, Ok(document.clone()), "leniency changes no meaning");
    let response = document.to_discovery_response();
    if response.is_empty() {
        return; // An empty list is valid, but its binary form, an empty file, is not.
    }
    let again = parse(schema, "f", Format::Binary, &response).expect("what was read is valid");
    assert_eq!(again.to_discovery_response(), response);

    let options = for_programs();
    for resource in &document.resources {
        let name = resource_name(schema, &resource.type_url, &resource.bytes);
        assert!(name.is_ok(), "a resource has a name: {name:?}");
        let violations = Validator::envoy().violations(&resource.type_url, &resource.bytes);
        assert!(violations.is_ok(), "what was read decodes: {violations:?}");
        let printed = [
            (Format::Json, to_json_string(schema, &resource.type_url, &resource.bytes, &options)),
            (Format::Yaml, to_yaml(schema, &resource.type_url, &resource.bytes, &options)),
            (Format::Text, to_text(schema, &resource.type_url, &resource.bytes, &options)),
        ];
        for (format, printed) in printed {
            let printed = match printed {
                // The text format can print an `Any` of an unknown type as bytes;
                // the others cannot.
                Err(why) if matches!(why.kind(), ErrorKind::UnprintableAny { .. }) => {
                    let listed = unprintable(schema, &resource.type_url, &resource.bytes);
                    assert_eq!(listed.expect("it decodes").first(), Some(&why));
                    continue;
                }
                printed => printed.expect("what was read can be printed"),
            };
            let back = parse(schema, "printed", format, printed.as_bytes())
                .unwrap_or_else(|why| panic!("{why}\n{printed}"));
            assert_eq!(back.resources.len(), 1, "{printed}");
            assert_eq!(back.resources[0].bytes, resource.bytes, "{printed}");
        }
    }
}
