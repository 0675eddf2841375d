//! Size of the management server in `xds-core`: its lines of code, its long functions, and the files
//! through which a transaction passes.

use core::fmt::Write as _;
use std::collections::BTreeSet;
use std::path::Path;

use super::code_lines;
use crate::repository::{BadLine, entries, error::Error, exceptions::Exceptions, read, tree::Tree};
use crate::source::without_tests;

const FOLDER: &str = "xds-core/src/server";

/// Intended maximum number of lines of code of the server.
const LINES: usize = 13_400;

/// Maximum number of lines of code of a function.
const FUNCTION_LINES: usize = 60;

/// Functions that are longer.
const LONG_FUNCTIONS: &str = "xtask/data/sizes/long-functions.txt";

/// Intended maximum number of files through which a transaction passes.
const TRANSACTION_FILES: usize = 8;

/// Functions that decide on the way of a transaction.
const TRANSACTION: &str = "xtask/data/sizes/transaction.txt";

/// Function with its size.
#[derive(Debug, PartialEq, Eq)]
struct Function<'a> {
    name: &'a str,
    /// Number of lines of code, from the signature to the closing brace.
    lines: usize,
}

/// Formats the figures as Markdown.
///
/// # Errors
///
/// Returns an error if a function is longer than permitted, or a list names a function that does not
/// exist.
pub(super) fn table(root: &Path) -> Result<String, Error> {
    let tree = Tree::read(&root.join(FOLDER))?;
    let lines: usize = tree.0.values().map(|text| code_lines(text)).sum();
    let long = long_functions(&tree);
    check_long_functions(&long, &read(root, LONG_FUNCTIONS)?)?;
    let files = transaction_files(&read(root, TRANSACTION)?, &tree)
        .map_err(|error| error.in_file(TRANSACTION))?;
    let mut table =
        String::from("\n| management server of xds-core | is | aim |\n|---|---:|---:|\n");
    // Writing to a string cannot fail.
    let _ = writeln!(table, "| lines of code | {lines} | {LINES} |");
    let _ = writeln!(table, "| functions over {FUNCTION_LINES} lines | {} | 0 |", long.len());
    for (name, lines) in &long {
        let _ = writeln!(table, "| lines of {name} | {lines} | {FUNCTION_LINES} |");
    }
    let _ =
        writeln!(table, "| files on the way of a transaction | {files} | {TRANSACTION_FILES} |");
    Ok(table)
}

/// Returns the functions that are too long, as `FILE FUNCTION`, with their numbers of lines.
fn long_functions(tree: &Tree) -> Vec<(String, usize)> {
    let mut long = Vec::new();
    for (path, text) in &tree.0 {
        let code = without_tests(text);
        let functions = functions(&code).into_iter().filter(|it| it.lines > FUNCTION_LINES);
        long.extend(functions.map(|it| (format!("{path} {}", it.name), it.lines)));
    }
    long
}

/// Compares long functions with those that are permitted.
fn check_long_functions(long: &[(String, usize)], permitted: &str) -> Result<(), Error> {
    let permitted = Exceptions::parse(permitted).map_err(|error| error.in_file(LONG_FUNCTIONS))?;
    let new = long.iter().filter(|(name, _)| !permitted.contains(name));
    let new = new.map(|(name, lines)| {
        format!("{FOLDER}/{name}: {lines} lines of code, at most {FUNCTION_LINES}; split it")
    });
    let old = permitted.0.iter().filter(|it| !long.iter().any(|(name, _)| *name == it.text));
    let old = old.map(|it| {
        format!(
            "{LONG_FUNCTIONS}, line {}: `{}` is not too long; remove the line",
            it.line, it.text
        )
    });
    let findings: Vec<String> = new.chain(old).collect();
    if findings.is_empty() { Ok(()) } else { Err(Error::Sizes { findings }) }
}

/// Returns the functions of a file formatted by rustfmt, except those of one line.
fn functions(code: &str) -> Vec<Function<'_>> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = |line: &&str| line.strip_prefix(indent).is_some_and(|rest| rest == "}");
        let rest = &lines[start..];
        let next = rest.iter().skip(1).position(|line| function_name(line).is_some());
        let Some(end) = rest.iter().position(end) else { continue };
        // A declaration without a body ends at the next function.
        if next.is_some_and(|next| {
            next + 1 < end && rest[next + 1].starts_with(&format!("{indent}fn "))
        }) {
            continue;
        }
        found.push(Function { name, lines: code_lines(&rest[..=end].join("\n")) });
    }
    found
}

/// Returns the name of the function that begins in a line.
fn function_name(line: &str) -> Option<&str> {
    let mut words = line.trim_start();
    for word in ["pub(crate) ", "pub(super) ", "pub ", "const ", "async "] {
        words = words.strip_prefix(word).unwrap_or(words);
    }
    words.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// Counts the files of a list with lines `FILE FUNCTION`.
fn transaction_files(list: &str, tree: &Tree) -> Result<usize, BadLine> {
    let mut files = BTreeSet::new();
    for (line, text) in entries(list) {
        let bad = |why: &str| BadLine { line, why: format!("`{text}` {why}") };
        let (file, name) = text.split_once(' ').ok_or_else(|| bad("is not `FILE FUNCTION`"))?;
        let code = tree.0.get(file).ok_or_else(|| bad("is in no file of the server"))?;
        if !code.lines().any(|line| function_name(line) == Some(name)) {
            return Err(bad("is not defined in that file"));
        }
        files.insert(file);
    }
    Ok(files.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "impl A {\n    /// Doc.\n    pub(crate) const fn long(\n        &self,\n    ) -> u8 {\n        // Why.\n        1\n    }\n\n    fn b<T>() {\n    }\n}\n";

    #[test]
    fn function_has_its_lines_of_code() {
        let found = functions(CODE);
        let long = Function { name: "long", lines: 5 };
        assert_eq!(found, [long, Function { name: "b", lines: 2 }]);
    }

    #[test]
    fn new_long_function_and_unneeded_exception_are_findings() {
        let long = [("a.rs f".to_owned(), 61)];
        assert!(check_long_functions(&long, "[old]\na.rs f\n").is_ok());
        let error = check_long_functions(&long, "[old]\na.rs g\n").unwrap_err().to_string();
        assert!(error.contains("a.rs f: 61 lines of code, at most 60; split it"), "{error}");
        assert!(error.contains("line 2: `a.rs g` is not too long"), "{error}");
    }

    #[test]
    fn files_of_transaction_are_counted_once_and_must_exist() {
        let tree = Tree([("a.rs".to_owned(), CODE.to_owned())].into());
        assert_eq!(transaction_files("# Why.\na.rs long\na.rs b\n", &tree), Ok(1));
        let error = transaction_files("a.rs c\n", &tree).unwrap_err();
        assert_eq!(error.why, "`a.rs c` is not defined in that file");
    }

    #[test]
    fn functions_of_the_server_are_not_longer_than_permitted() {
        table(&crate::repository::root()).unwrap();
    }
}
