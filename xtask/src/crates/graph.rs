//! Dependencies between the crates, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::Path;
use std::process::Command;

use serde_json::Value as Json;

use crate::repository::error::Error;
use crate::repository::tree::at;

/// Dependencies of the crates that are part of the product: those below the root whose names begin
/// with `xds`.
#[derive(Debug)]
pub(crate) struct Graph {
    /// Dependencies of each crate, and whether they are optional.
    crates: BTreeMap<String, BTreeMap<String, bool>>,
}

/// Dependency that is drawn as an arrow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) is_optional: bool,
}

impl Graph {
    pub(crate) fn load(root: &Path) -> Result<Self, Error> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(&cargo)
            .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
            .current_dir(root)
            .output()
            .map_err(at(Path::new(&cargo)))?;
        let metadata = serde_json::from_slice(&output.stdout);
        metadata.map(|metadata| Self::read(&metadata, root)).map_err(|why| Error::Crates {
            findings: vec![
                format!("`cargo metadata`: {why}"),
                String::from_utf8_lossy(&output.stderr).into_owned(),
            ],
        })
    }

    #[cfg(test)]
    pub(crate) fn of(crates: &[(&str, &[(&str, bool)])]) -> Self {
        let crates = crates.iter().map(|(name, dependencies)| {
            let dependencies = dependencies.iter().map(|(name, is)| ((*name).to_owned(), *is));
            ((*name).to_owned(), dependencies.collect())
        });
        Self { crates: crates.collect() }
    }

    fn read(metadata: &Json, root: &Path) -> Self {
        let packages = || metadata["packages"].as_array().into_iter().flatten();
        let names: BTreeSet<&str> = packages()
            .filter(|package| is_part(package, root))
            .filter_map(|package| package["name"].as_str())
            .collect();
        let mut crates = BTreeMap::new();
        for package in packages().filter(|package| is_part(package, root)) {
            let mut dependencies: BTreeMap<String, bool> = BTreeMap::new();
            for dependency in package["dependencies"].as_array().into_iter().flatten() {
                // Dependencies of tests have a kind.
                if let Some(name) = dependency["name"].as_str()
                    && names.contains(name)
                    && dependency["kind"].is_null()
                {
                    let is_optional = dependency["optional"] == true;
                    let entry = dependencies.entry(name.to_owned()).or_insert(true);
                    *entry = *entry && is_optional;
                }
            }
            crates.insert(package["name"].as_str().unwrap_or_default().to_owned(), dependencies);
        }
        Self { crates }
    }

    pub(crate) fn crates(&self) -> impl Iterator<Item = &str> {
        self.crates.keys().map(String::as_str)
    }

    /// Returns the dependencies that are not implied by a required one. Required dependencies are
    /// implied by required ones only.
    pub(crate) fn direct(&self) -> Vec<Dependency> {
        let mut direct = Vec::new();
        for (from, dependencies) in &self.crates {
            for (to, &is_optional) in dependencies {
                let mut required = dependencies
                    .iter()
                    .filter(|&(other, &is_optional)| other != to && !is_optional);
                if !required.any(|(other, _)| self.reaches(other, to, is_optional)) {
                    direct.push(Dependency { from: from.clone(), to: to.clone(), is_optional });
                }
            }
        }
        direct
    }

    fn reaches(&self, from: &str, to: &str, through_optional: bool) -> bool {
        self.crates.get(from).into_iter().flatten().any(|(next, &is_optional)| {
            (through_optional || !is_optional)
                && (next == to || self.reaches(next, to, through_optional))
        })
    }
}

/// Whether a package is a crate of the product.
fn is_part(package: &Json, root: &Path) -> bool {
    let name = package["name"].as_str().unwrap_or_default();
    let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
    name.starts_with("xds") && manifest == root.join(name).join("Cargo.toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direct(crates: &[(&str, &[(&str, bool)])]) -> Vec<String> {
        let edges = Graph::of(crates).direct().into_iter();
        let shown = edges
            .map(|it| format!("{} {} {}", it.from, if it.is_optional { "┄" } else { "─" }, it.to));
        shown.collect()
    }

    #[test]
    fn implied_dependencies_are_left_out() {
        let (required, optional) = (false, true);
        assert_eq!(
            direct(&[
                ("a", &[("b", required), ("c", required)]),
                ("b", &[("c", required)]),
                ("c", &[])
            ]),
            ["a ─ b", "b ─ c"]
        );
        // An optional dependency does not imply a required one.
        assert_eq!(
            direct(&[
                ("a", &[("b", optional), ("c", required)]),
                ("b", &[("c", required)]),
                ("c", &[])
            ]),
            ["a ┄ b", "a ─ c", "b ─ c"]
        );
        let chain = ("b", &[("c", optional)][..]);
        assert_eq!(
            direct(&[("a", &[("b", required), ("c", optional)]), chain, ("c", &[])]),
            ["a ─ b", "b ┄ c"]
        );
        assert_eq!(
            direct(&[("a", &[("b", optional), ("c", optional)]), chain, ("c", &[])]),
            ["a ┄ b", "a ┄ c", "b ┄ c"]
        );
    }
}
