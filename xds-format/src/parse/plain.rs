//! YAML that is no message of the schema: configuration of programs.

use serde_json::{Map, Number, Value as Json};

use super::{shapes, utf8};
use crate::{
    error::FormatError,
    tree::{Node, Value, yaml},
};

/// One YAML document as JSON, whatever it says: for configuration that somebody else knows the meaning of,
/// as a bootstrap. Scalars are read as in [`parse`](super::parse), by the grammar of YAML 1.1 that proxies use;
/// JSON is YAML as well. Numbers that are none in JSON, as `.nan`, become text.
///
/// # Errors
///
/// The text is not YAML, is no single document, has a key twice, or exceeds the
/// [limits](crate#limits).
pub fn yaml_to_json(source_name: &str, input: &[u8]) -> Result<Json, FormatError> {
    let text = utf8(source_name, input)?;
    let read = yaml::parse(text).and_then(shapes::only);
    let node = read.map_err(|fault| fault.in_source(source_name, Some(text)))?;
    Ok(to_json(node))
}

/// Trees nest no deeper than their parser lets them.
fn to_json(node: Node<'_>) -> Json {
    match node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(value),
        Value::Number(text) => number(&text).map_or(Json::String(text.into_owned()), Json::Number),
        Value::String(text) => Json::String(text.into_owned()),
        // Proto text alone has these.
        Value::Bytes(bytes) => Json::String(String::from_utf8_lossy(&bytes).into_owned()),
        Value::Word(word) => Json::String(word.to_owned()),
        Value::List(nodes) => Json::Array(nodes.into_iter().map(to_json).collect()),
        Value::Object(members) => {
            let members = members.into_iter();
            Json::Object(
                members
                    .map(|member| (member.name.into_owned(), to_json(member.value)))
                    .collect::<Map<_, _>>(),
            )
        }
    }
}

fn number(text: &str) -> Option<Number> {
    let whole = text.parse::<u64>().map(Number::from);
    let whole = whole.or_else(|_| text.parse::<i64>().map(Number::from));
    whole.ok().or_else(|| Number::from_f64(text.parse().ok()?))
}
