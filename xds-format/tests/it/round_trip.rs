//! Round trips of random messages of every Envoy type through every format, and comparison with the
//! formats of prost-reflect.
// S4.022

use crate::common::{RESOURCE_TYPES, Rng, random_message, random_type};
use proptest::prelude::*;
use prost_reflect::prost::Message as _;
use prost_reflect::{DeserializeOptions, DynamicMessage, MessageDescriptor};
use xds_format::{
    FieldNames, Format, PrintOptions, Redaction, Schema, decode_check, encode_message,
    message_to_json, to_json, to_text, to_yaml,
};

fn shown() -> PrintOptions {
    PrintOptions::default().with_redaction(Redaction::Shown)
}

fn random(seed: u64) -> (MessageDescriptor, DynamicMessage) {
    let mut rng = Rng(seed);
    let message = random_type(&mut rng, Schema::envoy());
    let value = random_message(&mut rng, &message, 5);
    (message, value)
}

fn url(message: &MessageDescriptor) -> String {
    format!("type.googleapis.com/{}", message.full_name())
}

/// Parses one message and returns its canonical bytes.
fn read(message: &MessageDescriptor, format: Format, text: &str) -> Vec<u8> {
    encode_message(Schema::envoy(), "printed", message.full_name(), format, text.as_bytes())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Removes `@type`, which belongs to an `Any` and is not a field of the message.
fn without_type(mut json: serde_json::Value) -> serde_json::Value {
    json.as_object_mut().expect("an object").shift_remove("@type");
    json
}

/// Returns the canonical bytes of a message, for comparison: map entries are unordered, and `Any`s
/// contain bytes.
fn canonical(message: &MessageDescriptor, value: &DynamicMessage) -> Vec<u8> {
    let json =
        message_to_json(Schema::envoy(), message.full_name(), &value.encode_to_vec(), &shown())
            .unwrap();
    read(message, Format::Json, &json.to_string())
}

proptest! {
    #[test]
    fn every_format_parses_what_it_prints(seed: u64) {
        let (message, value) = random(seed);
        let bytes = canonical(&message, &value);
        let schema = Schema::envoy();
        prop_assert!(decode_check(schema, &url(&message), &bytes).is_ok());

        let json = without_type(to_json(schema, &url(&message), &bytes, &shown()).unwrap());
        prop_assert_eq!(&read(&message, Format::Json, &json.to_string()), &bytes, "{}", json);

        let camel = shown().with_field_names(FieldNames::Json);
        let json = without_type(to_json(schema, &url(&message), &bytes, &camel).unwrap());
        prop_assert_eq!(&read(&message, Format::Json, &json.to_string()), &bytes, "{}", json);

        let yaml = to_yaml(schema, &url(&message), &bytes, &shown()).unwrap();
        let untyped = yaml.split_once('\n').map_or("{}", |(_, rest)| rest);
        let untyped = if untyped.is_empty() { "{}" } else { untyped };
        prop_assert_eq!(&read(&message, Format::Yaml, untyped), &bytes, "{}", yaml);
        // Another YAML parser reads the same document.
        let theirs: serde_json::Value = serde_saphyr::from_str(untyped).unwrap();
        prop_assert_eq!(&read(&message, Format::Json, &theirs.to_string()), &bytes, "{}", yaml);

        let text = to_text(schema, &url(&message), &bytes, &shown()).unwrap();
        prop_assert_eq!(&read(&message, Format::Text, &text), &bytes, "{}", text);
    }

    /// The canonical bytes decode to the original message.
    #[test]
    fn canonical_bytes_decode_to_the_original_message(seed: u64) {
        let (message, value) = random(seed);
        let canonical = DynamicMessage::decode(message.clone(), canonical(&message, &value).as_slice()).unwrap();
        let reference = |value: &DynamicMessage| serde_json::to_value(value).unwrap();
        prop_assert_eq!(reference(&canonical), reference(&value));
    }

    #[test]
    fn json_agrees_with_prost_reflect(seed: u64) {
        let (message, value) = random(seed);
        let bytes = canonical(&message, &value);

        // The parser accepts prost-reflect's output.
        let theirs = serde_json::to_string(&value).unwrap();
        prop_assert_eq!(&read(&message, Format::Json, &theirs), &bytes, "{}", theirs);

        // prost-reflect accepts the printer's output.
        let ours = message_to_json(Schema::envoy(), message.full_name(), &bytes, &shown()).unwrap().to_string();
        let mut deserializer = serde_json::Deserializer::from_str(&ours);
        let options = DeserializeOptions::new().deny_unknown_fields(true);
        let back = DynamicMessage::deserialize_with_options(message.clone(), &mut deserializer, &options).unwrap();
        prop_assert_eq!(&canonical(&message, &back), &bytes, "{}", ours);
    }

    #[test]
    fn text_format_agrees_with_prost_reflect(seed: u64) {
        let (message, value) = random(seed);
        let bytes = canonical(&message, &value);

        let theirs = value.to_text_format();
        prop_assert_eq!(&read(&message, Format::Text, &theirs), &bytes, "{}", theirs);

        let ours = to_text(Schema::envoy(), &url(&message), &bytes, &shown()).unwrap();
        let back = DynamicMessage::parse_text_format(message.clone(), &ours).unwrap();
        prop_assert_eq!(&canonical(&message, &back), &bytes, "{}", ours);
    }
}

/// Tests the common resource types many times, in addition to the random types above.
#[test]
fn every_resource_type_round_trips_through_json() {
    for name in RESOURCE_TYPES {
        let message = Schema::envoy().message(name).unwrap();
        for seed in 0..40 {
            let bytes = canonical(&message, &random_message(&mut Rng(seed), &message, 5));
            let json = message_to_json(Schema::envoy(), name, &bytes, &shown()).unwrap();
            assert_eq!(read(&message, Format::Json, &json.to_string()), bytes, "{name}: {json}");
        }
    }
    println!("covers: S4.022");
}

/// The random messages are not mostly empty.
#[test]
fn random_messages_are_not_mostly_empty() {
    let sizes: Vec<_> = (0..2_000).map(|seed| random(seed).1.encoded_len()).collect();
    let large = sizes.iter().filter(|&&size| size > 300).count();
    assert!(large > 200, "{large} of 2000 messages have more than 300 bytes");
}
