//! Comments of a line.

/// Returns the position of the `//` that begins the comment of a line.
///
/// A `//` inside a string or after `:` is none.
fn comment_start(line: &str) -> Option<usize> {
    line.match_indices("//").map(|(start, _)| start).find(|&start| {
        let before = &line[..start];
        before.matches('"').count().is_multiple_of(2) && !before.ends_with(':')
    })
}

/// Returns the comment of a line, with its slashes.
pub(crate) fn comment(line: &str) -> Option<&str> {
    comment_start(line).map(|start| &line[start..])
}

/// Replaces comments with nothing. The number of lines stays the same.
pub(crate) fn without_comments(text: &str) -> String {
    let code = |line| comment_start(line).map_or(line, |start: usize| line[..start].trim_end());
    text.lines().map(|line| code(line).to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_begins_outside_of_strings_and_urls() {
        assert_eq!(comment("let x = 1; // Why."), Some("// Why."));
        assert_eq!(comment("    /// Doc."), Some("/// Doc."));
        assert_eq!(comment("let x = \"a//b\";"), None);
        assert_eq!(comment("see https://a"), None);
        assert_eq!(without_comments("a // b\n// c\nd\n"), "a\n\nd\n");
    }
}
