//! Annotations of GitHub Actions: workflow commands such as `::error file=..,line=..::message`.

use std::fmt::Write as _;

use super::sarif::relative;
use crate::{
    diagnostic::{Diagnostic, Level},
    text::escaped,
};

/// Formats a diagnostic as a workflow command.
pub(super) fn annotation(diagnostic: &Diagnostic) -> String {
    let command = match diagnostic.level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "notice",
    };
    let mut text = format!("::{command} file={}", property(&relative(&diagnostic.file)));
    // Writing to a string cannot fail.
    if let Some(at) = diagnostic.position {
        let _ = write!(text, ",line={},col={}", at.line, at.column);
    }
    let _ = write!(text, ",title={}", property(&format!("xds check: {}", diagnostic.rule.id())));
    let _ = write!(text, "::{}", data(&diagnostic.text));
    text
}

/// Escapes the message of a workflow command.
fn data(text: &str) -> String {
    escaped(&text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A"))
}

/// Escapes a property of a workflow command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::diagnostic::Rule;

    #[test]
    fn separators_and_line_ends_are_escaped() {
        let file = Path::new("a,b:c%.yaml");
        let text = "50%: x,\r\ny\x1b[31m";
        let found = Diagnostic::new(Rule::InvalidFile, Level::Warning, file, text);
        assert_eq!(
            annotation(&found),
            "::warning file=a%2Cb%3Ac%25.yaml,title=xds check%3A invalid-file::50%25: x,%0D%0Ay\\u{1b}[31m"
        );
    }
}
