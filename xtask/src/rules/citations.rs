//! Places that cite rules: comments of code, tests, protocol scripts, and patches with known bugs.

use std::path::Path;

use super::catalogue::Catalogue;
use super::ids::Ids;
use crate::repository::error::Error;
use crate::source::{File, comment, files, is_test_line};

/// Place that cites a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Citation {
    pub(crate) id: String,
    pub(crate) path: String,
    /// Line number, from 1.
    pub(crate) line: usize,
    pub(crate) kind: Kind,
    /// Function that contains the place, if it is Rust.
    pub(crate) function: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Comment in the `src` folder of a crate.
    Code,
    /// Comment or `covers:` line of a test.
    Test,
    /// Protocol script.
    Script,
    /// Patch with a known bug that tests must find.
    Mutant,
}

/// Beginning of the line of a script or of a test's output that declares coverage.
const COVERS: &str = "covers:";

/// Folders whose ids are examples.
const EXAMPLES: [&str; 2] = ["xtask/src/coverage/", "xtask/src/rules/"];

/// Returns every citation of the repository, sorted by path and line.
pub(crate) fn all(root: &Path, catalogue: &Catalogue) -> Result<Vec<Citation>, Error> {
    let ids = Ids::new(catalogue);
    let finder = Finder { ids: &ids, catalogue };
    let mut found = Vec::new();
    let is_example = |file: &&File| EXAMPLES.iter().any(|folder| file.path.starts_with(folder));
    for file in files(root, "", "rs")?.iter().filter(|file| !is_example(file)) {
        finder.in_rust(file, &mut found);
    }
    for file in files(root, "tests/scripts", "txt")? {
        finder.in_text(&file, Kind::Script, &[COVERS, "#"], &mut found);
    }
    for file in files(root, "tests/mutants", "patch")? {
        finder.in_text(&file, Kind::Mutant, &["Ids:"], &mut found);
    }
    Ok(found)
}

struct Finder<'a> {
    ids: &'a Ids,
    catalogue: &'a Catalogue,
}

impl Finder<'_> {
    fn in_text(&self, file: &File, kind: Kind, marks: &[&str], found: &mut Vec<Citation>) {
        let lines = file.text.lines().enumerate();
        for (index, line) in lines.filter(|(_, it)| marks.iter().any(|mark| it.starts_with(mark))) {
            for id in self.ids.expand(line, self.catalogue) {
                let path = file.path.clone();
                found.push(Citation { id, path, line: index + 1, kind, function: None });
            }
        }
    }

    fn in_rust(&self, file: &File, found: &mut Vec<Citation>) {
        let is_in_test_module = is_test_line(&file.text);
        let is_code = file.path.split_once("/src/").is_some_and(|(package, _)| {
            !package.contains('/') && !["tests", "benches", "examples"].contains(&package)
        });
        let lines: Vec<&str> = file.text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let is_test = !is_code || is_in_test_module(index + 1);
            let mut texts: Vec<&str> = comment(line).into_iter().collect();
            if is_test {
                let continues = index > 0 && is_continued(lines[index - 1]);
                texts.extend(self.claims(line, continues));
            }
            let kind = if is_test { Kind::Test } else { Kind::Code };
            let mut ids: Vec<String> =
                texts.iter().flat_map(|text| self.ids.expand(text, self.catalogue)).collect();
            ids.dedup();
            for id in ids {
                let function = function_at(&lines, index);
                found.push(Citation {
                    id,
                    path: file.path.clone(),
                    line: index + 1,
                    kind,
                    function,
                });
            }
        }
    }

    /// Returns the strings of a line of a test that consist of ids, with `covers:` before them or
    /// not.
    fn claims<'a>(&self, line: &'a str, continues: bool) -> Vec<&'a str> {
        let before = line.split('"').next().filter(|_| continues);
        let strings = before.into_iter().chain(line.split('"').skip(1).step_by(2));
        let ids = strings.map(|text| text.strip_prefix(COVERS).unwrap_or(text));
        ids.map(|text| text.trim_end_matches('\\')).filter(|text| self.ids.are_all(text)).collect()
    }
}

/// Whether a string with `covers:` continues on the next line.
fn is_continued(line: &str) -> bool {
    line.contains("\"covers:") && line.ends_with('\\')
}

/// Returns the name of the function that contains a line, or that a comment above it describes.
fn function_at(lines: &[&str], index: usize) -> Option<String> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_above_item =
        |line: &&&str| ["//", "#["].iter().any(|it| line.trim_start().starts_with(it));
    if lines[index].trim_start().starts_with("//") {
        let next = lines[index..].iter().find(|line| !is_above_item(line));
        if let Some(name) = next.and_then(|line| function_name(line)) {
            return Some(name);
        }
    }
    let mut limit = indent(lines[index]);
    for line in lines[..index].iter().rev().filter(|line| !line.trim().is_empty()) {
        if indent(line) < limit {
            if let Some(name) = function_name(line) {
                return Some(name);
            }
            limit = indent(line);
        }
    }
    None
}

fn function_name(line: &str) -> Option<String> {
    let words: Vec<&str> = line.trim_start().split(' ').collect();
    let position = words.iter().position(|word| *word == "fn")?;
    let is_modifier = |word: &&str| {
        word.starts_with("pub") || ["const", "async", "unsafe", "extern"].contains(word)
    };
    let name = words.get(position + 1)?.split(['(', '<']).next()?;
    words[..position].iter().all(is_modifier).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn citations(path: &str, text: &str) -> Vec<String> {
        let mut catalogue = String::from("theme M a x\n");
        for number in 1..=9 {
            catalogue += &format!("M{number} a [d]\n  One.\n");
        }
        let catalogue = Catalogue::parse(&catalogue).unwrap();
        let mut found = Vec::new();
        let file = File { path: path.into(), text: text.into() };
        Finder { ids: &Ids::new(&catalogue), catalogue: &catalogue }.in_rust(&file, &mut found);
        let text = |it: &Citation| {
            format!("{} {} {:?} {}", it.line, it.id, it.kind, it.function.as_deref().unwrap_or("-"))
        };
        found.iter().map(text).collect()
    }

    #[test]
    fn comments_of_code_count_with_their_function() {
        let text = "\
// M1
struct A;
impl A {
    // M2-M4
    #[must_use]
    pub(crate) const fn f(&self) {
        if true {
            g(\"M5\"); // M6
        }
    }
}
";
        let expected = ["1 M1 Code -", "4 M2 Code f", "4 M3 Code f", "4 M4 Code f", "8 M6 Code f"];
        assert_eq!(citations("a/src/a.rs", text), expected);
    }

    #[test]
    fn claims_of_tests_count_with_their_function() {
        let text = "\
#[test]
fn t() {
    println!(\"covers: M1 M2\");
    println!(
        \"covers: M3 \\
         M4\"
    );
    each(\"M5 M6\", \"watch M7\");
}
";
        let expected = [
            "3 M1 Test t",
            "3 M2 Test t",
            "5 M3 Test t",
            "6 M4 Test t",
            "8 M5 Test t",
            "8 M6 Test t",
        ];
        assert_eq!(citations("a/tests/a.rs", text), expected);
        let inside =
            "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn t() {\n        // M1\n    }\n}\n";
        assert_eq!(citations("a/src/a.rs", inside), ["5 M1 Test t"]);
    }
}
