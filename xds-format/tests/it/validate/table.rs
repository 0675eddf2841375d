//! Comparison of the table of constraints with the schema and with the validator.
//!
//! The files in `tests/interop/config/constraints` are read by this test and by the interop driver.
//! Each row is a bootstrap, with whether Envoy accepts it. This test does not run Envoy. It checks
//! that the table has every kind of rule and every edge value, and that the validator agrees.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, Value};
use serde_json::Value as Json;
use xds_format::{ErrorKind, Format, Schema, Validator, encode_message};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/interop/config/constraints");
const FILES: [&str; 5] = ["numbers", "texts", "durations", "lists", "messages"];
const BOOTSTRAP: &str = "envoy.config.bootstrap.v3.Bootstrap";

/// Name of a rule, such as `uint32.lte`, and its location: a plain field, a wrapper, a member of a
/// oneof, a list, or an element of a list.
type RuleKind = (String, String);

#[test]
fn table_has_the_edge_values_of_every_rule_kind_in_the_schema() {
    let kinds = kinds();
    let mut edges: BTreeMap<RuleKind, BTreeSet<String>> = BTreeMap::new();
    for group in groups() {
        let kind = kind_of(&group);
        let (field, fields) = (text(&group["field"]), kinds.get(&kind));
        assert!(
            fields.is_some_and(|fields| fields.contains(field)),
            "{field} has no rule of the kind {kind:?}"
        );
        let edges = edges.entry(kind).or_default();
        edges.extend(group["rows"].as_array().unwrap().iter().flat_map(edges_of));
        // Edges without a row have a reason.
        edges.extend(
            group["without"].as_object().into_iter().flatten().map(|(edge, _)| edge.clone()),
        );
    }
    let all = |kinds: Vec<&RuleKind>| kinds.into_iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(all(kinds.keys().collect()), all(edges.keys().collect()));
    for (kind, has) in &edges {
        let lacks: Vec<_> =
            required_edges(kind).into_iter().filter(|it| !has.contains(*it)).collect();
        assert_eq!(lacks, [""; 0], "no rows for these edges of {kind:?}");
    }
    println!("{} kinds of rules", kinds.len());
}

