//! Doc comments of a Rust file.

/// Doc comment: consecutive lines of `///` or of `//!`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DocComment<'a> {
    /// Number of the first line, from 1.
    pub(crate) line: usize,
    /// Lines without the slashes.
    pub(crate) lines: Vec<&'a str>,
}

impl<'a> DocComment<'a> {
    /// Returns the first line that is not empty.
    pub(crate) fn beginning(&self) -> &'a str {
        self.lines.iter().find(|line| !line.trim().is_empty()).copied().unwrap_or_default()
    }

    /// Returns the lines outside of code blocks, with their numbers.
    pub(crate) fn prose(&self) -> impl Iterator<Item = (usize, &'a str)> {
        let mut in_code = false;
        let lines = self.lines.iter().enumerate();
        lines.filter_map(move |(index, line)| {
            let is_fence = line.trim_start().starts_with("```");
            in_code ^= is_fence;
            (!in_code && !is_fence).then_some((self.line + index, *line))
        })
    }
}

pub(crate) fn doc_comments(text: &str) -> Vec<DocComment<'_>> {
    let mut found: Vec<DocComment<'_>> = Vec::new();
    let mut last = None;
    for (number, line) in (1..).zip(text.lines()) {
        let kind = kind(line.trim_start());
        if let Some((mark, content)) = kind {
            let content = content.strip_prefix(' ').unwrap_or(content);
            match found.last_mut() {
                Some(comment) if last == Some(mark) => comment.lines.push(content),
                _ => found.push(DocComment { line: number, lines: vec![content] }),
            }
        }
        last = kind.map(|(mark, _)| mark);
    }
    found
}

/// Returns the third character and the rest of a line of a doc comment.
fn kind(line: &str) -> Option<(char, &str)> {
    let rest = line.strip_prefix("//")?;
    let mark = rest.chars().next().filter(|mark| ['/', '!'].contains(mark))?;
    let content = &rest[1..];
    (!content.starts_with('/')).then_some((mark, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doc_comments_are_separated_by_kind_and_by_code() {
        let text =
            "//! A.\n//!\n//! B.\n\n/// C.\nfn f() {}\n// D.\n//// E.\n    /// F.\n    /// G.\n";
        let found = doc_comments(text);
        let texts: Vec<_> = found.iter().map(|it| (it.line, it.lines.join("|"))).collect();
        let expected = [(1, "A.||B."), (5, "C."), (9, "F.|G.")];
        assert_eq!(texts, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn code_blocks_are_not_prose() {
        let text = "///\n/// A.\n/// ```\n/// code\n/// ```\n/// B.\n";
        let comment = &doc_comments(text)[0];
        assert_eq!(comment.beginning(), "A.");
        assert_eq!(comment.prose().collect::<Vec<_>>(), [(1, ""), (2, "A."), (6, "B.")]);
    }
}
