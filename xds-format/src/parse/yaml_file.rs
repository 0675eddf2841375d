//! YAML and JSON files other than resource files, such as a bootstrap: conversion to JSON, encoding
//! of nested messages, and positions of values.

use serde_json::{Map, Number, Value as Json};

use super::mentions::mention_in;
use super::{Result, shapes, utf8};
use crate::encode::{Dialect, Encoder, Location};
use crate::error::{Fault, FormatError, Path, Position};
use crate::faults::{Faults, FormatErrors};
use crate::options::{Leniency, ParseOptions};
use crate::schema::Schema;
use crate::tree::{Node, Value, json, yaml};

/// A YAML or JSON file with one document that the caller interprets, such as a bootstrap.
///
/// ```
/// # #[cfg(feature = "envoy")] {
/// use xds_format::{Leniency, ParseOptions, Schema, YamlFile};
///
/// let text = b"node: {id: a}\nstatic_resources:\n  clusters:\n  - name: backend\n    type: STATICC\n";
/// let file = YamlFile::parse("boot.yaml", text, Leniency::Envoy)?;
/// assert_eq!(file.to_json()["node"]["id"], "a");
/// assert_eq!(file.position("static_resources.clusters[0].type").unwrap().to_string(), "5:11");
///
/// let cluster = ("envoy.config.cluster.v3.Cluster", "static_resources.clusters[0]");
/// let error = file.encode(Schema::envoy(), cluster.0, cluster.1, ParseOptions::default()).unwrap_err();
/// assert!(error.to_string().starts_with("boot.yaml:5:11: static_resources.clusters[0].type: unknown value `STATICC`"));
/// # }
/// # Ok::<(), xds_format::FormatError>(())
/// ```
#[derive(Debug)]
pub struct YamlFile<'t> {
    source_name: &'t str,
    text: &'t str,
    node: Node<'t>,
}

impl<'t> YamlFile<'t> {
    /// Parses a text. Scalars are read as in [`parse`](super::parse()), by the YAML 1.1 rules of
    /// Envoy. `source_name` is the name of the file in errors.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not YAML, is empty, has several documents or duplicate keys,
    /// or exceeds the [limits](crate#limits).
    pub fn parse(
        source_name: &'t str,
        input: &'t [u8],
        leniency: Leniency,
    ) -> Result<Self, FormatError> {
        let text = utf8(source_name, input)?;
        let node = yaml::parse(text, leniency)
            .and_then(shapes::only)
            .map_err(|fault| fault.in_source(source_name, Some(text)))?;
        Ok(Self { source_name, text, node })
    }

    /// Parses a text as JSON. Unlike [`parse`](Self::parse), it rejects YAML.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON, has duplicate keys, or exceeds the
    /// [limits](crate#limits).
    pub fn parse_json(
        source_name: &'t str,
        input: &'t [u8],
        leniency: Leniency,
    ) -> Result<Self, FormatError> {
        let text = utf8(source_name, input)?;
        let node = json::parse(text, leniency)
            .map_err(|fault| fault.in_source(source_name, Some(text)))?;
        Ok(Self { source_name, text, node })
    }

    /// Returns the document as JSON. Numbers that JSON lacks, such as `.nan`, become strings.
    #[must_use]
    pub fn to_json(&self) -> Json {
        to_json(&self.node)
    }

    /// Returns the value at a path as JSON, if there is one.
    ///
    /// Paths are written as in errors, with the names in the file:
    /// `static_resources.clusters[0].metadata["envoy.lb"]`.
    #[must_use]
    pub fn value(&self, path: &str) -> Option<Json> {
        let found = self.find(path);
        found.is_whole.then(|| to_json(found.node))
    }

    /// Returns the position of the value at a path, or of the innermost value around it if there is
    /// none. Returns `None` if the path is malformed. A field is also found under the
    /// lowerCamelCase form of its name.
    #[must_use]
    pub fn position(&self, path: &str) -> Option<Position> {
        steps(path)?;
        Some(Position::of(self.text, self.find(path).node.offset))
    }

    /// Returns the position of the text `target` in the value at a path, or of the value if there is
    /// no such string. Strings in these fields are preferred, as in
    /// [`ResourcePositions::mention`](super::ResourcePositions::mention).
    #[must_use]
    pub fn mention(&self, path: &str, target: &str, fields: &[&str]) -> Option<Position> {
        steps(path)?;
        let offset = mention_in(self.find(path).node, target, fields);
        Some(Position::of(self.text, offset))
    }

    /// Encodes the value at a path as a message of the given type.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`encode_message`](super::encode_message), with line and column in the
    /// file and the path from its top. If there is no value at the path, the innermost value around
    /// it is encoded.
    pub fn encode(
        &self,
        schema: &Schema,
        full_name: &str,
        path: &str,
        options: ParseOptions,
    ) -> Result<Vec<u8>, FormatError> {
        self.encoded(schema, full_name, path, options, None)
            .map_err(|fault| fault.in_source(self.source_name, Some(self.text)))
    }

