//! Findings about the structure of all crates, and their counts.

use std::collections::{BTreeMap, BTreeSet};

use super::folders::{FolderOrder, FolderOrders};
use super::graph::{FileImport, circles, edges};
use super::type_names::{Repeated, repeated};
use super::{FILES, FOLDERS, IMPORTS, NAMES};
use crate::repository::exceptions::{Correction, Exceptions};
use crate::source::Crate;

/// Places where even files must not import each other in a circle: crates, or folders of crates.
const NO_FILE_CIRCLES: [&str; 4] =
    ["xds-channel/src/", "xds-cli/src/", "xds-core/src/references/", "xds-routing/src/"];

/// Lists of exceptions.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// `xds-core wire -> client`.
    pub(crate) imports: Exceptions,
    /// Paths of files.
    pub(crate) files: Exceptions,
    /// `xds-core Node 3`.
    pub(crate) names: Exceptions,
}

/// Structure of all crates.
#[derive(Debug, Default)]
pub(crate) struct Structure {
    /// Errors in the order of the folders.
    order: Vec<String>,
    /// Imports against the order by pair of folders, each with its places.
    imports: BTreeMap<String, Vec<String>>,
    /// Circles of folders, with the crate before their names.
    folder_circles: Vec<Circle>,
    /// Circles of files.
    file_circles: Vec<Circle>,
    /// Repeated type names by crate and name.
    names: BTreeMap<String, Repeated>,
    /// Exceptions that are listed, for [`Structure::lines`].
    listed: BTreeSet<String>,
}

/// Folders or files that import each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Circle {
    members: Vec<String>,
    /// Imports between them.
    imports: Vec<String>,
}

impl Structure {
    pub(crate) fn new(crates: &[Crate], folders: &FolderOrders, lists: &Lists) -> Self {
        let mut report = Self::default();
        for name in folders.crates().filter(|&name| crates.iter().all(|it| it.name != name)) {
            report.order.push(format!("{name} has a folder order, but no code"));
        }
        for package in crates {
            report.add(package, &folders.of(&package.name));
        }
        let listed = [&lists.imports, &lists.files].into_iter().flat_map(|list| &list.0);
        report.listed = listed.map(|exception| exception.text.clone()).collect();
        let names = lists.names.0.iter().filter_map(|it| it.text.rsplit_once(' '));
        report.listed.extend(names.map(|(name, _)| name.to_owned()));
        report
    }

    fn add(&mut self, package: &Crate, order: &FolderOrder) {
        let (name, modules) = (&package.name, &package.modules);
        let folders: BTreeSet<&str> = modules.iter().map(|it| it.folder.as_str()).collect();
        for folder in folders.iter().filter(|folder| order.position(folder).is_none()) {
            self.order.push(format!("{name}: the folder {folder} is missing in the folder order"));
        }
        let used: BTreeSet<usize> = folders.iter().filter_map(|it| order.position(it)).collect();
        for (position, folder) in order.names().enumerate() {
            if !used.contains(&position) {
                self.order
                    .push(format!("{name}: the folder order lists {folder}, which does not exist"));
            }
        }

        let edges = edges(package);
        let mut between: Vec<(&str, &str, String)> = Vec::new();
        for edge in &edges {
            let (from, to) = (&modules[edge.from], &modules[edge.to]);
            // The root of a program is above all folders, and nothing imports it.
            if from.path.ends_with("/src/main.rs") {
                continue;
            }
            let positions = (order.position(&from.folder), order.position(&to.folder));
            let (Some(low), Some(high)) = positions else { continue };
            let place = format!("{}:{} imports {}", from.path, edge.line, to.path);
            if low < high {
                let pair = format!("{name} {} -> {}", order.name(low), order.name(high));
                self.imports.entry(pair).or_default().push(place.clone());
            }
            if low != high {
                between.push((order.name(low), order.name(high), place));
            }
        }
        for mut circle in with_imports(&between) {
            circle.members[0] = format!("{name}: {}", circle.members[0]);
            self.folder_circles.push(circle);
        }
        self.file_circles.extend(file_circles(package, &edges));
        let repeated = repeated(package).into_iter();
        self.names.extend(repeated.map(|it| (format!("{name} {}", it.name), it)));
    }

