//! Structure of the crates: imports against the order of the folders, circles, repeated type names,
//! and the lints of the libraries ([`panic_lints`]).
//!
//! The lists under `xtask/data/structure/` have the order of the folders ([`folders`]) and the
//! exceptions ([`crate::repository::exceptions`]).

mod folders;
mod graph;
mod imports;
mod panic_lints;
mod report;
mod type_names;

use std::fs;
use std::path::Path;

pub(crate) use type_names::types;

use crate::repository::error::Error;
use crate::repository::exceptions::{Exceptions, corrected};
use crate::repository::tree::at;
use crate::repository::{print, read};
use crate::source::{crates, files};
use folders::FolderOrders;
use report::{Lists, Structure};

/// Order of the folders of each crate.
const FOLDERS: &str = "xtask/data/structure/folders.txt";
/// Imports against the order, as pairs of folders.
const IMPORTS: &str = "xtask/data/structure/imports.txt";
/// Files that are part of a circle of files.
const FILES: &str = "xtask/data/structure/files.txt";
/// Type names with the number of their definitions.
const NAMES: &str = "xtask/data/structure/names.txt";

/// Variant of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Prints findings, without exceptions.
    Check,
    /// Prints exceptions too.
    All,
    /// Removes exceptions that are not needed.
    Prune,
}

/// Checks the structure. Returns the counts as the summary.
pub(crate) fn run(root: &Path, mode: Mode) -> Result<String, Error> {
    let (report, lists) = report(root)?;
    if mode == Mode::Prune {
        for (path, corrections) in report.corrections(&lists) {
            let path_below = root.join(path);
            let text = corrected(&read(root, path)?, &corrections);
            fs::write(&path_below, text).map_err(at(&path_below))?;
            println!("{path}: {} lines corrected", corrections.len());
        }
        return Ok(report.summary());
    }
    for line in report.lines(mode == Mode::All) {
        print(&line);
    }
    let mut findings = report.findings(&lists);
    findings.extend(panic_lints::findings(&files(root, "", "rs")?));
    if findings.is_empty() {
        return Ok(report.summary());
    }
    print(&report.summary());
    Err(Error::Structure { findings })
}

fn report(root: &Path) -> Result<(Structure, Lists), Error> {
    let exceptions =
        |path: &str| Exceptions::parse(&read(root, path)?).map_err(|line| line.in_file(path));
    let folders = FolderOrders::parse(&read(root, FOLDERS)?).map_err(|it| it.in_file(FOLDERS))?;
    let names = exceptions(NAMES)?;
    names.numbers().map_err(|line| line.in_file(NAMES))?;
    let lists = Lists { imports: exceptions(IMPORTS)?, files: exceptions(FILES)?, names };
    let crates = crates(&files(root, "", "rs")?);
    Ok((Structure::new(&crates, &folders, &lists), lists))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_have_no_structure_findings() {
        let root = crate::repository::root();
        let (report, lists) = report(&root).unwrap();
        let mut findings = report.findings(&lists);
        findings.extend(panic_lints::findings(&files(&root, "", "rs").unwrap()));
        assert!(findings.is_empty(), "cargo xtask structure:\n{}", findings.join("\n"));
    }
}
