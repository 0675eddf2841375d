//! Places in files, read from error messages.

use serde_json::Value as Json;

/// File of an error, with the line and column if they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePlace {
    file: String,
    position: Option<(u64, u64)>,
}

impl FilePlace {
    /// Returns the place that a message begins with: `FILE:LINE:COLUMN: ` or `FILE: `.
    pub(crate) fn of_message(message: &str) -> Option<Self> {
        let ends = message.match_indices(": ").map(|(at, _)| at);
        // The name of a file may contain a colon and a space, so a position decides.
        let with_position = ends.clone().find_map(|end| with_position(&message[..end]));
        with_position.or_else(|| {
            let file = message[..ends.clone().next()?].to_owned();
            Some(Self { file, position: None })
        })
    }

    /// Adds the fields `file` and, if they are known, `line` and `column`.
    pub(crate) fn add_to(&self, object: &mut Json) {
        object["file"] = self.file.clone().into();
        if let Some((line, column)) = self.position {
            object["line"] = line.into();
            object["column"] = column.into();
        }
    }
}

/// Parses `FILE:LINE:COLUMN`.
fn with_position(text: &str) -> Option<FilePlace> {
    let (rest, column) = text.rsplit_once(':')?;
    let (file, line) = rest.rsplit_once(':')?;
    let position = Some((line.parse().ok()?, column.parse().ok()?));
    Some(FilePlace { file: file.to_owned(), position })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn place_is_read_from_the_beginning_of_a_message() {
        let fields = |place: Option<FilePlace>| {
            let mut object = json!({});
            place?.add_to(&mut object);
            Some(object)
        };
        for (message, expected) in [
            ("/a/b.yaml:1:13: x: y", Some(json!({ "file": "/a/b.yaml", "line": 1, "column": 13 }))),
            ("a: b.yaml:2:3: x", Some(json!({ "file": "a: b.yaml", "line": 2, "column": 3 }))),
            ("/a/b.yaml: cannot be read", Some(json!({ "file": "/a/b.yaml" }))),
            ("/a/b.yaml: at 1:2", Some(json!({ "file": "/a/b.yaml" }))),
            ("no place", None),
        ] {
            assert_eq!(fields(FilePlace::of_message(message)), expected, "{message}");
        }
    }
}
