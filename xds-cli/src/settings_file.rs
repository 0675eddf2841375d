//! Files of settings in YAML, such as views and policies: fields, and errors with their positions.

use std::{fs, io, path::Path};

use serde_json::{Map, Value as Json};
use xds_core::selector::{NodeCondition, NodeField, NodeSelector, TextPattern};
use xds_format::{Leniency, Position, YamlFile, nearest};

use crate::diagnostic::{Diagnostic, Level, Rule};

/// Maximum size of a file in bytes.
const LARGEST: u64 = 1 << 20;

const CONDITIONS: [&str; 6] = ["id", "cluster", "region", "zone", "sub_zone", "metadata"];

/// Reads the bytes of a file of settings.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.len() > LARGEST {
        return Err(io::Error::other(format!("it is longer than {LARGEST} bytes")));
    }
    fs::read(path)
}

/// Reader of a file of settings, which collects all errors.
pub(crate) struct SettingsReader<'f> {
    path: &'f Path,
    yaml: YamlFile<'f>,
    rule: Rule,
    errors: Vec<Diagnostic>,
}

/// Parses a file of settings, which `read` takes from its fields. The result contains all errors,
/// except that a syntax error is the only one.
pub(crate) fn parse<T>(
    path: &Path,
    text: &[u8],
    rule: Rule,
    read: impl FnOnce(&mut SettingsReader<'_>, &Json) -> T,
) -> Result<T, Vec<Diagnostic>> {
    let shown = path.display().to_string();
    let yaml = YamlFile::parse(&shown, text, Leniency::Envoy)
        .map_err(|error| vec![Diagnostic::of_format(rule, path, &error)])?;
    let json = yaml.to_json();
    let mut reader = SettingsReader { path, yaml, rule, errors: Vec::new() };
    let settings = read(&mut reader, &json);
    if reader.errors.is_empty() { Ok(settings) } else { Err(reader.errors) }
}

impl<'f> SettingsReader<'f> {
    pub(crate) fn path(&self) -> &'f Path {
        self.path
    }

    /// Whether there were errors.
    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Returns the position of a field.
    pub(crate) fn position(&self, field: &str) -> Option<Position> {
        self.yaml.position(field)
    }

    /// Reads conditions for the nodes of clients.
    pub(crate) fn clients(&mut self, json: &Json, field: &str) -> NodeSelector {
        let Some(when) = self.object(json, field) else { return NodeSelector::default() };
        self.known(when, field, &CONDITIONS);
        let mut conditions = Vec::new();
        for (name, value) in when {
            let of_node = match name.as_str() {
                "id" => NodeField::Id,
                "cluster" => NodeField::Cluster,
                "region" => NodeField::Region,
                "zone" => NodeField::Zone,
                "sub_zone" => NodeField::SubZone,
                "metadata" => {
                    let field = format!("{field}.metadata");
                    let Some(fields) = self.object(value, &field) else { continue };
                    for (path, value) in fields {
                        let any_of = self.patterns(value, &format!("{field}{}", step(path)));
                        conditions
                            .push(NodeCondition::new(NodeField::Metadata(path.clone()), any_of));
                    }
                    continue;
                }
                _ => continue,
            };
            let any_of = self.patterns(value, &format!("{field}.{name}"));
            conditions.push(NodeCondition::new(of_node, any_of));
        }
        conditions.into()
    }

    /// Reads a pattern or a list of patterns.
    fn patterns(&mut self, json: &Json, field: &str) -> Vec<TextPattern> {
        let pattern = |json: &Json| match json {
            Json::String(text) => Some(TextPattern::new(text)),
            Json::Bool(_) | Json::Number(_) => Some(TextPattern::new(&json.to_string())),
            _ => None,
        };
        let patterns: Option<Vec<_>> = match json {
            Json::Array(all) if !all.is_empty() => all.iter().map(pattern).collect(),
            one => pattern(one).map(|it| vec![it]),
        };
        patterns.unwrap_or_else(|| {
            self.error(field, "expected a text, in which * stands for any characters, or a list");
            Vec::new()
        })
    }

    /// Returns the fields of an object.
    pub(crate) fn object<'j>(
        &mut self,
        json: &'j Json,
        field: &str,
    ) -> Option<&'j Map<String, Json>> {
        match json {
            Json::Object(object) => Some(object),
            _ => {
                self.error(field, "expected fields with values");
                None
            }
        }
    }

    /// Reports fields that do not exist.
    pub(crate) fn known(
        &mut self,
        object: &Map<String, Json>,
        field: &str,
        known: &[&'static str],
    ) {
        for name in object.keys().filter(|name| !known.contains(&name.as_str())) {
            let place = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
            let similar = nearest(name, known.iter().copied());
            let similar = similar.map(|it| format!(", did you mean `{it}`?"));
            let hint = similar.unwrap_or_else(|| format!(": use {}", known.join(", ")));
            self.error(&place, &format!("unknown field{hint}"));
        }
    }

    /// Reports an error in a field.
    pub(crate) fn error(&mut self, field: &str, text: &str) {
        let text = if field.is_empty() { text.to_owned() } else { format!("{field}: {text}") };
        let error = Diagnostic::new(self.rule, Level::Error, self.path, text);
        self.errors.push(error.at(self.yaml.position(field)).in_field(field));
    }
}

/// Returns the last step of the path of a field: `.name`, or `["a.name"]`.
pub(crate) fn step(name: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '_';
    match !name.is_empty() && name.chars().all(is_plain) {
        true => format!(".{name}"),
        false => format!("[{}]", Json::from(name)),
    }
}
