//! Type names that one crate defines more than once.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::item;
use crate::source::Crate;

/// Type name with more than one definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repeated {
    pub(crate) name: String,
    /// Path and line of each definition.
    pub(crate) places: Vec<(String, usize)>,
}

/// Returns the repeated names of a crate, sorted.
///
/// Two definitions, one below `client` and one below `server`, do not count, and alternatives for
/// several platforms in one file count once.
pub(crate) fn repeated(package: &Crate) -> Vec<Repeated> {
    let mut by_name: BTreeMap<String, Vec<(String, usize)>> = BTreeMap::new();
    let mut sides: BTreeMap<String, Vec<Option<&str>>> = BTreeMap::new();
    for module in &package.modules {
        let mut seen = BTreeSet::new();
        for (line, name) in types(&module.code) {
            if seen.insert(name.clone()) {
                let side = module.name.first().map(String::as_str);
                by_name.entry(name.clone()).or_default().push((module.path.clone(), line));
                sides.entry(name).or_default().push(side);
            }
        }
    }
    let is_pair = |name: &str| {
        let mut sides = sides[name].clone();
        sides.sort_unstable();
        sides == [Some("client"), Some("server")]
    };
    let repeated = by_name.into_iter().filter(|(name, it)| it.len() > 1 && !is_pair(name));
    repeated.map(|(name, places)| Repeated { name, places }).collect()
}

/// Returns the line and the name of each type of a module, including those in modules inside the
/// file, but no associated types.
pub(crate) fn types(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut is_in_module = false;
    for (number, line) in (1..).zip(code.lines()) {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if indent == 0 && !text.is_empty() {
            is_in_module = text.ends_with(" {") && text.split(' ').any(|word| word == "mod");
        }
        if (indent == 0 || (indent == 4 && is_in_module))
            && let Some(("struct" | "enum" | "trait" | "union" | "type", name)) = item(text)
        {
            found.push((number, name.to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{File, crates};

    fn names(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let files: Vec<File> = files
            .iter()
            .map(|(path, text)| File { path: format!("a/src/{path}"), text: (*text).into() })
            .collect();
        let repeated = repeated(&crates(&files)[0]);
        repeated.into_iter().map(|it| (it.name, it.places.len())).collect()
    }

    #[test]
    fn name_in_two_files_is_repeated() {
        let files = [
            ("a.rs", "pub struct Node;\nenum Only {\n}\n"),
            ("b.rs", "trait Node {\n    type Item;\n}\nmod c {\n    type Item = u8;\n}\n"),
            ("d.rs", "impl X for Y {\n    type Item = u8;\n}\n"),
        ];
        assert_eq!(names(&files), [("Node".to_owned(), 2)]);
    }

    #[test]
    fn pair_of_client_and_server_is_not_repeated() {
        let pair = [("client/a.rs", "struct Limits;\n"), ("server/b.rs", "struct Limits;\n")];
        assert_eq!(names(&pair), []);
        let three = [pair[0], pair[1], ("c.rs", "struct Limits;\n")];
        assert_eq!(names(&three), [("Limits".to_owned(), 3)]);
        let same = [pair[0], ("client/c.rs", "struct Limits;\n")];
        assert_eq!(names(&same), [("Limits".to_owned(), 2)]);
    }

    #[test]
    fn alternatives_in_one_file_and_test_types_count_once() {
        let files = [
            ("a.rs", "#[cfg(unix)]\nstruct A;\n#[cfg(not(unix))]\nstruct A;\n"),
            ("b.rs", "#[cfg(test)]\nmod tests {\n    struct A;\n}\n"),
        ];
        assert_eq!(names(&files), []);
    }
}
