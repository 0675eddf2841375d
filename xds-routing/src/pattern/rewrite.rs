//! Texts of which parts are replaced (A42).

use alloc::{borrow::Cow, string::String, sync::Arc, vec::Vec};
use core::fmt;

use super::expression::{Compiled, ExpressionLimits, InvalidExpression, Program, compile};

/// Replaces every part of a text that an expression fits. Clones share what is compiled.
#[derive(Clone)]
pub struct Rewrite {
    program: Arc<Program>,
    substitution: String,
    /// `None`: the substitution is none, so that nothing is replaced.
    parts: Option<Vec<Part>>,
}

/// A part of what stands in the place of what was found.
#[derive(Clone, Debug)]
enum Part {
    Text(String),
    /// What this group of the expression found; 0 is the whole.
    Group(usize),
}

impl Rewrite {
    /// Compiles the expression. In the substitution `\\1` to `\\9` stand for what the groups of the expression found, `\\0` for
    /// the whole, `\\\\` for itself. With another escape, or a group that the expression does not have, nothing is ever
    /// replaced, as RE2 has it.
    ///
    /// # Errors
    ///
    /// The expression is none, or asks for more than the limits allow.
    pub fn new(
        pattern: &str,
        substitution: &str,
        limits: &ExpressionLimits,
    ) -> Result<Self, InvalidExpression> {
        let program = Arc::new(compile(pattern, pattern, limits)?);
        let parts = parse(substitution, program.regex.captures_len());
        Ok(Self { program, substitution: substitution.into(), parts })
    }

    /// The expression's text.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.program.pattern
    }

    /// What stands in the place of what was found, as it was stated.
    #[must_use]
    pub fn substitution(&self) -> &str {
        &self.substitution
    }

    /// The text with everything that the expression fits replaced.
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
    fn parts_of_a_text_are_replaced() {
        let rewrite = |pattern: &str, substitution: &str, text: &str| {
            let rewrite = Rewrite::new(pattern, substitution, &ExpressionLimits::default());
            rewrite.expect("an expression").apply(text).into_owned()
        };
        assert_eq!(rewrite("a+", "x", "baaab a"), "bxb x");
        assert_eq!(rewrite("^/([^/]+)/.*", "\\1", "/user/1/2"), "user");
        assert_eq!(rewrite("(a)(b)?", "[\\2\\0\\\\]", "a ab"), "[a\\] [bab\\]");
        assert_eq!(rewrite("z", "x", "abc"), "abc");
        assert_eq!(rewrite("x*", "-", "ab"), "-a-b-");
        // These are no substitutions.
        for substitution in ["\\2", "\\n", "x\\"] {
            assert_eq!(rewrite("(a)", substitution, "a"), "a", "{substitution}");
        }
    }
}
