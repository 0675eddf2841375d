//! The list of all requirement ids that tests can cover.
//!
//! ```text
//! theme UN A,B unsubscribe, resubscribe
//! UN-01 A Cancelling one of several watchers of the same name
//! ```

use std::collections::BTreeMap;

use super::BadLine;

/// All requirement ids by theme, in the order of the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Catalogue {
    pub(crate) themes: Vec<Theme>,
    /// Position of each id: its theme and its index in the theme.
    places: BTreeMap<String, (usize, usize)>,
}

/// Group of related requirements.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Theme {
    pub(crate) key: String,
    pub(crate) title: String,
    /// Tiers or tags whose requirements must be covered.
    must: Vec<String>,
    pub(crate) items: Vec<Item>,
}

/// Requirement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) id: String,
    /// Tier or tags of the requirement; `-` for none.
    pub(crate) tags: String,
    /// Short description; may be empty.
    pub(crate) words: String,
}

impl Catalogue {
    pub(crate) fn parse(text: &str) -> Result<Self, BadLine> {
        let mut catalogue = Self::default();
        for (number, line) in text.lines().enumerate() {
            let bad = |why: String| BadLine { line: number + 1, why };
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(theme) = line.strip_prefix("theme ") {
                let [key, must, title] = split(theme)
                    .ok_or_else(|| bad(format!("`{line}` is not `theme KEY MUST TITLE`")))?;
                let must = must.split(',').filter(|&tag| tag != "-").map(str::to_owned).collect();
                catalogue.themes.push(Theme {
                    key: key.into(),
                    title: title.into(),
                    must,
                    items: Vec::new(),
                });
                continue;
            }
            let [id, tags, words] =
                split(line).ok_or_else(|| bad(format!("`{line}` is not `ID TAGS WORDS`")))?;
            let index = catalogue.themes.len().checked_sub(1);
            let index = index.ok_or_else(|| bad(format!("{id} belongs to no theme")))?;
            let items = &mut catalogue.themes[index].items;
            if catalogue.places.insert(id.into(), (index, items.len())).is_some() {
                return Err(bad(format!("{id} is listed twice")));
            }
            items.push(Item { id: id.into(), tags: tags.into(), words: words.into() });
        }
        Ok(catalogue)
    }

    pub(crate) fn knows(&self, id: &str) -> bool {
        self.places.contains_key(id)
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
        item.tags.split(',').any(|tag| self.must.iter().any(|must| must == tag))
    }
}

/// Splits a line into two words and the rest, which may be empty.
fn split(line: &str) -> Option<[&str; 3]> {
    let (first, rest) = line.split_once(' ')?;
    let (second, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    (!first.is_empty() && !second.is_empty()).then_some([first, second, rest])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# Prose.

theme UN A,B unsubscribe, resubscribe
UN-01 A One of several watchers
UN-12 B Twice
theme S0 client,transport xDS protocol
S0.001 transport
S0.066 server,transport
S0.067 server
theme IC - client invariants
IC1 -
";

    fn refused(text: &str) -> (usize, String) {
        let BadLine { line, why } = Catalogue::parse(text).unwrap_err();
        (line, why)
    }

    #[test]
    fn ids_keep_their_order_their_tags_and_their_words() {
        let catalogue = Catalogue::parse(TEXT).unwrap();
        let keys: Vec<&str> = catalogue.themes.iter().map(|theme| theme.key.as_str()).collect();
        assert_eq!(keys, ["UN", "S0", "IC"]);
        assert_eq!(catalogue.themes[0].title, "unsubscribe, resubscribe");
        assert_eq!(
            catalogue.themes[0].items[1],
            Item { id: "UN-12".into(), tags: "B".into(), words: "Twice".into() }
        );
        assert_eq!(catalogue.themes[1].items[0].words, "");
    }

    #[test]
    fn one_tag_of_several_is_enough_to_have_to_be_shown() {
        let catalogue = Catalogue::parse(TEXT).unwrap();
        assert!(catalogue.must_be_shown("UN-12"));
        assert!(catalogue.must_be_shown("S0.066"));
        assert!(!catalogue.must_be_shown("S0.067"));
        assert!(!catalogue.must_be_shown("IC1"));
        assert!(catalogue.knows("IC1"));
        assert!(!catalogue.knows("IC2"));
    }

    #[test]
    fn a_bad_line_is_named() {
        assert_eq!(refused("\ntheme UN\n"), (2, "`theme UN` is not `theme KEY MUST TITLE`".into()));
        assert_eq!(refused("UN-01 A One\n"), (1, "UN-01 belongs to no theme".into()));
        assert_eq!(refused("theme UN A x\nUN-01\n"), (2, "`UN-01` is not `ID TAGS WORDS`".into()));
        let twice = "theme UN A x\nUN-01 A One\nUN-01 A One\n";
        assert_eq!(refused(twice), (3, "UN-01 is listed twice".into()));
    }
}
