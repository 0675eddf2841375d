//! Import graph of a crate, and circles in a graph.
//!
//! A re-export is no import. An imported name leads to the file that defines it, through
//! re-exports.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{Import, imports, without_visibility};
use crate::source::{Crate, Module};

/// Import of one file by another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileImport {
    /// Index of the importing module.
    pub(crate) from: usize,
    /// Index of the imported module.
    pub(crate) to: usize,
    /// Line of the first such import.
    pub(crate) line: usize,
}

/// Names that the modules of a crate define and re-export.
struct Names<'a> {
    index: BTreeMap<&'a [String], usize>,
    defined: Vec<BTreeSet<String>>,
    reexported: Vec<BTreeMap<String, Vec<String>>>,
}

/// Returns the imports between the files of a crate, at most one for each pair.
pub(crate) fn edges(package: &Crate) -> Vec<FileImport> {
    let modules = &package.modules;
    let imports: Vec<Vec<Import>> = modules.iter().map(|module| imports(&module.code)).collect();
    let names = Names {
        index: modules.iter().enumerate().map(|(index, it)| (it.name.as_slice(), index)).collect(),
        defined: modules.iter().map(|module| defined(&module.code)).collect(),
        reexported: modules
            .iter()
            .zip(&imports)
            .map(|(it, imports)| reexports(it, imports))
            .collect(),
    };
    let mut first: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for (from, (module, imports)) in modules.iter().zip(&imports).enumerate() {
        for import in imports.iter().filter(|import| !import.is_reexport) {
            let target = names.target(&absolute(&import.path, &module.name), 0);
            if let Some(to) = target.filter(|&to| to != from) {
                let line = first.entry((from, to)).or_insert(import.line);
                *line = import.line.min(*line);
            }
        }
    }
    first.into_iter().map(|((from, to), line)| FileImport { from, to, line }).collect()
}

impl Names<'_> {
    /// Returns the module that defines what an absolute path names.
    fn target(&self, path: &[String], depth: usize) -> Option<usize> {
        let (length, &module) =
            (0..=path.len()).rev().find_map(|it| Some((it, self.index.get(&path[..it])?)))?;
        if let Some(name) = path.get(length)
            && depth < 8
            && !self.defined[module].contains(name)
            && let Some(source) = self.reexported[module].get(name)
        {
            let path = [source.as_slice(), &path[length + 1..]].concat();
            return self.target(&path, depth + 1);
        }
        Some(module)
    }
}

/// Returns the path from the root of the crate.
fn absolute(path: &[String], module: &[String]) -> Vec<String> {
    let ups = path.iter().take_while(|segment| *segment == "super").count();
    let (base, rest) = match path.first().map(String::as_str) {
        Some("crate") => (&[][..], &path[1..]),
        Some("self") => (module, &path[1..]),
        Some("super") => (&module[..module.len().saturating_sub(ups)], &path[ups..]),
        _ => (module, path),
    };
    [base, rest].concat()
}

fn reexports(module: &Module, imports: &[Import]) -> BTreeMap<String, Vec<String>> {
    let reexports = imports.iter().filter(|import| import.is_reexport);
    reexports
        .filter_map(|import| {
            let name = import.alias.as_ref().or_else(|| import.path.last())?;
            Some((name.clone(), absolute(&import.path, &module.name)))
        })
        .collect()
}

/// Returns the names of the items that some code defines, at any depth.
fn defined(code: &str) -> BTreeSet<String> {
    code.lines()
        .filter_map(|line| item(line.trim_start()))
        .map(|(_, name)| name.to_owned())
        .collect()
}

