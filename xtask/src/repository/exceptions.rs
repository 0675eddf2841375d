//! Lists of exceptions with reasons: `[REASON]`, then one exception a line.
//!
//! A check passes with an exception only as long as it needs it. `--prune` removes the others.

use super::{BadLine, entries};

/// Exceptions in the order of their file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Exceptions(pub(crate) Vec<Exception>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exception {
    /// Line number, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// Correction of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Correction {
    pub(crate) line: usize,
    /// New text of the line; `None` removes it.
    pub(crate) text: Option<String>,
}

impl Exceptions {
    pub(crate) fn parse(text: &str) -> Result<Self, BadLine> {
        let mut exceptions: Vec<Exception> = Vec::new();
        let mut has_reason = false;
        for (line, text) in entries(text) {
            let bad = |why: String| BadLine { line, why };
            if let Some(reason) = text.strip_prefix('[') {
                let reason = reason.strip_suffix(']').unwrap_or_default();
                if reason.is_empty() || reason.contains("TODO") {
                    return Err(bad(format!("`{text}` is not `[REASON]`")));
                }
                has_reason = true;
                continue;
            }
            if !has_reason {
                return Err(bad("no [REASON] line precedes it".into()));
            }
            if exceptions.iter().any(|exception| exception.text == text) {
                return Err(bad(format!("`{text}` is listed twice")));
            }
            exceptions.push(Exception { line, text: text.to_owned() });
        }
        Ok(Self(exceptions))
    }

    pub(crate) fn contains(&self, text: &str) -> bool {
        self.0.iter().any(|exception| exception.text == text)
    }

    /// Returns corrections that remove the exceptions that are not in `needed`.
    pub(crate) fn without_unneeded(&self, needed: &[String]) -> Vec<Correction> {
        let unneeded = self.0.iter().filter(|exception| !needed.contains(&exception.text));
        unneeded.map(|exception| Correction { line: exception.line, text: None }).collect()
    }

    /// Splits each exception into a name and a number, such as `xds-core Node 3`.
    pub(crate) fn numbers(&self) -> Result<Vec<(&Exception, &str, usize)>, BadLine> {
        let parse = |exception: &'_ Exception| {
            let (name, number) = exception.text.rsplit_once(' ')?;
            Some((name.len(), number.parse().ok()?))
        };
        self.0
            .iter()
            .map(|exception| match parse(exception) {
                Some((end, number)) => Ok((exception, &exception.text[..end], number)),
                None => {
                    let why = format!("`{}` does not end with a number", exception.text);
                    Err(BadLine { line: exception.line, why })
                }
            })
            .collect()
    }
}

/// Applies corrections to the text of the file. A reason without exceptions is removed too.
pub(crate) fn corrected(text: &str, corrections: &[Correction]) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        match corrections.iter().find(|correction| correction.line == number) {
            Some(Correction { text: Some(text), .. }) => lines.push(text),
            Some(Correction { text: None, .. }) => {}
            None => lines.push(line),
        }
    }
    let mut kept: Vec<&str> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let next = lines.get(index + 1).copied().unwrap_or_default();
        let is_empty_reason = line.starts_with('[') && (next.is_empty() || next.starts_with('['));
        let is_second_empty_line = line.is_empty() && kept.last().is_none_or(|it| it.is_empty());
        if !is_empty_reason && !is_second_empty_line {
            kept.push(line);
        }
    }
    kept.join("\n").trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Prose.\n\n[one]\na 1\nb 2\n\n[two]\nc 3\n";

    #[test]
    fn exceptions_need_a_reason() {
        assert_eq!(Exceptions::parse(TEXT).unwrap().0.len(), 3);
        let why = |text: &str| Exceptions::parse(text).unwrap_err().why;
        assert_eq!(why("a\n"), "no [REASON] line precedes it");
        assert_eq!(why("[]\na\n"), "`[]` is not `[REASON]`");
        assert_eq!(why("[r]\na\na\n"), "`a` is listed twice");
    }

    #[test]
    fn exception_numbers_are_parsed() {
        let exceptions = Exceptions::parse("[r]\nxds-core Node 3\n").unwrap();
        let numbers = exceptions.numbers().unwrap();
        assert_eq!((numbers[0].1, numbers[0].2), ("xds-core Node", 3));
        let bad = Exceptions::parse("[r]\nNode\n").unwrap();
        assert_eq!(bad.numbers().unwrap_err().why, "`Node` does not end with a number");
    }

    #[test]
    fn unneeded_exceptions_are_removed_with_their_reason() {
        let exceptions = Exceptions::parse(TEXT).unwrap();
        let mut corrections = exceptions.without_unneeded(&["b 2".into()]);
        assert_eq!(corrected(TEXT, &corrections), "# Prose.\n\n[one]\nb 2\n");
        corrections.push(Correction { line: 5, text: Some("b 1".into()) });
        assert_eq!(corrected(TEXT, &corrections), "# Prose.\n\n[one]\nb 1\n");
    }
}
