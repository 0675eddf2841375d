//! Validates resource files with the library's strict parser and the constraints of the API.
//!
//! `interop-goldens DIRECTORY` prints for each file below the directory one JSON object per line,
//! sorted by path:
//!
//! | field | contents |
//! |---|---|
//! | `file` | path below the directory |
//! | `resources` | number of resources; 0 if the file is rejected |
//! | `error` | first error, or null |

use std::{
    env,
    error::Error,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::json;
use xds_format::{Format, FormatError, Schema, Validator, parse};

fn main() -> Result<(), Box<dyn Error>> {
    let [_, directory] = &*env::args().collect::<Vec<_>>() else {
        return Err("usage: interop-goldens DIRECTORY".into());
    };
    let directory = Path::new(directory);
    let mut files = Vec::new();
    list(directory, &mut files)?;
    files.sort_unstable();
    for file in files {
        let name = file.strip_prefix(directory)?.display().to_string();
        let (resources, error) = match judge(&name, &fs::read(&file)?) {
            Ok(resources) => (resources, None),
            Err(error) => (0, Some(error.to_string())),
        };
        println!("{}", json!({ "file": name, "resources": resources, "error": error }));
    }
    Ok(())
}

fn list(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => list(&entry.path(), files)?,
            false => files.push(entry.path()),
        }
    }
    Ok(())
}

/// Returns the number of resources in a file whose resources are all valid.
fn judge(name: &str, content: &[u8]) -> Result<usize, FormatError> {
    let document = parse(Schema::envoy(), name, Format::from_path(name)?, content)?;
    for resource in &document.resources {
        Validator::envoy().check(&resource.type_url, &resource.bytes)?;
    }
    Ok(document.resources.len())
}
