//! The rules of wording that a program can check.

use super::doc_comments::doc_comments;
use crate::repository::{BadLine, entries};
use crate::rules::Ids;
use crate::source::{File, without_comments, without_tests};
use crate::structure::types;

/// Rule of wording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// A doc comment begins with a continuation or a headless clause.
    Beginning,
    /// A doc comment has the id of a requirement.
    Id,
    /// A type has a name that the glossary replaces.
    Name,
    /// A document mentions a file or a type that does not exist.
    Missing,
}

pub(crate) const RULES: [Rule; 4] = [Rule::Beginning, Rule::Id, Rule::Name, Rule::Missing];

/// Violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    pub(crate) path: String,
    pub(crate) line: usize,
    /// Text of the line, or the name with its replacement.
    pub(crate) text: String,
}

/// Word lists.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    /// Words and phrases with which no doc comment may begin.
    beginnings: Vec<String>,
    /// Type names with their replacements.
    glossary: Vec<(String, String)>,
    ids: Ids,
}

impl Rule {
    /// Name in the list of exceptions.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Beginning => "beginnings",
            Self::Id => "ids",
            Self::Name => "names",
            Self::Missing => "missing",
        }
    }

    /// Description in the summary.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Beginning => "doc comments that begin with a continuation or a headless clause",
            Self::Id => "requirement ids in doc comments",
            Self::Name => "type names that the glossary replaces",
            Self::Missing => "files and types that a document mentions and that do not exist",
        }
    }
}

impl Words {
    pub(crate) fn parse(beginnings: &str, glossary: &str, ids: Ids) -> Result<Self, BadLine> {
        let beginnings = entries(beginnings).map(|(_, text)| text.to_owned()).collect();
        let glossary = entries(glossary).map(|(line, text)| {
            let why = || format!("`{text}` is not `OLD | NEW`");
            let (old, new) = text.split_once(" | ").ok_or_else(|| BadLine { line, why: why() })?;
            Ok((old.to_owned(), new.to_owned()))
        });
        Ok(Self { beginnings, glossary: glossary.collect::<Result<_, _>>()?, ids })
    }

    /// Checks a file.
    pub(crate) fn violations(&self, file: &File) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut add = |rule, line, text: &str| {
            let (path, text) = (file.path.clone(), text.trim().to_owned());
            found.push(Violation { rule, path, line, text });
        };
        for comment in doc_comments(&file.text) {
            if self.begins_badly(comment.beginning()) {
                add(Rule::Beginning, comment.line, comment.beginning());
            }
            for (line, text) in comment.prose() {
                if !self.ids.find(text).is_empty() {
                    add(Rule::Id, line, text);
                }
            }
        }
        for (line, name) in types(&without_comments(&without_tests(&file.text))) {
            if let Some((_, new)) = self.glossary.iter().find(|(old, _)| *old == name) {
                add(Rule::Name, line, &format!("{name}, instead of {new}"));
            }
        }
        found
    }

    fn begins_badly(&self, text: &str) -> bool {
        let text = text.trim_start().trim_start_matches(['[', '`', '*']);
        self.beginnings.iter().any(|beginning| {
            let rest = text.strip_prefix(beginning.as_str());
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Catalogue;

    fn violations(text: &str) -> Vec<(Rule, usize, String)> {
        let catalogue = Catalogue::parse("theme M a x\nM1 a [d]\n  One.\n").unwrap();
        let ids = Ids::new(&catalogue);
        let words = Words::parse("# Prose.\nWhat\nThe same\n", "Turn | SessionContext\n", ids);
        let file = File { path: "a.rs".into(), text: text.into() };
        let violations = words.unwrap().violations(&file);
        violations.into_iter().map(|it| (it.rule, it.line, it.text)).collect()
    }

    #[test]
    fn headless_clauses_and_continuations_are_found() {
        let text =
            "/// What is deleted and not sent.\nfn a() {}\n/// The same, of names.\nfn b() {}\n";
        let expected = [
            (Rule::Beginning, 1, "What is deleted and not sent.".to_owned()),
            (Rule::Beginning, 3, "The same, of names.".to_owned()),
        ];
        assert_eq!(violations(text), expected);
        assert_eq!(violations("/// Whatever.\n/// What follows is no beginning.\nfn a() {}\n"), []);
    }

    #[test]
    fn ids_are_found_in_doc_comments_only() {
        let text = "/// Pending removals.\n/// See (M93).\n// M94.\nfn a() {}\n";
        assert_eq!(violations(text), [(Rule::Id, 2, "See (M93).".to_owned())]);
    }

    #[test]
    fn replaced_names_are_found_as_type_names_only() {
        let text = "pub(crate) struct Turn<'a> {\n}\nfn f() {\n    let Turn = 1;\n}\n";
        let expected = (Rule::Name, 1, "Turn, instead of SessionContext".to_owned());
        assert_eq!(violations(text), [expected]);
    }
}