    /// Returns everything that violates a rule and is not an exception, and every exception that is
    /// not needed.
    pub(crate) fn findings(&self, lists: &Lists) -> Vec<String> {
        let order = self.order.iter().map(|line| format!("{line} ({FOLDERS})"));
        let mut found: Vec<String> = order.collect();
        for (pair, places) in &self.imports {
            if !lists.imports.contains(pair) {
                found.push(format!("{pair} violates the folder order"));
                found.extend(places.iter().map(|place| format!("  {place}")));
            }
        }
        for circle in &self.file_circles {
            if circle.members.iter().any(|path| !lists.files.contains(path)) {
                found.push(format!("cycle of files: {}", circle.members.join(", ")));
                found.extend(circle.imports.iter().map(|place| format!("  {place}")));
            }
        }
        let allowed = self.allowed_names(lists);
        for (name, it) in &self.names {
            let (count, allowed) = (it.places.len(), allowed.get(name.as_str()).copied());
            if count > allowed.unwrap_or(1) {
                found.push(format!("{name} is defined {count} times"));
                found.extend(it.places.iter().map(|(path, line)| format!("  {path}:{line}")));
            }
        }
        for (path, corrections) in self.corrections(lists) {
            let lines = corrections.iter().map(|correction| {
                let line = correction.line;
                format!("{path}, line {line}: no longer needed (cargo xtask structure --prune)")
            });
            found.extend(lines);
        }
        found
    }

    /// Returns the lines of each list that are not needed, or not in this form.
    pub(crate) fn corrections(&self, lists: &Lists) -> Vec<(&'static str, Vec<Correction>)> {
        let imports: Vec<String> = self.imports.keys().cloned().collect();
        let circles = self.file_circles.iter();
        let files: Vec<String> = circles.flat_map(|it| it.members.clone()).collect();
        let mut names = Vec::new();
        for (exception, name, allowed) in lists.names.numbers().unwrap_or_default() {
            let count = self.names.get(name).map_or(0, |it| it.places.len());
            let text = (count > 0).then(|| format!("{name} {count}"));
            if count < allowed {
                names.push(Correction { line: exception.line, text });
            }
        }
        let all = [
            (IMPORTS, lists.imports.without_unneeded(&imports)),
            (FILES, lists.files.without_unneeded(&files)),
            (NAMES, names),
        ];
        all.into_iter().filter(|(_, corrections)| !corrections.is_empty()).collect()
    }

    fn allowed_names<'a>(&self, lists: &'a Lists) -> BTreeMap<&'a str, usize> {
        let names = lists.names.numbers().unwrap_or_default().into_iter();
        names.map(|(_, name, count)| (name, count)).collect()
    }

    /// Lists the exceptions with their places, if `all`, and every circle.
    pub(crate) fn lines(&self, all: bool) -> Vec<String> {
        let mut lines = Vec::new();
        if !all {
            return lines;
        }
        for (pair, places) in self.imports.iter().filter(|(pair, _)| self.listed.contains(*pair)) {
            lines.push(format!("exception: {pair}"));
            lines.extend(places.iter().map(|place| format!("  {place}")));
        }
        let folders = self.folder_circles.iter().map(|circle| ("folders", circle));
        let circles = folders.chain(self.file_circles.iter().map(|circle| ("files", circle)));
        for (kind, circle) in circles {
            lines.push(format!("cycle of {kind}: {}", circle.members.join(", ")));
            lines.extend(circle.imports.iter().map(|place| format!("  {place}")));
        }
        for (name, it) in self.names.iter().filter(|(name, _)| self.listed.contains(*name)) {
            lines.push(format!("exception: {name} is defined {} times", it.places.len()));
            lines.extend(it.places.iter().map(|(path, line)| format!("  {path}:{line}")));
        }
        lines
    }

    pub(crate) fn summary(&self) -> String {
        let excepted = |names: &mut dyn Iterator<Item = &String>| {
            names.filter(|name| self.listed.contains(*name)).count()
        };
        let imports: usize = self.imports.values().map(Vec::len).sum();
        format!(
            "cycles between folders {}\n\
             imports against the folder order {imports}, between {} pairs of folders ({} excepted)\n\
             cycles between files of {}: {}, with {} files ({} excepted)\n\
             type names defined more than once in a crate {} ({} excepted)",
            self.folder_circles.len(),
            self.imports.len(),
            excepted(&mut self.imports.keys()),
            NO_FILE_CIRCLES.map(|it| it.trim_end_matches('/').replace("/src", "")).join(", "),
            self.file_circles.len(),
            self.file_circles.iter().map(|it| it.members.len()).sum::<usize>(),
            excepted(&mut self.file_circles.iter().flat_map(|it| &it.members)),
            self.names.len(),
            excepted(&mut self.names.keys()),
        )
    }
}