    /// Encodes the value at a path as [`encode`](Self::encode) does, and returns all errors instead
    /// of the first. At most `most` errors are returned; the others are counted.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`encode`](Self::encode).
    pub fn encode_all(
        &self,
        schema: &Schema,
        full_name: &str,
        path: &str,
        options: ParseOptions,
        most: usize,
    ) -> Result<Vec<u8>, FormatErrors> {
        let faults = Faults::new(most);
        let encoded = self.encoded(schema, full_name, path, options, Some(&faults));
        faults.finish(encoded, self.source_name, Some(self.text))
    }

    fn encoded(
        &self,
        schema: &Schema,
        full_name: &str,
        path: &str,
        options: ParseOptions,
        faults: Option<&Faults>,
    ) -> Result<Vec<u8>> {
        let top = Path::Raw(path);
        let message = schema.require(full_name).map_err(|kind| Fault::new(None, &top, kind))?;
        let mut out = Vec::new();
        let encoder = Encoder { schema, dialect: Dialect::Yaml, options, faults };
        encoder.message(&message, self.find(path).node, Location::top(&top), &mut out)?;
        Ok(out)
    }

    fn find(&self, path: &str) -> Found<'_, 't> {
        descend(&self.node, path)
    }
}

/// Follows a path from a node, as far as possible.
pub(super) fn descend<'n, 't>(top: &'n Node<'t>, path: &str) -> Found<'n, 't> {
    let mut node = top;
    for step in steps(path).unwrap_or_default() {
        let next = match (&node.value, &step) {
            (Value::Object(members), Step::Key(name)) => {
                let of = |name: &str| crate::tree::member(members, name);
                of(name).or_else(|| of(&camel_case(name))).map(|member| &member.value)
            }
            (Value::List(elements), Step::Index(index)) => elements.get(*index),
            // A single element may lack the list around it.
            (Value::Object(_), Step::Index(0)) => Some(node),
            _ => None,
        };
        match next {
            Some(next) => node = next,
            None => return Found { node, is_whole: false },
        }
    }
    Found { node, is_whole: true }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

/// Result of following a path: the last node found, and whether the whole path was followed.
pub(super) struct Found<'n, 't> {
    pub(super) node: &'n Node<'t>,
    is_whole: bool,
}

enum Step {
    Key(String),
    Index(usize),
}

/// Parses a path such as `a.b[0].c["d.e"]`; `None` if it is malformed.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('[').filter(|rest| rest.starts_with('"')) {
            let mut stream = serde_json::Deserializer::from_str(quoted).into_iter::<String>();
            steps.push(Step::Key(stream.next()?.ok()?));
            rest = quoted.get(stream.byte_offset()..)?.strip_prefix(']')?;
        } else if let Some(index) = rest.strip_prefix('[') {
            let (index, behind) = index.split_once(']')?;
            steps.push(Step::Index(index.parse().ok()?));
            rest = behind;
        } else {
            let name = rest.strip_prefix('.').unwrap_or(rest);
            let end = name.find(['.', '[']).unwrap_or(name.len());
            let (name, behind) = name.split_at(end);
            if name.is_empty() {
                return None;
            }
            steps.push(Step::Key(name.to_owned()));
            rest = behind;
        }
    }
    Some(steps)
}

/// Converts a node to JSON. The parser bounds the depth of the recursion.
fn to_json(node: &Node<'_>) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Number(text) => {
            number(text).map_or_else(|| Json::String(text.clone().into_owned()), Json::Number)
        }
        Value::String(text) => Json::String(text.clone().into_owned()),
        // Only proto text has these.
        Value::Bytes(bytes) => Json::String(String::from_utf8_lossy(bytes).into_owned()),
        Value::Word(word) => Json::String((*word).to_owned()),
        Value::List(nodes) => Json::Array(nodes.iter().map(to_json).collect()),
        Value::Object(members) => {
            let members = members.iter();
            let entries = members.map(|it| (it.name.clone().into_owned(), to_json(&it.value)));
            Json::Object(entries.collect::<Map<_, _>>())
        }
    }
}

fn number(text: &str) -> Option<Number> {
    let whole = text.parse::<u64>().map(Number::from);
    let whole = whole.or_else(|_| text.parse::<i64>().map(Number::from));
    whole.ok().or_else(|| Number::from_f64(text.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_lookup_finds_the_deepest_existing_value() {
        let text = b"a:\n  b:\n  - {c: 1}\n  - c: 2\n  one: {x: y}\n\"k.x\": {d: 3}\n";
        let file = YamlFile::parse("f", text, Leniency::Strict).unwrap();
        let at = |path: &str| file.position(path).map(|it| it.to_string());
        for (path, position) in [
            ("", "1:1"),
            ("a.b[1].c", "4:8"),
            ("a.b[1].missing.more", "4:5"),
            ("a.b[7]", "3:5"),
            ("a.one[0].x", "5:12"),
            ("[\"k.x\"].d", "6:12"),
        ] {
            assert_eq!(at(path).as_deref(), Some(position), "{path}");
        }
        for path in ["a..b", "[x]", "[\"k", "["] {
            assert_eq!(at(path), None, "{path}");
        }
        assert_eq!(file.value("a.b[0]"), Some(serde_json::json!({"c": 1})));
        assert_eq!(file.value("a.z"), None);
    }
}
