//! No input causes a panic, a stack overflow or excessive memory use.

use crate::common::{Rng, random_message, random_type};
use proptest::prelude::*;
use prost_reflect::FileDescriptor;
use prost_reflect::prost::Message as _;
use xds_format::{
    Format, PrintOptions, Schema, Validator, compare, decode_check, encode_message, parse,
    resource_name, to_json_string, to_text, to_yaml,
};

const FORMATS: [Format; 4] = [Format::Json, Format::Yaml, Format::Text, Format::Binary];
const NAMES: [&str; 6] = [
    "envoy.config.cluster.v3.Cluster",
    "envoy.service.discovery.v3.DiscoveryResponse",
    "envoy.extensions.transport_sockets.tls.v3.Secret",
    "google.protobuf.Struct",
    "google.protobuf.Any",
    "xds.type.v3.TypedStruct",
];

/// Passes the input to every function that takes bytes.
fn try_everything(input: &[u8]) {
    let schema = Schema::envoy();
    let options = PrintOptions::default();
    for format in FORMATS {
        if let Ok(document) = parse(schema, "f", format, input) {
            let _ = parse(schema, "f", Format::Binary, &document.to_discovery_response());
        }
        for name in NAMES {
            let _ = encode_message(schema, "f", name, format, input);
        }
    }
    for name in NAMES {
        let type_url = format!("t/{name}");
        let _ = decode_check(schema, &type_url, input);
        let _ = Validator::envoy().violations(&type_url, input);
        let _ = resource_name(schema, &type_url, input);
        let _ = to_json_string(schema, &type_url, input, &options);
        let _ = to_yaml(schema, &type_url, input, &options);
        let _ = to_text(schema, &type_url, input, &options);
    }
}

proptest! {
    #[test]
    fn random_bytes_do_not_panic(input in prop::collection::vec(any::<u8>(), 0..200)) {
        try_everything(&input);
    }

    #[test]
    fn random_text_does_not_panic(input in "\\PC{0,200}") {
        try_everything(input.as_bytes());
    }

    /// Random sequences of characters from the grammars.
    #[test]
    fn random_punctuation_does_not_panic(input in r#"([\[\]{}<>:,;"'&*!|>%@`#?~.\-+\\ \n\t]|@type|name|resources|[0-9a]|- |: |<<){0,80}"#) {
        try_everything(input.as_bytes());
    }

    /// Printed resources with a few characters changed.
    #[test]
    fn damaged_files_do_not_panic(seed: u64, damage in prop::collection::vec((any::<prop::sample::Index>(), "\\PC"), 1..5)) {
        let mut rng = Rng(seed);
        let message = random_type(&mut rng, Schema::envoy());
        let type_url = format!("t/{}", message.full_name());
        let bytes = random_message(&mut rng, &message, 3).encode_to_vec();
        let options = PrintOptions::default();
        let printed = [
            (Format::Json, to_json_string(Schema::envoy(), &type_url, &bytes, &options)),
            (Format::Yaml, to_yaml(Schema::envoy(), &type_url, &bytes, &options)),
            (Format::Text, to_text(Schema::envoy(), &type_url, &bytes, &options)),
        ];
        for (format, text) in printed {
            let mut chars: Vec<char> = text.unwrap().chars().collect();
            for (at, replacement) in &damage {
                let at = at.index(chars.len());
                chars[at] = replacement.chars().next().unwrap_or_default();
            }
            let damaged: String = chars.into_iter().collect();
            let _ = parse(Schema::envoy(), "f", format, damaged.as_bytes());
        }
    }

    /// Damaged descriptor sets, which users may load from files.
    #[test]
    fn damaged_descriptor_sets_do_not_panic(
        file in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let files: Vec<_> = Schema::envoy().pool().files().collect();
        let mut set = vec![];
        append_file(&files[file.index(files.len())], &mut set, &mut vec![]);
        if set.len() < 20_000 {
            prop_assert!(Schema::from_descriptor_set(&set).is_ok());
        }
        let whole = Schema::from_descriptor_set(&set);
        for (at, byte) in damage {
            let at = at.index(set.len());
            set[at] = byte;
        }
        let damaged = Schema::from_descriptor_set(&set);
        if let (Ok(whole), Ok(damaged)) = (whole, damaged) {
            let _ = (compare(&whole, &damaged), compare(&damaged, &whole));
            let _ = Validator::new(&damaged);
        }
        let _ = Schema::from_descriptor_set(&set[..cut.index(set.len())]);
    }
}

