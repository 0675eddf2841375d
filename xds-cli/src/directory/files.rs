//! Directory with resource files, and its subdirectories as views.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::{sync::Notify, task::spawn_blocking};
use xds_core::{ViewName, client::FilePolicy};
use xds_format::Format;
use xds_fs::{Place, Watch, list, list_saved};
use xds_source::Object;

use super::sources::{Update, object_of};

/// Meaning of the subdirectories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subdirectories {
    Ignored,
    /// Each subdirectory has the resource files of the view of its name.
    Views,
}

/// Directory with a watch.
#[derive(Debug)]
pub(crate) struct Directory {
    path: Arc<Path>,
    subdirectories: Subdirectories,
    /// Notified when a file may have changed.
    changed: Arc<Notify>,
    /// Whether a change was noticed and not read yet.
    is_due: bool,
    _watch: Watch,
    /// Watches of the subdirectories.
    watches: BTreeMap<PathBuf, Watch>,
}

impl Directory {
    /// Starts watching, without reading.
    pub(super) fn watch(path: &Path, subdirectories: Subdirectories) -> io::Result<Self> {
        let changed = Arc::default();
        let watch = start_watch(path, &changed)?;
        let (path, watches) = (path.into(), BTreeMap::new());
        Ok(Self { path, subdirectories, changed, is_due: false, _watch: watch, watches })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the next change, and reads all files. Cancel safe.
    pub(super) async fn next(&mut self) -> io::Result<Update> {
        if !self.is_due {
            self.changed.notified().await;
            self.is_due = true;
        }
        let update = self.read().await;
        self.is_due = false;
        update
    }

    /// Reads all files.
    pub(super) async fn read(&mut self) -> io::Result<Update> {
        let (path, subdirectories) = (Arc::clone(&self.path), self.subdirectories);
        let views = spawn_blocking(move || views(&path, subdirectories)).await??;
        self.watches.retain(|place, _| views.contains_key(place));
        for place in views.keys().filter(|place| ***place != *self.path) {
            // Watched before it is read, so that no change in between is missed.
            if !self.watches.contains_key(place) {
                self.watches.insert(place.clone(), start_watch(place, &self.changed)?);
            }
        }
        let objects = spawn_blocking(move || read(&views, list_saved)).await??;
        Ok(Update::All(objects))
    }
}

fn start_watch(path: &Path, changed: &Arc<Notify>) -> io::Result<Watch> {
    let (place, changed) = (Place::Directory(path.to_owned()), Arc::clone(changed));
    Watch::start(place, &FilePolicy::default(), move |_| changed.notify_one())
}

/// Reads the resource files of a directory once.
pub(crate) fn read_directory(
    path: &Path,
    subdirectories: Subdirectories,
) -> io::Result<Vec<Object>> {
    read(&views(path, subdirectories)?, list)
}

/// Returns the directory itself and its subdirectories, each with the view of its files. Hidden ones
/// and those that are named like resource files are none.
fn views(path: &Path, subdirectories: Subdirectories) -> io::Result<BTreeMap<PathBuf, ViewName>> {
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

fn read(
    views: &BTreeMap<PathBuf, ViewName>,
    list: impl Fn(&Path) -> io::Result<Vec<xds_fs::File>>,
) -> io::Result<Vec<Object>> {
    let mut objects = Vec::new();
    for (place, view) in views {
        let files = list(place)
            .map_err(|why| io::Error::new(why.kind(), format!("{}: {why}", place.display())))?;
        objects.extend(files.into_iter().map(|file| object_of(file, view)));
    }
    Ok(objects)
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
