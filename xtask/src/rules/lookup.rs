//! The command `rule`: what an id means, where it comes from, where it is implemented and tested.

use std::fmt::Write as _;
use std::path::Path;

use super::catalogue::{Catalogue, Item};
use super::citations::{self, Citation, Kind};
use super::sources::Sources;
use super::{load_catalogue, load_sources};
use crate::repository::error::Error;

/// Returns the text about each id.
pub(crate) fn run(root: &Path, ids: &[&str]) -> Result<String, Error> {
    let (catalogue, sources) = (load_catalogue(root)?, load_sources(root)?);
    let mut items = Vec::new();
    for id in ids {
        let id = id.to_ascii_uppercase();
        // Some ids end with a lower-case letter.
        let with_variant = id
            .char_indices()
            .next_back()
            .map(|(last, _)| format!("{}{}", &id[..last], id[last..].to_ascii_lowercase()));
        let item = catalogue.get(&id).or_else(|| catalogue.get(with_variant.as_deref()?));
        items
            .push(item.ok_or_else(|| Error::Rule { near: near(&catalogue, &id), id: id.clone() })?);
    }
    let citations = citations::all(root, &catalogue)?;
    let texts: Vec<String> =
        items.iter().map(|item| text(item, &catalogue, &sources, &citations)).collect();
    Ok(texts.join("\n\n"))
}

fn text(item: &Item, catalogue: &Catalogue, sources: &Sources, citations: &[Citation]) -> String {
    let mut text = format!("{}  {}", item.id, item.sentence);
    let theme = catalogue.theme_of(&item.id).map_or("", |theme| &theme.title);
    let heading = item.heading.as_ref().map(|it| format!(", {it}")).unwrap_or_default();
    let _ = write!(text, "\n  theme: {theme}{heading}");
    for source in &item.sources {
        let document = sources.document(source);
        let url = document.and_then(|it| it.url.as_deref()).unwrap_or_default();
        let _ = write!(text, "\n  {}", format!("source: {}  {url}", source.text()).trim_end());
    }
    let kinds = [Kind::Code, Kind::Test, Kind::Script, Kind::Mutant];
    for (kind, name) in kinds.into_iter().zip(["code", "tests", "scripts", "known bugs"]) {
        let places: Vec<String> = citations
            .iter()
            .filter(|citation| citation.kind == kind && citation.id == item.id)
            .map(|Citation { path, line, function, .. }| {
                let function = function.as_ref().map(|it| format!("  {it}")).unwrap_or_default();
                format!("\n    {path}:{line}{function}")
            })
            .collect();
        if !places.is_empty() {
            let _ = write!(text, "\n  {name}:{}", places.concat());
        }
    }
    text
}

/// Returns up to five ids of the catalogue that differ least from `id`.
fn near(catalogue: &Catalogue, id: &str) -> Vec<String> {
    let mut all: Vec<(usize, &str)> = catalogue
        .items()
        .map(|item| (distance(id, &item.id.to_ascii_uppercase()), item.id.as_str()))
        .collect();
    all.sort();
    let close = all.into_iter().take_while(|(distance, _)| *distance <= 2).take(5);
    close.map(|(_, id)| id.to_owned()).collect()
}

/// Number of characters to insert, remove or replace.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, left) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, &right) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> Catalogue {
        Catalogue::parse(
            "theme UN A Unsubscribing\n# Names\nUN-01 A [xds: Deletions; decision]\n  One.\nUN-02 A [xds]\n  Two.\n\
             theme M - Server\nM93 - [xds]\n  Three.\n",
        )
        .unwrap()
    }

    #[test]
    fn text_has_the_sentence_the_sources_and_every_place() {
        let sources = Sources::parse("xds | xDS | https://a\ndecision | Decision | -\n").unwrap();
        let citation = |id: &str, kind, line, function: Option<&str>| Citation {
            id: id.into(),
            path: "a.rs".into(),
            line,
            kind,
            function: function.map(str::to_owned),
        };
        let citations = [
            citation("UN-01", Kind::Code, 1, None),
            citation("UN-01", Kind::Test, 2, Some("t")),
            citation("UN-02", Kind::Test, 3, Some("u")),
        ];
        let catalogue = catalogue();
        let item = catalogue.get("UN-01").unwrap();
        let expected = "\
UN-01  One.
  theme: Unsubscribing, Names
  source: xds: Deletions  https://a
  source: decision
  code:
    a.rs:1
  tests:
    a.rs:2  t";
        assert_eq!(text(item, &catalogue, &sources, &citations), expected);
    }

    #[test]
    fn near_ids_are_suggested() {
        assert_eq!(near(&catalogue(), "UN01"), ["UN-01", "UN-02"]);
        assert_eq!(near(&catalogue(), "M9"), ["M93"]);
        assert_eq!(near(&catalogue(), "Q123456"), [""; 0]);
    }
}