/// Appends the imports of a file and then the file, as fields of a `FileDescriptorSet`. Large sets
/// are left incomplete.
fn append_file(file: &FileDescriptor, set: &mut Vec<u8>, done: &mut Vec<String>) {
    if set.len() > 20_000 || done.iter().any(|name| name == file.name()) {
        return;
    }
    done.push(file.name().to_owned());
    for dependency in file.dependencies() {
        append_file(&dependency, set, done);
    }
    let encoded = file.encode_to_vec();
    set.push(0x0a);
    let mut len = encoded.len();
    while len >= 0x80 {
        set.push(len as u8 | 0x80);
        len >>= 7;
    }
    set.push(len as u8);
    set.extend_from_slice(&encoded);
}

/// Uses a small stack and the shapes that nest: lists, objects, structs, `Any` in `Any`, and
/// recursive messages.
#[test]
fn deep_nesting_is_an_error_and_not_a_stack_overflow() {
    let deep = |open: &str, close: &str, levels: usize| {
        format!("{}{}", open.repeat(levels), close.repeat(levels))
    };
    let any = r#"{"@type":"t/google.protobuf.Any","value":"#;
    let inputs: Vec<String> = [90, 199, 201, 100_000]
        .into_iter()
        .flat_map(|levels| {
            [
                deep("[", "]", levels),
                deep("{\"a\":", "}", levels),
                deep(any, "}", levels),
                format!("resources {{ {} }}", deep("a {", "}", levels)),
                format!(
                    r#"{{"@type":"t/envoy.config.core.v3.Node","id":"x","metadata":{{"a":{}}}}}"#,
                    deep("[", "]", levels)
                ),
                format!(
                    r#"{{"@type":"t/envoy.config.rbac.v3.Principal","name":"x",{}"x":1{}}}"#,
                    "\"not_id\":{".repeat(levels),
                    "}".repeat(levels)
                ),
                deep("- ", "", levels),
                deep("? ", "", levels),
                deep("a:\n ", "", levels),
                deep("!!str ", "", levels),
                deep("&a ", "", levels),
            ]
        })
        .collect();
    let run = move || inputs.iter().for_each(|input| try_everything(input.as_bytes()));
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn messages_nest_up_to_the_decoding_limit() {
    let schema = Schema::envoy();
    let nested =
        |levels: usize| format!("{{\"a\": {}1{}}}", "[".repeat(levels), "]".repeat(levels));
    let encode = |levels| {
        encode_message(
            schema,
            "f",
            "google.protobuf.Struct",
            Format::Json,
            nested(levels).as_bytes(),
        )
    };
    // An entry and a value, and then a list and a value for each level.
    let deepest = encode(49).unwrap();
    assert_eq!(decode_check(schema, "t/google.protobuf.Struct", &deepest), Ok(()));
    assert!(
        to_json_string(schema, "t/google.protobuf.Struct", &deepest, &PrintOptions::default())
            .is_ok()
    );
    let error = encode(50).unwrap_err().to_string();
    assert!(error.ends_with(": nested deeper than 100 levels"), "{error}");
}

/// Uses a small stack and `Any`s nested to the maximum depth.
#[test]
fn validation_reaches_the_maximum_nesting_depth() {
    let any = "google.protobuf.Any";
    let mut nested = Vec::new();
    for _ in 0..290 {
        let mut outer = vec![0x0a, u8::try_from(any.len() + 2).unwrap()];
        outer.extend_from_slice(b"t/");
        outer.extend_from_slice(any.as_bytes());
        outer.push(0x12);
        let mut len = nested.len();
        while len >= 0x80 {
            outer.push(len as u8 | 0x80);
            len >>= 7;
        }
        outer.push(len as u8);
        outer.extend_from_slice(&nested);
        nested = outer;
    }
    let run = move || {
        assert_eq!(Validator::envoy().check("t/google.protobuf.Any", &nested), Ok(()));
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn exponential_yaml_aliases_are_an_error() {
    let mut yaml = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (outer, inner) in ('b'..='z').zip('a'..) {
        yaml.push_str(&format!("{outer}: &{outer} [*{inner},*{inner},*{inner},*{inner},*{inner},*{inner},*{inner},*{inner},*{inner}]\n"));
    }
    let error = parse(Schema::envoy(), "f", Format::Yaml, yaml.as_bytes()).unwrap_err().to_string();
    assert!(error.ends_with("aliases expand to more than 67108864 bytes"), "{error}");
}

#[test]
fn megabyte_strings_and_names_do_not_panic() {
    let long = "x".repeat(1 << 20);
    for text in [
        format!("\"{long}\""),
        format!("{{\"{long}\": 1}}"),
        format!("'@type': t/envoy.config.cluster.v3.Cluster\nname: {long}\n{long}: 1\n"),
        format!("- {long}"),
        format!("{long} {{ {long}: \"{long}\" }}"),
        "\\".repeat(1 << 20),
        "\"".repeat(1 << 20),
        "1".repeat(1 << 20),
        "\n".repeat(1 << 20),
        "# x\n".repeat(1 << 18),
    ] {
        try_everything(text.as_bytes());
    }
}
