//! Comparison of the table in `docs/FORMATS.md` with strict and lenient reading.

use std::path::Path;

use crate::common::{Rng, random_message, random_type};
use proptest::prelude::*;
use prost_reflect::prost::Message as _;
use xds_format::{
    Format, FormatError, Leniency, ParseOptions, PrintOptions, Schema, encode_message_with,
    message_to_json, to_yaml,
};

const BOOTSTRAP: &str = "envoy.config.bootstrap.v3.Bootstrap";

/// A row of the table.
struct Row {
    place: String,
    input: String,
    envoy: String,
    strict: bool,
    lenient: bool,
    same_as: Option<String>,
    why: String,
}

fn rows() -> Vec<Row> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/FORMATS.md");
    let text = std::fs::read_to_string(file).unwrap();
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<_> = line.strip_prefix("| ")?.strip_suffix('|')?.split('|').collect();
        let [place, input, envoy, strict, lenient, same_as, why] = cells[..] else {
            panic!("not seven cells: {line}")
        };
        if place.trim() == "in" {
            return None;
        }
        Some(Row {
            place: place.trim().to_owned(),
            input: text_of(input).unwrap(),
            envoy: envoy.trim().to_owned(),
            strict: is_yes(strict),
            lenient: is_yes(lenient),
            same_as: text_of(same_as),
            why: why.trim().to_owned(),
        })
    });
    rows.collect()
}

fn is_yes(cell: &str) -> bool {
    match cell.trim() {
        "yes" => true,
        "no" => false,
        other => panic!("neither yes nor no: {other}"),
    }
}

/// Returns the text of a cell; `None` if it is empty.
fn text_of(cell: &str) -> Option<String> {
    match cell.trim() {
        "" => None,
        "∅" => Some(String::new()),
        code => {
            let code = code.strip_prefix('`').unwrap().strip_suffix('`').unwrap();
            Some(code.replace('⏎', "\n").replace('⇥', "\t").replace('␂', "\u{feff}"))
        }
    }
}

/// Encodes the bootstrap of a row.
fn read(place: &str, text: &str, leniency: Leniency) -> Result<Vec<u8>, FormatError> {
    let (format, text) = match place {
        "YAML" => (Format::Yaml, format!("static_resources:\n  clusters:\n  - {text}\n")),
        "JSON" => (Format::Json, format!("{{\"static_resources\": {{\"clusters\": [{text}]}}}}")),
        "YAML file" => (Format::Yaml, text.to_owned()),
        "JSON file" => (Format::Json, text.to_owned()),
        other => panic!("no place: {other}"),
    };
    let options = ParseOptions::default().with_leniency(leniency);
    encode_message_with(Schema::envoy(), "f", BOOTSTRAP, format, text.as_bytes(), options)
}

#[test]
fn spellings_are_accepted_as_the_table_states() {
    let rows = rows();
    assert!(rows.len() > 200, "{}", rows.len());
    let mut wrong = Vec::new();
    for row in &rows {
        let (strict, lenient) = (
            read(&row.place, &row.input, Leniency::Strict),
            read(&row.place, &row.input, Leniency::Envoy),
        );
        let mut complain = |what: &str| {
            wrong.push(format!(
                "{} {:?}: {what}: strict {strict:?}, lenient {lenient:?}",
                row.place, row.input
            ));
        };
        if (strict.is_ok(), lenient.is_ok()) != (row.strict, row.lenient) {
            complain("not as the table says");
            continue;
        }
        if let (Ok(strict), Ok(lenient)) = (&strict, &lenient)
            && strict != lenient
        {
            complain("the meaning depends on the leniency");
        }
        if let (Some(same_as), Ok(lenient)) = (&row.same_as, &lenient) {
            let same = read(&row.place, same_as, Leniency::Strict);
            if same.as_ref() != Ok(lenient) {
                complain(&format!("not the same as {same_as:?}: {same:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every difference from Envoy has a reason in the table.
#[test]
fn every_difference_from_envoy_has_a_reason_in_the_table() {
    for row in rows() {
        let agrees = row.envoy == if row.lenient { "yes" } else { "no" };
        assert!(agrees || !row.why.is_empty(), "{:?}", row.input);
        assert!(row.lenient || !row.strict, "strict accepts more: {:?}", row.input);
        assert!(["yes", "no", "other"].contains(&&*row.envoy), "{:?}", row.envoy);
    }
}

proptest! {
    /// Text that strict reading accepts has the same meaning in lenient reading.
    #[test]
    fn leniency_does_not_change_the_meaning(seed: u64) {
        let mut rng = Rng(seed);
        let (schema, options) = (Schema::envoy(), PrintOptions::default());
        let message = random_type(&mut rng, schema);
        let bytes = random_message(&mut rng, &message, 5).encode_to_vec();
        let json = message_to_json(schema, message.full_name(), &bytes, &options).unwrap();
        let url = format!("type.googleapis.com/{}", message.full_name());
        let yaml = to_yaml(schema, &url, &bytes, &options).unwrap();
        let (_, yaml) = yaml.split_once('\n').unwrap_or_default();
        for (format, text) in [(Format::Json, json.to_string()), (Format::Yaml, yaml.to_owned())] {
            let read = |leniency| {
                let options = ParseOptions::default().with_leniency(leniency);
                encode_message_with(schema, "f", message.full_name(), format, text.as_bytes(), options)
            };
            if let Ok(strict) = read(Leniency::Strict) {
                prop_assert_eq!(read(Leniency::Envoy), Ok(strict), "{}", text);
            }
        }
    }
}
