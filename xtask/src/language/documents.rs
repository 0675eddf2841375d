//! Names in documents: files and code that a text mentions must exist.

use std::collections::BTreeSet;

use super::rules::{Rule, Violation};
use crate::source::File;

/// Extensions of the files that a text may mention.
const EXTENSIONS: [&str; 6] = [".rs", ".md", ".txt", ".toml", ".py", ".proto"];

/// Returns the paths and code names in a document that do not exist.
///
/// `words` has all words of the code, and `exists` answers for a path from the root.
pub(super) fn missing(
    document: &File,
    words: &BTreeSet<&str>,
    exists: impl Fn(&str) -> bool,
) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut is_code = false;
    let folders: Vec<_> = document.path.match_indices('/').map(|(at, _)| at).collect();
    let is_there = |path: &str| {
        let of_folder = |end: &usize| exists(&format!("{}/{path}", &document.path[..*end]));
        exists(path) || folders.iter().any(of_folder)
    };
    for (index, line) in document.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        let mut add = |text: &str| {
            let (path, text) = (document.path.clone(), format!("{text} does not exist"));
            found.push(Violation { rule: Rule::Missing, path, line: index + 1, text });
        };
        let is_missing = |path: &&str| is_there(folder(path)) && !is_there(path);
        paths(line).filter(is_missing).for_each(&mut add);
        let spans = line.split('`').skip(1).step_by(2);
        let spans = spans.filter(|span| !span.contains(' ') && !span.starts_with('-'));
        for span in spans {
            type_names(span).filter(|name| !words.contains(name)).for_each(&mut add);
        }
    }
    found
}

/// Returns the relative paths of files in a line.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    line.split(move |c| !is_part(c)).filter(|token| {
        let (folder, _) = token.split_once('/').unwrap_or_default();
        let is_relative = !folder.is_empty() && !folder.contains('.');
        is_relative && EXTENSIONS.iter().any(|extension| token.ends_with(extension))
    })
}

/// Returns the first folder of a path. If it does not exist either, the path belongs to another place,
/// such as the sources of another project.
fn folder(path: &str) -> &str {
    path.split('/').next().unwrap_or_default()
}

/// Returns the names in camel case, such as `Client` and `ServerEvent` in `Client::ServerEvent`.
fn type_names(span: &str) -> impl Iterator<Item = &str> {
    let words = span.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| {
        word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.contains(|c: char| c.is_ascii_lowercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        let document = File { path: "core/docs/page.md".into(), text: text.into() };
        let words = BTreeSet::from(["Client", "Server"]);
        let exists =
            |path: &str| ["core/src", "core/src/lib.rs", "docs", "docs/a.md"].contains(&path);
        missing(&document, &words, exists).into_iter().map(|it| it.text).collect()
    }

    #[test]
    fn missing_files_are_found() {
        assert_eq!(texts("see docs/a.md, core/src/lib.rs and src/lib.rs"), [""; 0]);
        assert_eq!(texts("see (src/gone.rs)."), ["src/gone.rs does not exist"]);
        assert_eq!(texts("other/place.rs"), [""; 0]);
        assert_eq!(texts("https://example.com/a/b.md and ../x.md"), [""; 0]);
    }

    #[test]
    fn missing_types_are_found_in_code_spans() {
        assert_eq!(texts("`Client::watch` of a Stranger, `--flag X`, `Server`"), [""; 0]);
        assert_eq!(texts("`Client::Gone`"), ["Gone does not exist"]);
        assert_eq!(texts("```\nlet it: Gone;\n```\n"), [""; 0]);
    }
}