fn file_circles(package: &Crate, edges: &[FileImport]) -> Vec<Circle> {
    let path = |index: usize| package.modules[index].path.as_str();
    let mut found = Vec::new();
    for place in NO_FILE_CIRCLES.iter().filter(|it| it.starts_with(&format!("{}/", package.name))) {
        let inside = edges
            .iter()
            .filter(|it| [it.from, it.to].iter().all(|&it| path(it).starts_with(place)));
        let inside = inside.map(|edge| {
            let (from, to) = (path(edge.from), path(edge.to));
            (from, to, format!("{from}:{} imports {to}", edge.line))
        });
        found.extend(with_imports(&inside.collect::<Vec<_>>()));
    }
    found
}

/// Returns the circles among imports, each given as two names and a text.
fn with_imports(imports: &[(&str, &str, String)]) -> Vec<Circle> {
    let edges: BTreeSet<(&str, &str)> = imports.iter().map(|&(from, to, _)| (from, to)).collect();
    let circles = circles(&edges).into_iter();
    circles
        .map(|members| {
            let inside = imports
                .iter()
                .filter(|(from, to, _)| members.contains(from) && members.contains(to));
            let imports = inside.map(|(_, _, text)| text.clone()).collect();
            Circle { members: members.into_iter().map(str::to_owned).collect(), imports }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{File, crates};

    const FILES_OF_CLI: [(&str, &str); 4] = [
        ("main.rs", "struct Main;\n"),
        ("low/mod.rs", "use crate::high::High;\nstruct Low;\n"),
        ("high/mod.rs", "use crate::low;\npub struct High;\n"),
        ("high/other.rs", "use super::High;\nstruct Low;\n"),
    ];

    fn lists(imports: &str, files: &str, names: &str) -> Lists {
        let parse = |text| Exceptions::parse(text).unwrap();
        Lists { imports: parse(imports), files: parse(files), names: parse(names) }
    }

    fn report(folders: &str, lists: &Lists) -> Structure {
        let files = FILES_OF_CLI
            .map(|(path, text)| File { path: format!("xds-cli/src/{path}"), text: text.into() });
        Structure::new(&crates(&files), &FolderOrders::parse(folders).unwrap(), lists)
    }

    #[test]
    fn each_kind_of_violation_is_found() {
        let none = Lists::default();
        let report = report("[xds-cli]\nlow\nhigh\n.\n", &none);
        assert_eq!(
            report.findings(&none),
            [
                "xds-cli low -> high violates the folder order",
                "  xds-cli/src/low/mod.rs:1 imports xds-cli/src/high/mod.rs",
                "cycle of files: xds-cli/src/high/mod.rs, xds-cli/src/low/mod.rs",
                "  xds-cli/src/low/mod.rs:1 imports xds-cli/src/high/mod.rs",
                "  xds-cli/src/high/mod.rs:1 imports xds-cli/src/low/mod.rs",
                "xds-cli Low is defined 2 times",
                "  xds-cli/src/low/mod.rs:2",
                "  xds-cli/src/high/other.rs:2",
            ]
        );
        assert!(report.summary().starts_with("cycles between folders 1\n"));
    }

    #[test]
    fn exceptions_are_accepted_until_they_are_not_needed() {
        let lists = lists(
            "[r]\nxds-cli low -> high\nxds-cli x -> y\n",
            "[r]\nxds-cli/src/high/mod.rs\nxds-cli/src/low/mod.rs\n",
            "[r]\nxds-cli Low 3\nxds-cli Gone 2\n",
        );
        let report = report("[xds-cli]\nlow\nhigh\n.\n", &lists);
        assert_eq!(
            report.findings(&lists),
            [(IMPORTS, 3), (NAMES, 2), (NAMES, 3)].map(|(path, line)| format!(
                "{path}, line {line}: no longer needed (cargo xtask structure --prune)"
            ))
        );
    }

    #[test]
    fn order_must_have_every_folder_and_no_other() {
        let none = Lists::default();
        let report = report("[xds-cli]\nlow\nmiddle\n.\n[xds-gone]\n.\n", &none);
        let findings = report.findings(&none);
        let hint = "(xtask/data/structure/folders.txt)";
        assert_eq!(
            &findings[..3],
            [
                format!("xds-gone has a folder order, but no code {hint}"),
                format!("xds-cli: the folder high is missing in the folder order {hint}"),
                format!("xds-cli: the folder order lists middle, which does not exist {hint}"),
            ]
        );
    }
}
