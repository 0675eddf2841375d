//! The list of public sources: `KEY | TITLE | URL`, or `KEY: SECTION | TITLE | URL` for citations
//! that begin so.

use super::catalogue::Source;
use crate::repository::{BadLine, entries};

/// Public documents by key.
#[derive(Debug, Default)]
pub(crate) struct Sources(Vec<Document>);

/// Public document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Document {
    /// Key, or key and section, as in citations.
    citation: String,
    pub(crate) title: String,
    pub(crate) url: Option<String>,
}

impl Sources {
    pub(crate) fn parse(text: &str) -> Result<Self, BadLine> {
        let mut sources: Vec<Document> = Vec::new();
        for (line, text) in entries(text) {
            let bad = |why: String| BadLine { line, why };
            let parts: Vec<&str> = text.split(" | ").collect();
            let &[citation, title, url] = parts.as_slice() else {
                return Err(bad(format!("`{text}` is not `KEY | TITLE | URL`")));
            };
            if sources.iter().any(|source| source.citation == citation) {
                return Err(bad(format!("{citation} is listed twice")));
            }
            let url = (url != "-").then(|| url.to_owned());
            sources.push(Document { citation: citation.into(), title: title.into(), url });
        }
        Ok(Self(sources))
    }

    /// Returns the document of a citation: the one whose key has most in common with it.
    pub(crate) fn document(&self, source: &Source) -> Option<&Document> {
        let text = source.text();
        let matching = self.0.iter().filter(|document| {
            let rest = text.strip_prefix(&document.citation);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', ',']))
        });
        matching.max_by_key(|document| document.citation.len())
    }

    /// Returns the keys that no citation uses.
    #[cfg(test)]
    pub(crate) fn unused<'a>(&'a self, used: &[&Source]) -> Vec<&'a str> {
        let used: Vec<&Document> = used.iter().filter_map(|source| self.document(source)).collect();
        let is_used = |document: &&Document| {
            let begins = format!("{}: ", document.citation);
            used.iter().any(|it| it == document || it.citation.starts_with(&begins))
        };
        self.0.iter().filter(|it| !is_used(it)).map(|it| it.citation.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# Prose.
xds | xDS protocol | https://a
xds-v1.17 | xDS protocol, 1.17 | https://b
rfc | RFC Editor | https://c
rfc: RFC 9110 | HTTP Semantics | https://d
decision | Decision of this project | -
";

    fn url(key: &str, section: Option<&str>) -> Option<String> {
        let source = Source { key: key.into(), section: section.map(str::to_owned) };
        Sources::parse(TEXT).unwrap().document(&source).map(|it| it.url.clone().unwrap_or_default())
    }

    #[test]
    fn citation_leads_to_the_document_of_its_key_or_its_section() {
        assert_eq!(url("xds", None).as_deref(), Some("https://a"));
        assert_eq!(url("xds", Some("Deletions")).as_deref(), Some("https://a"));
        assert_eq!(url("xds-v1.17", None).as_deref(), Some("https://b"));
        assert_eq!(url("rfc", Some("RFC 9110, section 8")).as_deref(), Some("https://d"));
        assert_eq!(url("rfc", Some("RFC 3986")).as_deref(), Some("https://c"));
        assert_eq!(url("decision", None).as_deref(), Some(""));
        assert_eq!(url("A27", None), None);
    }

    #[test]
    fn unused_keys_are_listed() {
        let xds = Source { key: "xds".into(), section: None };
        let http = Source { key: "rfc".into(), section: Some("RFC 9110".into()) };
        let sources = Sources::parse(TEXT).unwrap();
        assert_eq!(sources.unused(&[&xds, &http]), ["xds-v1.17", "decision"]);
    }

    #[test]
    fn invalid_line_is_named() {
        let bad = Sources::parse("xds | xDS\n").unwrap_err();
        assert_eq!(bad.why, "`xds | xDS` is not `KEY | TITLE | URL`");
        let bad = Sources::parse("a | b | -\na | c | -\n").unwrap_err();
        assert_eq!((bad.line, bad.why.as_str()), (2, "a is listed twice"));
    }
}
