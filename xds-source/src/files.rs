//! Resource files of a directory as objects, and its subdirectories as views.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use xds_core::ViewName;
use xds_format::Format;
use xds_fs::{File, list, list_saved};

use crate::contract::{Content, Object, Revision};

/// Meaning of the subdirectories of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subdirectories {
    /// Subdirectories are ignored.
    Ignored,
    /// Each subdirectory has the resource files of the view of that name, and `default` those of
    /// the view without a name. Hidden subdirectories, and those with the name of a resource file,
    /// are ignored.
    Views,
}

/// Name of the file, in the directory itself, that lists the refused changes to apply anyway
/// ([`Object::forced`]).
pub const FORCE_FILE: &str = ".xds-force";

/// Largest size of that file in bytes.
const FORCE_BYTES: u64 = 4_096;

/// Reads the resource files of a directory once.
///
/// # Errors
///
/// Returns an error if the directory or a subdirectory cannot be read. A file that cannot be read is
/// an object with [`Content::Invalid`].
pub fn read_directory(path: &Path, subdirectories: Subdirectories) -> io::Result<Vec<Object>> {
    read(&views(path, subdirectories)?, list)
}

impl Object {
    /// Creates the object of a file.
    #[must_use]
    pub fn of_file(file: File, view: &ViewName) -> Self {
        let content = match file.content {
            Ok(bytes) => Content::Document { format: file.format, bytes, only: None },
            Err(why) => Content::Invalid(why),
        };
        Self {
            id: file.path.to_string_lossy().into_owned().into(),
            view: view.clone(),
            revision: Revision::default(),
            content,
            forced: String::new(),
        }
    }
}

/// Returns the directory itself and its subdirectories, each with the view of its files.
pub(crate) fn views(
    path: &Path,
    subdirectories: Subdirectories,
) -> io::Result<BTreeMap<PathBuf, ViewName>> {
    let mut views = BTreeMap::from([(path.to_owned(), ViewName::default())]);
    if subdirectories == Subdirectories::Ignored {
        return Ok(views);
    }
    for entry in fs::read_dir(path)? {
        let place = entry?.path();
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') || Format::from_path(&place).is_ok() || !place.is_dir() {
            continue;
        }
        let view = if name == "default" { ViewName::default() } else { (&*name).into() };
        views.insert(place, view);
    }
    Ok(views)
}

/// Reads the files of all views, once programs that are saving them have finished, and the ids of
/// forced changes.
pub(crate) fn read_saved(
    path: &Path,
    views: &BTreeMap<PathBuf, ViewName>,
) -> io::Result<Vec<Object>> {
    let mut objects = read(views, list_saved)?;
    objects.extend(forced(&path.join(FORCE_FILE)));
    Ok(objects)
}

fn read(
    views: &BTreeMap<PathBuf, ViewName>,
    list: impl Fn(&Path) -> io::Result<Vec<File>>,
) -> io::Result<Vec<Object>> {
    let mut objects = Vec::new();
    for (place, view) in views {
        let files = list(place)
            .map_err(|why| io::Error::new(why.kind(), format!("{}: {why}", place.display())))?;
        objects.extend(files.into_iter().map(|file| Object::of_file(file, view)));
    }
    Ok(objects)
}

/// Reads the file that lists the refused changes to apply anyway; `None` if it does not exist.
fn forced(file: &Path) -> Option<Object> {
    let read = match fs::metadata(file) {
        Ok(metadata) if !metadata.is_file() || metadata.len() > FORCE_BYTES => {
            Err("expected a regular file with ids of changes, of at most 4096 bytes".to_owned())
        }
        Ok(_) => fs::read_to_string(file).map_err(|why| why.to_string()),
        Err(why) if why.kind() == io::ErrorKind::NotFound => return None,
        Err(why) => Err(why.to_string()),
    };
    let (content, forced) = match read {
        Ok(ids) => (Content::Documents(Vec::new()), ids),
        Err(why) => (Content::Invalid(why), String::new()),
    };
    let id = file.to_string_lossy().into_owned();
    let object = Object::new(id, ViewName::default(), Revision::default(), content);
    Some(Object { forced, ..object })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subdirectories_are_views_unless_they_are_hidden_or_named_like_files() {
        let root = std::env::temp_dir().join(format!("xds-views-{}", std::process::id()));
        for folder in ["canary", ".git", "old.yaml", "default"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in ["a.yaml", "canary/b.yaml", "default/c.yaml", ".git/d.yaml", "notes"] {
            fs::write(root.join(file), "resources: []").unwrap();
        }
        let shown = |subdirectories| -> Vec<String> {
            let objects = read_directory(&root, subdirectories).unwrap();
            let shown = |it: &Object| {
                let path = Path::new(it.id.as_str()).strip_prefix(&root).unwrap();
                format!("{}:{}", it.view, path.display())
            };
            objects.iter().map(shown).collect()
        };
        assert_eq!(shown(Subdirectories::Ignored), [":a.yaml", ":old.yaml"]);
        let all = [":a.yaml", ":old.yaml", "canary:canary/b.yaml", ":default/c.yaml"];
        assert_eq!(shown(Subdirectories::Views), all);
        fs::remove_dir_all(root).unwrap();
    }
}