/// Returns the keyword and the name of an item.
pub(crate) fn item(line: &str) -> Option<(&str, &str)> {
    let (_, mut rest) = without_visibility(line);
    loop {
        let (word, after) = rest.split_once(' ')?;
        match word {
            "struct" | "enum" | "trait" | "union" | "type" | "fn" | "static" => {
                let end = after.find(|c: char| !c.is_alphanumeric() && c != '_');
                return Some((word, &after[..end.unwrap_or(after.len())]));
            }
            "const" if !["fn ", "unsafe ", "async "].iter().any(|it| after.starts_with(it)) => {
                return Some((word, after.split(':').next().unwrap_or(after)));
            }
            "const" | "unsafe" | "async" | "extern" | "\"C\"" => rest = after,
            _ => return None,
        }
    }
}

/// Returns the circles of a graph: the sets of nodes that reach each other, sorted.
pub(crate) fn circles<T: Clone + Ord>(edges: &BTreeSet<(T, T)>) -> Vec<Vec<T>> {
    let mut next: BTreeMap<&T, Vec<&T>> = BTreeMap::new();
    for (from, to) in edges {
        next.entry(from).or_default().push(to);
    }
    let reached: BTreeMap<&T, BTreeSet<&T>> =
        next.keys().map(|&node| (node, reached_from(node, &next))).collect();
    let mut found: Vec<Vec<T>> = Vec::new();
    for (&node, targets) in &reached {
        let is_known = found.iter().any(|circle| circle.contains(node));
        let circle =
            targets.iter().filter(|it| reached.get(*it).is_some_and(|back| back.contains(node)));
        let circle: Vec<T> = circle.map(|&it| it.clone()).collect();
        if circle.len() > 1 && !is_known {
            found.push(circle);
        }
    }
    found
}

fn reached_from<'a, T: Ord>(start: &'a T, next: &BTreeMap<&'a T, Vec<&'a T>>) -> BTreeSet<&'a T> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(node) = open.pop() {
        for &target in next.get(node).into_iter().flatten() {
            if reached.insert(target) {
                open.push(target);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{File, crates};

    fn named_edges(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let files: Vec<File> = files
            .iter()
            .map(|(path, text)| File { path: format!("a/src/{path}"), text: (*text).into() })
            .collect();
        let package = crates(&files).remove(0);
        let name = |index: usize| package.modules[index].name.join("::");
        edges(&package).into_iter().map(|edge| (name(edge.from), name(edge.to))).collect()
    }

    fn pair(from: &str, to: &str) -> (String, String) {
        (from.into(), to.into())
    }

    #[test]
    fn import_leads_through_reexports_to_the_defining_file() {
        let edges = named_edges(&[
            ("lib.rs", "mod a;\nmod b;\npub use b::c::X;\n"),
            ("a.rs", "use crate::b::{X, own};\nuse crate::Y;\n"),
            ("b/mod.rs", "mod c;\npub use self::c::X;\npub fn own() {}\n"),
            ("b/c.rs", "pub struct X;\n#[cfg(test)]\nmod tests {\n    use super::super::own;\n}\n"),
        ]);
        assert_eq!(edges, [pair("a", ""), pair("a", "b"), pair("a", "b::c")]);
    }

    #[test]
    fn circle_is_found_over_several_nodes() {
        let edges = BTreeSet::from([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "a")]);
        assert_eq!(circles(&edges), [["a", "b", "c"]]);
        let two = BTreeSet::from([("a", "b"), ("b", "a"), ("c", "d"), ("d", "c"), ("a", "c")]);
        assert_eq!(circles(&two), [["a", "b"], ["c", "d"]]);
        assert_eq!(circles(&BTreeSet::from([("a", "b"), ("b", "c")])), [[""; 0]; 0]);
    }

    #[test]
    fn items_of_every_kind_have_a_name() {
        assert_eq!(item("pub(crate) struct A<T> {"), Some(("struct", "A")));
        assert_eq!(item("pub const fn f() {"), Some(("fn", "f")));
        assert_eq!(item("const X: u8 = 1;"), Some(("const", "X")));
        assert_eq!(item("pub type B = C;"), Some(("type", "B")));
        assert_eq!(item("unsafe trait D {}"), Some(("trait", "D")));
        assert_eq!(item("let x = 1;"), None);
    }
}
