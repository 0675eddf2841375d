//! Links and anchors of a built book.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::markdown::attributes;
use super::target::{Target, is_valid_url, resolve};
use crate::repository::error::Error;
use crate::source::files;

/// Returns the number of links in the HTML files below `folder`, and those without a target.
pub(super) fn check(root: &Path, folder: &str) -> Result<(usize, Vec<String>), Error> {
    let pages = files(root, folder.trim_end_matches('/'), "html")?;
    if pages.is_empty() {
        return Ok((0, vec![format!("{folder} has no pages: build the book before")]));
    }
    let anchors: BTreeMap<&str, BTreeSet<&str>> = pages
        .iter()
        .map(|page| (page.path.as_str(), attributes(&page.text, "id").collect()))
        .collect();
    let mut count = 0;
    let mut findings = Vec::new();
    for page in &pages {
        let links = attributes(&page.text, "href").chain(attributes(&page.text, "src"));
        for link in links {
            count += 1;
            let link = link.replace("&amp;", "&");
            let fault = match resolve(&page.path, &link) {
                Target::Url => (!is_valid_url(&link)).then_some("is not a valid URL"),
                Target::Outside => Some("is outside of the repository"),
                Target::File { path, anchor } => {
                    let ids = anchors.get(path.as_str());
                    let is_missing = |anchor: String| {
                        let is_there = |ids: &BTreeSet<&str>| ids.contains(anchor.as_str());
                        !anchor.is_empty() && ids.is_some_and(|ids| !is_there(ids))
                    };
                    if !root.join(&path).exists() {
                        Some("does not exist")
                    } else if anchor.is_some_and(is_missing) {
                        Some("has no such id")
                    } else {
                        None
                    }
                }
            };
            if let Some(fault) = fault {
                findings.push(format!("{}: {link} {fault}", page.path));
            }
        }
    }
    Ok((count, findings))
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process};

    use super::*;

    #[test]
    fn broken_links_and_anchors_are_found() {
        let root = env::temp_dir().join(format!("xtask-links-{}", process::id()));
        let book = root.join("book");
        fs::create_dir_all(&book).unwrap();
        let text = r##"<h1 id="top">A</h1> <a href="b.html#x"></a> <a href="#top"></a> <img src="gone.png">
            <a href="b.html#gone"></a> <a href="https://example"></a> <a data-href="no"></a>"##;
        fs::write(book.join("a.html"), text).unwrap();
        fs::write(book.join("b.html"), r#"<p id="x"></p>"#).unwrap();
        let found = check(&root, "book/").unwrap();
        fs::remove_dir_all(&root).unwrap();
        let expected = [
            "book/a.html: b.html#gone has no such id",
            "book/a.html: https://example is not a valid URL",
            "book/a.html: gone.png does not exist",
        ];
        assert_eq!(found, (5, expected.map(String::from).to_vec()));
    }

    #[test]
    fn missing_book_is_a_finding() {
        let root = env::temp_dir();
        assert!(check(&root, "no-such-book-here").is_err());
    }
}