#[test]
fn validator_decides_as_the_table_states() {
    let templates = templates();
    let mut wrong = Vec::new();
    let mut count = 0;
    for group in groups() {
        for row in group["rows"].as_array().unwrap() {
            count += 1;
            if let Err(why) = check(&templates, &group, row) {
                wrong.push(format!("{} ({}), {row}: {why}", group["kind"], group["carrier"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 300, "{count} rows");
    println!("covers: S4.027 S4.028 S4.029 S4.030 S4.031");
}

/// Returns the edges for which every rule of a kind needs rows. `limit` is the last allowed value
/// and `beyond` the first forbidden one; `empty` is an empty message or element.
fn required_edges((rule, carrier): &RuleKind) -> Vec<&'static str> {
    match (rule.rsplit('.').next().unwrap(), carrier.as_str()) {
        ("required", "choice") => vec!["unset", "limit"],
        ("required" | "required=false", _) => vec!["unset", "empty", "limit"],
        (_, "wrapper" | "oneof" | "message" | "element") => {
            vec!["unset", "empty", "limit", "beyond"]
        }
        // Without presence, unset and empty are the same.
        _ => vec!["unset", "limit", "beyond"],
    }
}

/// Returns every kind of rule in the schema, with its fields.
fn kinds() -> BTreeMap<RuleKind, BTreeSet<String>> {
    let pool = Schema::envoy().pool();
    let rules = pool.get_extension_by_name("validate.rules").unwrap();
    let required = pool.get_extension_by_name("validate.required").unwrap();
    let mut kinds = BTreeMap::new();
    for message in pool.all_messages() {
        for field in message.fields() {
            let options = field.options();
            if options.has_extension(&rules) {
                let rules = options.get_extension(&rules);
                let mut add = |rule: String, is_element: bool| {
                    let carrier = if is_element { "element" } else { carrier(&field) };
                    let fields: &mut BTreeSet<String> =
                        kinds.entry((rule, carrier.to_owned())).or_default();
                    fields.insert(field.full_name().to_owned());
                };
                collect(rules.as_message().unwrap(), "", &mut add);
            }
        }
        for oneof in message.oneofs() {
            if oneof.options().get_extension(&required).as_bool() == Some(true) {
                let kind = ("oneof.required".to_owned(), "choice".to_owned());
                kinds.entry(kind).or_default().insert(oneof.full_name().to_owned());
            }
        }
    }
    kinds
}

fn collect(rules: &DynamicMessage, prefix: &str, add: &mut dyn FnMut(String, bool)) {
    let is_element = !prefix.is_empty();
    for (kind, member) in rules.fields() {
        let member = member.as_message().unwrap();
        let flag = |name: &str| member.get_field_by_name(name).and_then(|it| it.as_bool());
        for (rule, value) in member.fields() {
            let name = format!("{prefix}{}.{}", kind.name(), rule.name());
            match (rule.name(), value) {
                ("items" | "keys" | "values", Value::Message(rules)) => {
                    collect(rules, &format!("{name}."), add);
                }
                // A setting of another rule.
                ("strict", _) => {}
                ("well_known_regex", Value::EnumNumber(form)) => {
                    let is_strict =
                        !member.has_field_by_name("strict") || flag("strict") == Some(true);
                    let strictness = if is_strict { "strict" } else { "loose" };
                    let form = ["UNKNOWN", "HTTP_HEADER_NAME", "HTTP_HEADER_VALUE"]
                        [usize::try_from(*form).unwrap()];
                    add(format!("{prefix}{}.{form}.{strictness}", kind.name()), is_element);
                }
                (_, Value::Bool(false)) => add(format!("{name}=false"), is_element),
                _ => add(name, is_element),
            }
        }
    }
}

fn carrier(field: &FieldDescriptor) -> &'static str {
    let is_wrapper = |name: &str| name.starts_with("google.protobuf.") && name.ends_with("Value");
    match field.kind() {
        _ if field.containing_oneof().is_some() => "oneof",
        _ if field.is_list() || field.is_map() => "list",
        Kind::Message(message) if is_wrapper(message.full_name()) => "wrapper",
        Kind::Message(_) => "message",
        _ => "plain",
    }
}

/// Checks that the validator decides as a row states, because of the rule that the row tests.
fn check(templates: &Json, group: &Json, row: &Json) -> Result<(), String> {
    let (of_type, content) = content(templates, group, row);
    let json = content.to_string();
    let bytes = encode_message(Schema::envoy(), "row", &of_type, Format::Json, json.as_bytes());
    // A number out of the range of its type is not a matter of constraints.
    let bytes = bytes.map_err(|why| format!("cannot encode: {why}"))?;
    let faults = Validator::envoy().violations(&format!("t/{of_type}"), &bytes).unwrap();
    let wanted = row.get("ours").unwrap_or_else(|| &row["envoy"]);
    if row.get("ours").is_some() != row.get("why").is_some() {
        return Err("a difference has a reason, and what has a reason is a difference".to_owned());
    }
    match (text(wanted), faults.is_empty()) {
        ("accept", true) => return Ok(()),
        ("reject", false) => {}
        _ => return Err(format!("ours: {faults:?}")),
    }
    if row.get("says").is_some() {
        return Ok(());
    }
    let (rule, name) = (text(&group["kind"]), text(&group["field"]).rsplit('.').next().unwrap());
    let is_for_the_rule = faults.iter().any(|fault| {
        let ErrorKind::Constraint { rule: broken, .. } = fault.kind() else { return false };
        let is_broken = match rule {
            "oneof.required" => *broken == rule,
            rule if rule.contains(".HTTP_HEADER_") => *broken == "well_known_regex",
            rule => rule.ends_with(&format!(".{broken}")) || rule.ends_with(".ignore_empty"),
        };
        let is_beyond = edges_of(row).any(|edge| edge == "beyond");
        fault.path().contains(name) && (is_broken || !is_beyond)
    });
    if is_for_the_rule { Ok(()) } else { Err(format!("for another reason: {faults:?}")) }
}

/// Returns the type and content of the bootstrap, or of the other message, of a row.
fn content(templates: &Json, group: &Json, row: &Json) -> (String, Json) {
    let mut root = Json::Object(serde_json::Map::new());
    let mut place = Vec::new();
    let of_type = apply(templates, text(&group["in"]), &mut root, &mut place);
    let hole = at(&mut root, &place);
    for patch in [&group["with"], &row["with"], &row["set"]] {
        merge(hole, &expanded(patch));
    }
    // A oneof itself has no value. Other fields have a value or are unset.
    if row.get("set").is_none() {
        let name = text(&group["field"]).rsplit('.').next().unwrap().to_owned();
        let hole = hole.as_object_mut().unwrap();
        match row.get("value") {
            Some(value) => hole.insert(name, expanded(value)),
            None => hole.remove(&name),
        };
    }
    (of_type, root)
}

/// Applies a template after its parent templates. `place` is the location for the next one.
fn apply(templates: &Json, name: &str, root: &mut Json, place: &mut Vec<Json>) -> String {
    let template = &templates[name];
    assert!(template.is_object(), "no template {name}");
    let of_type = match template.get("in") {
        Some(below) => apply(templates, text(below), root, place),
        None => template.get("type").map_or(BOOTSTRAP, text).to_owned(),
    };
    merge(at(root, place), &template["set"]);
    place.extend(template["at"].as_array().into_iter().flatten().cloned());
    of_type
}

fn at<'j>(root: &'j mut Json, place: &[Json]) -> &'j mut Json {
    place.iter().fold(root, |json, step| match step {
        Json::Number(index) => &mut json[usize::try_from(index.as_u64().unwrap()).unwrap()],
        key => &mut json[text(key)],
    })
}

/// Applies a merge patch (RFC 7396), in which `null` removes a member.
fn merge(target: &mut Json, patch: &Json) {
    for (key, value) in patch.as_object().into_iter().flatten() {
        let target = target.as_object_mut().unwrap();
        match (target.get_mut(key), value) {
            (_, Json::Null) => drop(target.remove(key)),
            (Some(inner @ Json::Object(_)), Json::Object(_)) => merge(inner, value),
            _ => drop(target.insert(key.clone(), value.clone())),
        }
    }
}

/// Expands `{"repeat": [text, times]}`, `{"copies": [element, times]}` and `{"base64 of": length}`,
/// which abbreviate long values in the table.
fn expanded(value: &Json) -> Json {
    let times = |list: &Json| usize::try_from(list[1].as_u64().unwrap()).unwrap();
    match value {
        Json::Array(elements) => elements.iter().map(expanded).collect(),
        Json::Object(members) if members.len() == 1 && members.contains_key("repeat") => {
            let list = &members["repeat"];
            text(&list[0]).repeat(times(list)).into()
        }
        Json::Object(members) if members.len() == 1 && members.contains_key("copies") => {
            let list = &members["copies"];
            vec![list[0].clone(); times(list)].into()
        }
        Json::Object(members) if members.len() == 1 && members.contains_key("base64 of") => {
            let length = usize::try_from(members["base64 of"].as_u64().unwrap()).unwrap();
            STANDARD.encode(vec![b'a'; length]).into()
        }
        Json::Object(members) => {
            members.iter().map(|(key, value)| (key.clone(), expanded(value))).collect()
        }
        value => value.clone(),
    }
}

fn groups() -> Vec<Json> {
    FILES.iter().flat_map(|name| read(name).as_array().unwrap().clone()).collect()
}

fn templates() -> Json {
    read("templates")
}

fn read(name: &str) -> Json {
    let path = Path::new(DIRECTORY).join(format!("{name}.json"));
    let content = std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    serde_json::from_slice(&content).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn kind_of(group: &Json) -> RuleKind {
    (text(&group["kind"]).to_owned(), text(&group["carrier"]).to_owned())
}

fn edges_of(row: &Json) -> impl Iterator<Item = String> {
    text(&row["edge"]).split(' ').map(str::to_owned)
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}
