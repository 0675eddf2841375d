//! Rules: what each id means, where it comes from, and where code and tests cite it.
//!
//! The rules are in `tests/coverage/catalogue/` ([`catalogue`]), the order of their themes in
//! `tests/coverage/themes.txt`, and their public sources in `tests/coverage/sources.txt`
//! ([`sources`]). `docs/REQUIREMENTS.md` is generated from them ([`requirements`]).

mod catalogue;
mod citations;
mod ids;
pub(crate) mod lookup;
pub(crate) mod requirements;
mod sources;

use std::path::Path;

pub(crate) use catalogue::{Catalogue, Item, Theme};
pub(crate) use ids::Ids;

use crate::repository::error::Error;
use crate::repository::{BadLine, entries, read};
use crate::source::files;
use sources::Sources;

/// Folder with the rules of each theme.
const CATALOGUE: &str = "tests/coverage/catalogue";
/// File with the order of the themes.
const THEMES: &str = "tests/coverage/themes.txt";
/// File with the public sources.
const SOURCES: &str = "tests/coverage/sources.txt";

/// Headings with the keys of their themes, in order.
type Themes = Vec<(String, Vec<String>)>;

/// Reads all rules, in the order of the themes.
pub(crate) fn load_catalogue(root: &Path) -> Result<Catalogue, Error> {
    let files = files(root, CATALOGUE, "txt")?;
    let mut catalogue = Catalogue::default();
    let mut read = 0;
    for key in load_themes(root)?.iter().flat_map(|(_, keys)| keys) {
        let prefix = format!("{CATALOGUE}/{key}");
        for file in &files {
            let rest = file.path.strip_prefix(&prefix).and_then(|it| it.strip_suffix(".txt"));
            if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) {
                catalogue.add(&file.text).map_err(|line| line.in_file(&file.path))?;
                read += 1;
            }
        }
    }
    if read < files.len() {
        let why = format!("{} files of {CATALOGUE}/ belong to no theme", files.len() - read);
        return Err(BadLine { line: 1, why }.in_file(THEMES));
    }
    Ok(catalogue)
}

fn load_themes(root: &Path) -> Result<Themes, Error> {
    parse_themes(&read(root, THEMES)?).map_err(|line| line.in_file(THEMES))
}

fn load_sources(root: &Path) -> Result<Sources, Error> {
    Sources::parse(&read(root, SOURCES)?).map_err(|line| line.in_file(SOURCES))
}

/// Parses `[HEADING]` lines, each with lines of keys below.
fn parse_themes(text: &str) -> Result<Themes, BadLine> {
    let mut themes: Themes = Vec::new();
    for (line, text) in entries(text) {
        if let Some(heading) = text.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            themes.push((heading.to_owned(), Vec::new()));
        } else if let Some((_, keys)) = themes.last_mut() {
            keys.extend(text.split_whitespace().map(str::to_owned));
        } else {
            return Err(BadLine { line, why: "no [HEADING] line precedes it".into() });
        }
    }
    Ok(themes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::root;

    #[test]
    fn themes_have_headings() {
        let themes = parse_themes("# Prose.\n[One]\nA B\nC\n\n[Two]\nD\n").unwrap();
        let keys: Vec<_> = themes.iter().map(|(it, keys)| (it.as_str(), keys.join(" "))).collect();
        assert_eq!(keys, [("One", "A B C".to_owned()), ("Two", "D".to_owned())]);
        assert_eq!(parse_themes("A\n").unwrap_err().why, "no [HEADING] line precedes it");
    }

    /// Loading fails for an id without a sentence or without a source.
    #[test]
    fn every_rule_has_a_sentence_and_known_sources() {
        let catalogue = load_catalogue(&root()).unwrap();
        let sources = load_sources(&root()).unwrap();
        assert!(catalogue.items().count() > 1400);
        let used: Vec<_> = catalogue.items().flat_map(|item| &item.sources).collect();
        for item in catalogue.items() {
            for source in &item.sources {
                let text = source.text();
                assert!(sources.document(source).is_some(), "{}: unknown source {text}", item.id);
            }
        }
        assert_eq!(sources.unused(&used), [""; 0], "sources that no rule cites");
    }

    #[test]
    fn every_cited_id_is_in_the_catalogue() {
        let catalogue = load_catalogue(&root()).unwrap();
        let citations = citations::all(&root(), &catalogue).unwrap();
        let unknown: Vec<String> = citations
            .iter()
            .filter(|citation| !catalogue.knows(&citation.id))
            .map(|citation| format!("{}:{} {}", citation.path, citation.line, citation.id))
            .collect();
        assert!(citations.len() > 2000, "{}", citations.len());
        assert_eq!(unknown, [""; 0]);
    }
}
