//! The catalogue of rules: for each id one sentence and its public sources.
//!
//! ```text
//! theme UN A,B Unsubscribing and resubscribing
//!
//! # Heading of the rules below
//!
//! UN-01 A [xds: Unsubscribing From Resources; decision]
//!   The sentence, on one or more lines.
//! ```
//!
//! A theme that continues in another file begins there with the same `theme` line.

use std::collections::BTreeMap;

use crate::repository::BadLine;

/// All rules by theme, in the order of the files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Catalogue {
    pub(crate) themes: Vec<Theme>,
    /// Position of each id: its theme and its index in the theme.
    places: BTreeMap<String, (usize, usize)>,
}

/// Group of related rules.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Theme {
    pub(crate) key: String,
    pub(crate) title: String,
    /// Tiers or tags whose rules must be covered, separated by commas; `-` for none.
    must: String,
    pub(crate) items: Vec<Item>,
}

/// Rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) id: String,
    /// Tier or tags of the rule; `-` for none.
    pub(crate) tags: String,
    /// Heading above the rule, if any.
    pub(crate) heading: Option<String>,
    pub(crate) sources: Vec<Source>,
    pub(crate) sentence: String,
}

/// Citation of a public source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// Key in the list of sources.
    pub(crate) key: String,
    /// Section heading, or the name of an implementation.
    pub(crate) section: Option<String>,
}

impl Source {
    /// Formats the citation as in the catalogue.
    pub(crate) fn text(&self) -> String {
        match &self.section {
            Some(section) => format!("{}: {section}", self.key),
            None => self.key.clone(),
        }
    }
}

impl Catalogue {
    #[cfg(test)]
    pub(crate) fn parse(text: &str) -> Result<Self, BadLine> {
        let mut catalogue = Self::default();
        catalogue.add(text)?;
        Ok(catalogue)
    }

    /// Adds the rules of a file.
    pub(crate) fn add(&mut self, text: &str) -> Result<(), BadLine> {
        let (mut theme, mut heading) = (None, None);
        let mut item: Option<(usize, Item)> = None;
        for (number, line) in (1..).zip(text.lines()) {
            let bad = |why: String| BadLine { line: number, why };
            if let Some(sentence) = line.strip_prefix("  ") {
                let (_, item) =
                    item.as_mut().ok_or_else(|| bad("no id line precedes it".into()))?;
                let space = if item.sentence.is_empty() { "" } else { " " };
                item.sentence = format!("{}{space}{}", item.sentence, sentence.trim());
                continue;
            }
            if let Some((line, item)) = item.take() {
                self.insert(theme, line, item)?;
            }
            if line.is_empty() {
            } else if let Some(text) = line.strip_prefix("# ") {
                heading = Some(text.to_owned());
            } else if let Some(header) = line.strip_prefix("theme ") {
                theme = Some(self.theme(header).map_err(bad)?);
                heading = None;
            } else {
                item = Some((number, entry(line, heading.clone()).map_err(bad)?));
            }
        }
        item.map_or(Ok(()), |(line, item)| self.insert(theme, line, item))
    }

    /// Returns the index of the theme with this header, which is added if it is new.
    fn theme(&mut self, header: &str) -> Result<usize, String> {
        let parts: Vec<&str> = header.splitn(3, ' ').filter(|part| !part.is_empty()).collect();
        let &[key, must, title] = parts.as_slice() else {
            return Err(format!("`theme {header}` is not `theme KEY MUST TITLE`"));
        };
        if let Some(index) = self.themes.iter().position(|theme| theme.key == key) {
            let theme = &self.themes[index];
            let same = theme.must == must && theme.title == title;
            return if same { Ok(index) } else { Err(format!("{key} has different titles")) };
        }
        let (key, must, title) = (key.into(), must.into(), title.into());
        self.themes.push(Theme { key, title, must, items: Vec::new() });
        Ok(self.themes.len() - 1)
    }

