//! A folder of text files as one value that is read, written and compared.
//!
//! Comparing whole folders also finds and removes files that are no longer generated.

use core::fmt;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::Error;

/// Contents by path relative to the folder, with `/` as the separator on every platform.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree(pub(crate) BTreeMap<String, String>);

/// Difference between a file and its expected contents.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// The file is missing.
    Missing { path: String },
    /// The file should not exist.
    Unexpected { path: String },
    /// The contents differ from this line on, counted from 1.
    Changed { path: String, line: usize },
    /// The file is binary, and differs or is missing.
    Binary { path: String },
}

impl Tree {
    /// Reads every file below `dir`. A folder that does not exist is read as an empty one.
    pub(crate) fn read(dir: &Path) -> Result<Self, Error> {
        let mut tree = Self::default();
        tree.read_below(dir, "")?;
        Ok(tree)
    }

    /// Makes `dir` contain exactly these files, and returns the number of files written or removed.
    ///
    /// Files with the right contents are not touched, to avoid rebuilds.
    pub(crate) fn write(&self, dir: &Path) -> Result<usize, Error> {
        let differences = self.compare(&Self::read(dir)?);
        for difference in &differences {
            let path = dir.join(difference.path());
            match self.0.get(difference.path()) {
                None => fs::remove_file(&path).map_err(at(&path))?,
                Some(content) => {
                    let parent = path.parent().expect("a file below `dir` has a parent");
                    fs::create_dir_all(parent).map_err(at(parent))?;
                    fs::write(&path, content).map_err(at(&path))?;
                }
            }
        }
        Ok(differences.len())
    }

    /// Lists the differences between `found` and this tree, sorted by path.
    pub(crate) fn compare(&self, found: &Self) -> Vec<Difference> {
        let mut differences = Vec::new();
        for (path, want) in &self.0 {
            match found.0.get(path) {
                None => differences.push(Difference::Missing { path: path.clone() }),
                Some(have) if have != want => differences.push(Difference::Changed {
                    path: path.clone(),
                    line: first_change(want, have),
                }),
                Some(_) => {}
            }
        }
        for path in found.0.keys().filter(|path| !self.0.contains_key(*path)) {
            differences.push(Difference::Unexpected { path: path.clone() });
        }
        differences.sort_by(|a, b| a.path().cmp(b.path()));
        differences
    }

    fn read_below(&mut self, dir: &Path, prefix: &str) -> Result<(), Error> {
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(at(dir))?,
        };
        for entry in entries {
            let path = entry.map_err(at(dir))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let relative = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            if path.is_dir() {
                self.read_below(&path, &relative)?;
            } else {
                let content = fs::read_to_string(&path).map_err(at(&path))?;
                // A checkout may have converted line ends; the generator does not.
                self.0.insert(relative, content.replace("\r\n", "\n"));
            }
        }
        Ok(())
    }
}

impl Difference {
    fn path(&self) -> &str {
        match self {
            Self::Missing { path }
            | Self::Unexpected { path }
            | Self::Changed { path, .. }
            | Self::Binary { path } => path,
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { path } => write!(f, "{path}: missing"),
            Self::Unexpected { path } => write!(f, "{path}: no longer generated"),
            Self::Binary { path } => write!(f, "{path}: differs"),
            Self::Changed { path, line } => write!(f, "{path}: differs, starting at line {line}"),
        }
    }
}

fn first_change(want: &str, have: &str) -> usize {
    let same = want.lines().zip(have.lines()).take_while(|(want, have)| want == have);
    same.count() + 1
}

pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = PathBuf::from(path);
    move |source| Error::File { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        Tree(files.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect())
    }

    #[test]
    fn equal_folders_have_no_difference() {
        let same = tree(&[("a.rs", "one\ntwo\n")]);
        assert_eq!(same.compare(&same), []);
    }

    #[test]
    fn every_kind_of_difference_is_named() {
        let want = tree(&[("a.rs", "one\ntwo\nthree\n"), ("b.rs", ""), ("d.rs", "end\n")]);
        let have = tree(&[("a.rs", "one\n2\nthree\n"), ("c.rs", ""), ("d.rs", "end")]);

        let printed: Vec<String> = want.compare(&have).iter().map(ToString::to_string).collect();

        assert_eq!(
            printed,
            [
                "a.rs: differs, starting at line 2",
                "b.rs: missing",
                "c.rs: no longer generated",
                // The end of the last line counts as a separate line.
                "d.rs: differs, starting at line 2",
            ]
        );
    }
}
