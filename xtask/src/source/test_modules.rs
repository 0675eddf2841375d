//! Test modules: `#[cfg(test)] mod name;` in a file of its own, or `#[cfg(test)] mod name { .. }`.

use std::ops::RangeInclusive;

/// Test module that a file declares or contains.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TestModule {
    name: String,
    /// Indices of its lines in this file, with its attributes.
    lines: RangeInclusive<usize>,
    /// Whether it is in a file of its own.
    is_file: bool,
}

/// Returns the names of the test modules that have a file of their own.
pub(crate) fn declared(text: &str) -> Vec<String> {
    let modules = test_modules(text).into_iter();
    modules.filter(|module| module.is_file).map(|module| module.name).collect()
}

/// Replaces the test modules inside a file with empty lines.
pub(crate) fn without_tests(text: &str) -> String {
    let modules = test_modules(text);
    let is_test = |index: usize| modules.iter().any(|it| !it.is_file && it.lines.contains(&index));
    let lines = text.lines().enumerate();
    lines.map(|(index, line)| (if is_test(index) { "" } else { line }).to_owned() + "\n").collect()
}

/// Returns a function that tells whether a line, counted from 1, belongs to a test module.
pub(crate) fn is_test_line(text: &str) -> impl Fn(usize) -> bool {
    let modules = test_modules(text);
    move |line| modules.iter().any(|it| !it.is_file && it.lines.contains(&(line - 1)))
}

fn test_modules(text: &str) -> Vec<TestModule> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let attribute = line.trim_start();
        if !attribute.starts_with("#[cfg(test)]") && !attribute.starts_with("#[cfg(all(test") {
            continue;
        }
        let indent = &line[..line.len() - attribute.len()];
        let after = lines[start + 1..].iter().position(|line| !line.trim_start().starts_with("#["));
        let Some(module) = after.map(|after| start + 1 + after) else { continue };
        let declaration = lines[module].trim_start();
        let declaration = declaration.strip_prefix("pub(crate) ").unwrap_or(declaration);
        let Some(name) = declaration.strip_prefix("mod ") else { continue };
        let (name, end) = match (name.strip_suffix(';'), name.strip_suffix(" {")) {
            (Some(name), _) => (name, module),
            (None, Some(name)) => {
                let close = format!("{indent}}}");
                let length = lines[module..].iter().position(|line| *line == close);
                (name, module + length.unwrap_or(lines.len() - module - 1))
            }
            (None, None) => continue,
        };
        let is_file = declaration.ends_with(';');
        found.push(TestModule { name: name.to_owned(), lines: start..=end, is_file });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
fn a() {}
#[cfg(test)]
mod files;
#[cfg(all(test, unix))]
#[path = \"x.rs\"]
mod inside {
    fn b() {
    }
}
fn c() {}
#[cfg(test)]
use x;
";

    #[test]
    fn test_modules_are_found_in_and_outside_of_the_file() {
        assert_eq!(declared(TEXT), ["files"]);
        let code = without_tests(TEXT);
        assert_eq!(code.lines().count(), TEXT.lines().count());
        assert!(code.contains("fn a()") && code.contains("fn c()") && !code.contains("fn b()"));
        let is_test = is_test_line(TEXT);
        assert!(is_test(7) && !is_test(1) && !is_test(10));
    }
}
