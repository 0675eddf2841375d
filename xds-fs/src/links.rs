//! Symbolic links on the path to a file. A swap of any of them changes the file.

use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
};

/// Maximum number of links followed, as in Linux.
const MOST_LINKS: usize = 40;

/// Resolves a path, and adds the path of each link on the way to `links`. Returns `None` if there
/// are too many links.
pub(crate) fn resolve(path: &Path, links: &mut BTreeSet<PathBuf>) -> Option<PathBuf> {
    let mut left = MOST_LINKS;
    walk(path, links, &mut left)
}

fn walk(path: &Path, links: &mut BTreeSet<PathBuf>, left: &mut usize) -> Option<PathBuf> {
    let mut real = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                real.pop();
            }
            Component::Prefix(_) | Component::RootDir => real.push(component),
            Component::Normal(name) => {
                real.push(name);
                if let Ok(target) = real.read_link() {
                    *left = left.checked_sub(1)?;
                    links.insert(real.clone());
                    real.pop();
                    real = walk(&real.join(target), links, left)?;
                }
            }
        }
    }
    Some(real)
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn resolve_collects_every_symlink_on_the_path() {
        let base = std::env::temp_dir().join(format!("xds-links-{}", std::process::id()));
        fs::create_dir_all(base.join("..rev-1")).unwrap();
        let base = base.canonicalize().unwrap();
        fs::write(base.join("..rev-1/cds.yaml"), "").unwrap();
        symlink("..rev-1", base.join("..data")).unwrap();
        symlink("..data/cds.yaml", base.join("cds.yaml")).unwrap();
        symlink("loop", base.join("loop")).unwrap();

        let mut links = BTreeSet::new();
        let real = resolve(&base.join("cds.yaml"), &mut links);
        assert_eq!(real, Some(base.join("..rev-1/cds.yaml")));
        assert_eq!(links, BTreeSet::from([base.join("..data"), base.join("cds.yaml")]));
        assert_eq!(resolve(&base.join("loop"), &mut links), None);
        fs::remove_dir_all(base).unwrap();
    }
}
