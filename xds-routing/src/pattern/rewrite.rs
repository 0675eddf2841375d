//! Regular expression rewrites of texts ([gRFC A42]).
//!
//! [gRFC A42]: https://github.com/grpc/proposal/blob/master/A42-xds-ring-hash-lb-policy.md

use alloc::{borrow::Cow, string::String, sync::Arc, vec::Vec};
use core::fmt;

use super::expression::{Compiled, ExpressionLimits, InvalidExpression, Program, compile};

/// Replacement of every match of an expression in a text. Clones share the compiled program.
#[derive(Clone)]
pub struct Rewrite {
    program: Arc<Program>,
    substitution: String,
    /// `None` if the substitution is malformed, so that nothing is replaced.
    parts: Option<Vec<Part>>,
}

/// Part of a substitution.
#[derive(Clone, Debug)]
enum Part {
    Text(String),
    /// Capture group of the expression; 0 is the whole match.
    Group(usize),
}

impl Rewrite {
    /// Compiles the expression. In the substitution, `\1` to `\9` are the capture groups of the
    /// expression, `\0` is the whole match and `\\` is a backslash. With any other escape, or a
    /// group that the expression does not have, nothing is ever replaced, as in RE2.
    ///
    /// # Errors
    ///
    /// Returns an error if the expression is malformed or exceeds a limit.
    pub fn new(
        pattern: &str,
        substitution: &str,
        limits: &ExpressionLimits,
    ) -> Result<Self, InvalidExpression> {
        let program = Arc::new(compile(pattern, pattern, limits)?);
        let parts = parse(substitution, program.regex.captures_len());
        Ok(Self { program, substitution: substitution.into(), parts })
    }

    /// Returns the text of the expression.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.program.pattern
    }

    /// Returns the substitution as configured.
    #[must_use]
    pub fn substitution(&self) -> &str {
        &self.substitution
    }

    /// Returns the text with every match of the expression replaced.
    #[must_use]
    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(parts) = &self.parts else {
            return Cow::Borrowed(text);
        };
        let mut rewritten = None;
        let mut end = 0;
        for found in self.program.regex.captures_iter(text) {
            let Some(whole) = found.get(0) else { continue };
            let rewritten = rewritten.get_or_insert_with(String::new);
            rewritten.push_str(text.get(end..whole.start()).unwrap_or_default());
            for part in parts {
                rewritten.push_str(match part {
                    Part::Text(text) => text,
                    Part::Group(group) => found.get(*group).map_or("", |it| it.as_str()),
                });
            }
            end = whole.end();
        }
        match rewritten {
            None => Cow::Borrowed(text),
            Some(mut rewritten) => {
                rewritten.push_str(text.get(end..).unwrap_or_default());
                Cow::Owned(rewritten)
            }
        }
    }
}

fn parse(substitution: &str, groups: usize) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut letters = substitution.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            text.push(letter);
            continue;
        }
        let escaped = letters.next()?;
        if escaped == '\\' {
            text.push(escaped);
            continue;
        }
        let group = usize::try_from(escaped.to_digit(10)?).ok().filter(|&group| group < groups)?;
        parts.push(Part::Text(core::mem::take(&mut text)));
        parts.push(Part::Group(group));
    }
    parts.push(Part::Text(text));
    Some(parts)
}

impl Compiled for Rewrite {
    fn size(&self) -> usize {
        self.program.size
    }
}

impl PartialEq for Rewrite {
    fn eq(&self, other: &Self) -> bool {
        (self.pattern(), self.substitution()) == (other.pattern(), other.substitution())
    }
}

impl Eq for Rewrite {}

impl fmt::Debug for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rewrite").field(&self.pattern()).field(&self.substitution()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewrite_replaces_matches_and_expands_groups() {
        let rewrite = |pattern: &str, substitution: &str, text: &str| {
            let rewrite = Rewrite::new(pattern, substitution, &ExpressionLimits::default());
            rewrite.expect("an expression").apply(text).into_owned()
        };
        assert_eq!(rewrite("a+", "x", "baaab a"), "bxb x");
        assert_eq!(rewrite("^/([^/]+)/.*", "\\1", "/user/1/2"), "user");
        assert_eq!(rewrite("(a)(b)?", "[\\2\\0\\\\]", "a ab"), "[a\\] [bab\\]");
        assert_eq!(rewrite("z", "x", "abc"), "abc");
        assert_eq!(rewrite("x*", "-", "ab"), "-a-b-");
        // Malformed substitutions.
        for substitution in ["\\2", "\\n", "x\\"] {
            assert_eq!(rewrite("(a)", substitution, "a"), "a", "{substitution}");
        }
    }
}
