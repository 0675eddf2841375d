//! Links of all Markdown files, and of the built book: targets and anchors must exist.
//!
//! Links to other hosts are checked for their syntax only, so that no check depends on a network.

mod html;
mod markdown;
mod target;

use std::collections::BTreeMap;
use std::path::Path;

use crate::repository::error::Error;
use crate::repository::print;
use crate::source::{File, files};
use markdown::Page;
use target::{Target, is_valid_url, resolve};

/// Folder of hidden Markdown files: the templates of issues and pull requests.
const TEMPLATES: &str = ".github";

/// Link as found in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    /// Line number, from 1.
    line: usize,
    destination: String,
}

/// Checks all Markdown files, and the HTML files below `book` if it is given.
pub(crate) fn run(root: &Path, book: Option<&str>) -> Result<String, Error> {
    let (mut count, mut findings) = check_markdown(root)?;
    if let Some(book) = book {
        let (links, broken) = html::check(root, book)?;
        count += links;
        findings.extend(broken);
    }
    if findings.is_empty() {
        return Ok(format!("{count} links have a target"));
    }
    print(&format!("{count} links"));
    Err(Error::Links { findings })
}

/// Returns the number of links in all Markdown files, and those without a target.
fn check_markdown(root: &Path) -> Result<(usize, Vec<String>), Error> {
    let mut documents = files(root, "", "md")?;
    documents.extend(files(root, TEMPLATES, "md")?);
    let texts: BTreeMap<&str, &str> =
        documents.iter().map(|File { path, text }| (path.as_str(), text.as_str())).collect();
    let pages: BTreeMap<&str, Page> =
        texts.iter().map(|(path, text)| (*path, Page::parse(path, text, &texts))).collect();
    let mut count = 0;
    let mut findings = Vec::new();
    for (path, page) in &pages {
        count += page.links.len();
        let mut add = |line, text: String| findings.push(format!("{path}:{line}: {text}"));
        for (line, label) in &page.undefined {
            add(*line, format!("[{label}] is not defined"));
        }
        for Link { line, destination } in &page.links {
            let fault = match resolve(path, destination) {
                Target::Url => (!is_valid_url(destination)).then_some("is not a valid URL"),
                Target::Outside => Some("is outside of the repository"),
                Target::File { path, anchor } => {
                    let has_anchor = anchor.is_none_or(|anchor| {
                        pages.get(path.as_str()).is_none_or(|page| page.has_anchor(&anchor))
                    });
                    let exists = path.is_empty() || root.join(&path).exists();
                    match (exists, has_anchor) {
                        (false, _) => Some("does not exist"),
                        (true, false) => Some("has no such heading"),
                        (true, true) => None,
                    }
                }
            };
            if let Some(fault) = fault {
                add(*line, format!("{destination} {fault}"));
            }
        }
    }
    Ok((count, findings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_in_a_markdown_file_has_a_target() {
        let (count, findings) = check_markdown(&crate::repository::root()).unwrap();
        assert!(findings.is_empty(), "cargo xtask links:\n{}", findings.join("\n"));
        assert!(count > 100, "{count} links");
    }
}
