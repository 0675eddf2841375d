//! Links and anchors of Markdown files.

use std::collections::{BTreeMap, BTreeSet};

use pulldown_cmark::{BrokenLink, CowStr, Event, LinkType, Options, Parser, Tag, TagEnd};

use super::Link;
use super::target::{Target, resolve};

/// Start of a line that includes a file in a page of the book.
const INCLUDE: &str = "{{#include ";

/// Links and anchors of a file.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) links: Vec<Link>,
    /// Labels without a definition, such as `x` in `[text][x]`, with their lines.
    pub(super) undefined: Vec<(usize, String)>,
    anchors: BTreeSet<String>,
}

impl Page {
    /// Parses a file. `texts` has the files that it may include.
    pub(super) fn parse(path: &str, text: &str, texts: &BTreeMap<&str, &str>) -> Self {
        let text = with_included(path, text, texts);
        let ends: Vec<_> = text.match_indices('\n').map(|(at, _)| at).collect();
        let line_of = |offset: usize| ends.partition_point(|end| *end < offset) + 1;
        let mut page = Self::default();
        let mut undefined = Vec::new();
        let mut report = |link: BrokenLink<'_>| {
            // Other brackets, such as `[TYPE]`, are text.
            if matches!(link.link_type, LinkType::Reference | LinkType::Collapsed) {
                undefined.push((line_of(link.span.start), link.reference.to_string()));
            }
            None::<(CowStr<'_>, CowStr<'_>)>
        };
        let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
        let parser = Parser::new_with_broken_link_callback(&text, options, Some(&mut report));
        let mut heading: Option<String> = None;
        for (event, range) in parser.into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    let line = line_of(range.start);
                    page.links.push(Link { line, destination: dest_url.to_string() });
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    page.add_heading(&heading.take().unwrap_or_default())
                }
                Event::Html(html) | Event::InlineHtml(html) => {
                    page.add_html(&html, line_of(range.start))
                }
                Event::Text(part) | Event::Code(part) => {
                    heading.iter_mut().for_each(|heading| heading.push_str(&part));
                }
                _ => {}
            }
        }
        page.undefined = undefined;
        page
    }

    /// Whether the page has a heading or element with this id.
    pub(super) fn has_anchor(&self, anchor: &str) -> bool {
        anchor.is_empty() || self.anchors.contains(anchor)
    }

    /// Adds the id that code hosts and mdBook give to a heading. A repeated heading is numbered.
    fn add_heading(&mut self, heading: &str) {
        let slug = slug(heading);
        let mut unique = slug.clone();
        let mut number = 0;
        while !self.anchors.insert(unique.clone()) {
            number += 1;
            unique = format!("{slug}-{number}");
        }
    }

    fn add_html(&mut self, html: &str, line: usize) {
        for attribute in ["id", "name"] {
            self.anchors.extend(attributes(html, attribute).map(Into::into));
        }
        for attribute in ["href", "src"] {
            let links = attributes(html, attribute);
            self.links.extend(links.map(|it| Link { line, destination: it.into() }));
        }
    }
}

/// Returns the values of an attribute, such as `href`.
pub(super) fn attributes<'a>(html: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    html.match_indices(name).filter_map(move |(at, _)| {
        let value = html[at + name.len()..].strip_prefix("=\"")?;
        let is_whole = html[..at].ends_with(|c: char| c.is_ascii_whitespace());
        value.split('"').next().filter(|_| is_whole)
    })
}

fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Replaces lines that include another file by its contents: `{{#include PATH}}`, or
/// `{{#include PATH:ANCHOR}}` for the lines between two marks. Other files are left out.
fn with_included(path: &str, text: &str, texts: &BTreeMap<&str, &str>) -> String {
    let mut result = String::new();
    for line in text.lines() {
        let included = line.strip_prefix(INCLUDE).and_then(|rest| rest.strip_suffix("}}"));
        let lines = included.map(|included| {
            let included = included.trim();
            let (file, mark) = included.split_once(':').unwrap_or((included, ""));
            let Target::File { path, .. } = resolve(path, file) else { return Vec::new() };
            texts.get(path.as_str()).map_or_else(Vec::new, |text| marked(text, mark))
        });
        for line in lines.unwrap_or_else(|| vec![line]) {
            result.push_str(line);
            result.push('\n');
        }
    }
    result
}

/// Returns the lines between `ANCHOR: MARK` and `ANCHOR_END: MARK`, or all lines if the mark is empty.
fn marked<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    let is = |line: &str, key: &str| line.contains(&format!("{key}: {mark} "));
    if mark.is_empty() {
        return text.lines().collect();
    }
    let from = text.lines().skip_while(|line| !is(line, "ANCHOR")).skip(1);
    from.take_while(|line| !is(line, "ANCHOR_END")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        let texts = BTreeMap::from([(
            "docs/other.md",
            "# Other\n<!-- ANCHOR: part -->\n## Part\n[a](b.md)\n<!-- ANCHOR_END: part -->\n## Rest\n",
        )]);
        Page::parse("docs/page.md", text, &texts)
    }

    fn destinations(text: &str) -> Vec<String> {
        page(text).links.into_iter().map(|link| link.destination).collect()
    }

    #[test]
    fn links_and_images_are_found_outside_of_code() {
        assert_eq!(destinations("[a](b.md) ![c](d.png)\n<a href=\"e\">"), ["b.md", "d.png", "e"]);
        assert_eq!(destinations("| [a][b] |\n|---|\n| x |\n\n[b]: c.md"), ["c.md"]);
        assert_eq!(destinations("`[a](b)`\n\n```\n[c](d)\n```\n"), [""; 0]);
    }

    #[test]
    fn undefined_label_is_found() {
        assert_eq!(page("x\n[a][b] and [TYPE]").undefined, [(2, "b".into())]);
    }

    #[test]
    fn headings_have_the_ids_of_code_hosts() {
        let page = page("# `xds get`: What, now?\n## Same\n## Same\n<a id=\"own\"></a>\n");
        for anchor in ["xds-get-what-now", "same", "same-1", "own", ""] {
            assert!(page.has_anchor(anchor), "{anchor}: {page:?}");
        }
        assert!(!page.has_anchor("same-2"));
    }

    #[test]
    fn included_file_belongs_to_the_page() {
        let whole = page("{{#include other.md}}\n");
        assert!(whole.has_anchor("rest"));
        let part = page("{{#include other.md:part}}\n");
        assert!(part.has_anchor("part") && !part.has_anchor("rest"));
        assert_eq!(part.links.len(), 1);
    }
}