    fn insert(&mut self, theme: Option<usize>, line: usize, item: Item) -> Result<(), BadLine> {
        let bad = |why: String| BadLine { line, why };
        let id = item.id.clone();
        let index = theme.ok_or_else(|| bad(format!("{id} belongs to no theme")))?;
        let theme = &mut self.themes[index];
        if !id.starts_with(&theme.key) {
            return Err(bad(format!("{id} does not belong to the theme {}", theme.key)));
        }
        if item.sentence.is_empty() {
            return Err(bad(format!("{id} has no sentence")));
        }
        if self.places.insert(id.clone(), (index, theme.items.len())).is_some() {
            return Err(bad(format!("{id} is listed twice")));
        }
        theme.items.push(item);
        Ok(())
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Item> {
        self.places.get(id).map(|&(theme, item)| &self.themes[theme].items[item])
    }

    pub(crate) fn theme_of(&self, id: &str) -> Option<&Theme> {
        self.places.get(id).map(|&(theme, _)| &self.themes[theme])
    }

    pub(crate) fn knows(&self, id: &str) -> bool {
        self.places.contains_key(id)
    }

    /// Returns all rules in their order.
    pub(crate) fn items(&self) -> impl Iterator<Item = &Item> {
        self.themes.iter().flat_map(|theme| &theme.items)
    }

    /// Whether an id must be covered by a test or have a reason why it is not.
    pub(crate) fn must_be_shown(&self, id: &str) -> bool {
        self.places.get(id).is_some_and(|&(theme, item)| {
            let theme = &self.themes[theme];
            theme.must_show(&theme.items[item])
        })
    }
}

impl Theme {
    pub(crate) fn must_show(&self, item: &Item) -> bool {
        item.tags.split(',').any(|tag| tag != "-" && self.must.split(',').any(|must| must == tag))
    }
}

/// Parses `ID TAGS [SOURCE; SOURCE]`.
fn entry(line: &str, heading: Option<String>) -> Result<Item, String> {
    let bad = || format!("`{line}` is not `ID TAGS [SOURCE; SOURCE]`");
    let (id, rest) = line.split_once(' ').ok_or_else(bad)?;
    let (tags, rest) = rest.split_once(' ').ok_or_else(bad)?;
    let sources = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or_else(bad)?;
    let sources: Vec<Source> = sources.split("; ").map(source).collect();
    if sources.iter().any(|source| source.key.is_empty()) {
        return Err(format!("{id} has no source"));
    }
    Ok(Item { id: id.into(), tags: tags.into(), heading, sources, sentence: String::new() })
}

fn source(text: &str) -> Source {
    match text.split_once(": ") {
        Some((key, section)) => Source { key: key.into(), section: Some(section.into()) },
        None => Source { key: text.into(), section: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
theme UN A,B Unsubscribing and resubscribing

UN-01 A [xds: Unsubscribing From Resources; decision]
  The client keeps the subscription
  while a watcher is left.

UN-12 B [decision]
  Twice.
theme S0 client,transport xDS protocol

# Streams

S0.001 transport [xds]
  One.
S0.066 server,transport [xds]
  Two.
S0.067 server [xds]
  Three.
theme IC - client invariants
IC1 - [decision]
  Four.
";

    fn refused(text: &str) -> (usize, String) {
        let BadLine { line, why } = Catalogue::parse(text).unwrap_err();
        (line, why)
    }

    #[test]
    fn rule_has_its_tags_sources_heading_and_sentence() {
        let catalogue = Catalogue::parse(TEXT).unwrap();
        let keys: Vec<&str> = catalogue.themes.iter().map(|theme| theme.key.as_str()).collect();
        assert_eq!(keys, ["UN", "S0", "IC"]);
        assert_eq!(catalogue.themes[0].title, "Unsubscribing and resubscribing");
        let first = catalogue.get("UN-01").unwrap();
        assert_eq!(first.tags, "A");
        assert_eq!(first.sentence, "The client keeps the subscription while a watcher is left.");
        let sources: Vec<String> = first.sources.iter().map(Source::text).collect();
        assert_eq!(sources, ["xds: Unsubscribing From Resources", "decision"]);
        assert_eq!(first.heading, None);
        assert_eq!(catalogue.get("S0.067").unwrap().heading.as_deref(), Some("Streams"));
        assert_eq!(catalogue.get("IC1").unwrap().heading, None);
        assert_eq!(catalogue.items().count(), 6);
    }

    #[test]
    fn theme_continues_in_another_file() {
        let mut catalogue = Catalogue::parse(TEXT).unwrap();
        catalogue.add("theme IC - client invariants\nIC2 - [decision]\n  Five.\n").unwrap();
        assert_eq!(catalogue.themes.len(), 3);
        assert_eq!(catalogue.themes[2].items.len(), 2);
        let other = catalogue.add("theme IC - server invariants\n").unwrap_err();
        assert_eq!(other.why, "IC has different titles");
    }

    #[test]
    fn rule_must_be_shown_if_one_of_its_tags_must() {
        let catalogue = Catalogue::parse(TEXT).unwrap();
        assert!(catalogue.must_be_shown("UN-12"));
        assert!(catalogue.must_be_shown("S0.066"));
        assert!(!catalogue.must_be_shown("S0.067"));
        assert!(!catalogue.must_be_shown("IC1"));
        assert!(catalogue.knows("IC1"));
        assert!(!catalogue.knows("IC2"));
    }

    #[test]
    fn id_without_a_sentence_or_a_source_is_refused() {
        let no_sentence = "theme IC - x\nIC1 - [decision]\n\nIC2 - [decision]\n  Two.\n";
        assert_eq!(refused(no_sentence), (2, "IC1 has no sentence".into()));
        assert_eq!(refused("theme IC - x\nIC1 - []\n  One.\n"), (2, "IC1 has no source".into()));
        let no_brackets = "theme IC - x\nIC1 -\n  One.\n";
        assert_eq!(refused(no_brackets), (2, "`IC1 -` is not `ID TAGS [SOURCE; SOURCE]`".into()));
    }

    #[test]
    fn invalid_line_is_named() {
        assert_eq!(refused("IC1 - [d]\n  One.\n"), (1, "IC1 belongs to no theme".into()));
        assert_eq!(
            refused("theme IC -\n"),
            (1, "`theme IC -` is not `theme KEY MUST TITLE`".into())
        );
        assert_eq!(refused("  One.\n"), (1, "no id line precedes it".into()));
        let twice = "theme IC - x\nIC1 - [d]\n  One.\nIC1 - [d]\n  Two.\n";
        assert_eq!(refused(twice), (4, "IC1 is listed twice".into()));
        let other = "theme IC - x\nIS1 - [d]\n  One.\n";
        assert_eq!(refused(other), (2, "IS1 does not belong to the theme IC".into()));
    }
}
