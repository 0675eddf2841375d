//! File of `--expect`, with the places of its tests.

use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use xds_format::{Leniency, YamlFile};

use crate::failure::Failure;

/// File with tests. Its errors count as wrong usage.
#[derive(Debug)]
pub(super) struct ExpectFile<'f> {
    name: &'f str,
    yaml: YamlFile<'f>,
    json: Json,
}

/// Element of `tests`.
#[derive(Debug)]
pub(super) struct TestSource<'f> {
    index: usize,
    json: &'f Json,
}

/// Error in an element of `tests`.
#[derive(Debug)]
pub(super) struct RowError {
    /// Path in the element.
    path: String,
    why: String,
}

impl<'f> ExpectFile<'f> {
    pub(super) fn parse(name: &'f str, content: &'f [u8]) -> Result<Self, Failure> {
        let yaml = YamlFile::parse(name, content, Leniency::Envoy)
            .map_err(|why| Failure::Usage(why.to_string()))?;
        let json = yaml.to_json();
        let file = Self { name, yaml, json };
        let members = file.json.as_object().into_iter().flatten();
        match members.map(|(key, _)| key).find(|key| *key != "tests") {
            Some(unknown) => {
                let why = format!("unknown field `{unknown}`, expected `tests`");
                Err(file.error(unknown, &why))
            }
            None => Ok(file),
        }
    }

    /// Returns the tests. A file without any is an error, because it would check nothing.
    pub(super) fn tests(&self) -> Result<&[Json], Failure> {
        match self.json.get("tests").map(Json::as_array) {
            None => Err(self.error("", "there is no list `tests`")),
            Some(None) => Err(self.error("tests", "`tests` is not a list")),
            Some(Some(tests)) if tests.is_empty() => {
                Err(self.error("tests", "there are no tests, so that nothing is checked"))
            }
            Some(Some(tests)) => Ok(tests),
        }
    }

    /// Reads each test. An error has the name of its test and its place.
    pub(super) fn rows<T>(
        &self,
        read: impl Fn(&TestSource<'_>) -> Result<T, RowError>,
    ) -> Result<Vec<T>, Failure> {
        let sources = self.tests()?.iter().enumerate();
        let sources = sources.map(|(index, json)| TestSource { index, json });
        sources
            .map(|source| {
                read(&source).map_err(|RowError { path, why }| {
                    let joint = if path.is_empty() { "" } else { "." };
                    let place = format!("tests[{}]{joint}{path}", source.index);
                    self.error(&place, &format!("{}: {why}", source.name()))
                })
            })
            .collect()
    }

    fn error(&self, path: &str, why: &str) -> Failure {
        let position = self.yaml.position(path);
        let position = position.map(|it| format!("{it}: ")).unwrap_or_default();
        Failure::Usage(format!("{}:{position}{why}", self.name))
    }
}

impl TestSource<'_> {
    /// Returns the name of a test that has none.
    pub(super) fn default_name(&self) -> String {
        format!("tests[{}]", self.index)
    }

    fn name(&self) -> String {
        let names = ["name", "test_name"].into_iter().find_map(|it| self.json.get(it)?.as_str());
        names.map_or_else(|| self.default_name(), str::to_owned)
    }

    /// Reads a part of the test; the whole test if the path is empty.
    pub(super) fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, RowError> {
        let part = if path.is_empty() { self.json } else { &self.json[path] };
        T::deserialize(part).map_err(|why| {
            let why = why.to_string();
            // The text names an unknown field first.
            let unknown = why.strip_prefix("unknown field `").and_then(|it| it.split('`').next());
            let path = match (path, unknown.unwrap_or_default()) {
                ("", unknown) => unknown.to_owned(),
                (path, "") => path.to_owned(),
                (path, unknown) => format!("{path}.{unknown}"),
            };
            let why = match path.as_str() {
                "" => why,
                path => format!("{path}: {why}"),
            };
            RowError { path, why }
        })
    }
}

impl RowError {
    /// Creates an error about a part of the test.
    pub(super) fn new(path: &str, why: impl Into<String>) -> Self {
        Self { path: path.to_owned(), why: why.into() }
    }
}
