//! Regular expressions that have to fit a whole text, in time linear in its length (X37).
//!
//! The schema asks for RE2's syntax and the `regex` crate has its own, which is close. Where they differ:
//!
//! | expression | RE2 | here |
//! |---|---|---|
//! | `\d`, `\w`, `\s`, `\b` | ASCII | Unicode; for the ASCII of paths and gRPC's metadata the same |
//! | `\Q..\E`, `\C`, octal `\123` | literal text, any byte, a character | rejected |
//! | `[a&&b]`, `[a--b]`, `[a~~b]`, `[[a]]` | the characters that are there | operations on classes |
//! | `x**`, `x{1001}` | rejected | repeated; limited by the size of what is compiled |
//! | `(?x)` (with a comment at the end rejected), `(?R)`, `\<`, `\>`, `\u{..}`, `\p{Alphabetic}` | rejected | spacing, line ends, word boundaries, a character; the last is rejected |
//! | `\pN`, `\p{Greek}`, `(?P<n>)`, `(?i)`, `(?s)`, `(?m)`, `(?U)`, `[[:alpha:]]`, `\x{10FFFF}`, `\A`, `\z` | the same | the same |
//! | `\1`, `(?=..)`, `(?<!..)`, possessive | rejected | rejected |

use alloc::{format, string::String, sync::Arc};
use core::fmt;

use regex::{Regex, RegexBuilder};
use thiserror::Error;

/// How much regular expressions may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpressionLimits {
    /// The longest expression, in bytes of its text.
    pub length: usize,
    /// The largest compiled expression, and the largest cache while it runs, in bytes each.
    pub size: usize,
    /// How many different ones a resource may have.
    pub count: usize,
}

impl Default for ExpressionLimits {
    fn default() -> Self {
        Self { length: 4 * 1024, size: 256 * 1024, count: 4_000 }
    }
}

/// Why an expression is not used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidExpression {
    /// It is longer than the limit.
    #[error("expression of {length} bytes exceeds the limit of {limit}")]
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// It is larger than the limit when compiled.
    #[error("expression `{pattern}` exceeds {limit} bytes when compiled")]
    TooLarge {
        /// The expression.
        pattern: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// It is not an expression.
    #[error("invalid expression: {0}")]
    Syntax(String),
}

/// A regular expression that has to fit a whole text. Clones share what is compiled.
#[derive(Clone)]
pub struct FullMatch {
    compiled: Arc<Compiled>,
}

struct Compiled {
    pattern: String,
    regex: Regex,
}

impl FullMatch {
    /// Compiles an expression.
    ///
    /// # Errors
    ///
    /// It is none, or asks for more than the limits allow.
    pub fn new(pattern: &str, limits: &ExpressionLimits) -> Result<Self, InvalidExpression> {
        if pattern.len() > limits.length {
            let length = pattern.len();
            return Err(InvalidExpression::TooLong { length, limit: limits.length });
        }
        // By itself first, since `a)(b` would be one between the anchors.
        compile(pattern, pattern, limits)?;
        let anchored = format!("\\A(?:{pattern})\\z");
        let regex = compile(&anchored, pattern, limits)?;
        Ok(Self { compiled: Arc::new(Compiled { pattern: pattern.into(), regex }) })
    }

    /// The expression's text.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.compiled.pattern
    }

    /// Whether it fits the whole of `text`.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.compiled.regex.is_match(text)
    }
}

fn compile(
    text: &str,
    pattern: &str,
    limits: &ExpressionLimits,
) -> Result<Regex, InvalidExpression> {
    let built = RegexBuilder::new(text)
        .size_limit(limits.size)
        .dfa_size_limit(limits.size)
        .nest_limit(100)
        .build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(limit) => {
            InvalidExpression::TooLarge { pattern: pattern.into(), limit }
        }
        error => InvalidExpression::Syntax(one_line(&error)),
    })
}

/// The last line of the message says what is wrong; those before it draw a picture.
fn one_line(error: &regex::Error) -> String {
    let text = format!("{error}");
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    last.trim().trim_start_matches("error: ").into()
}

impl PartialEq for FullMatch {
    fn eq(&self, other: &Self) -> bool {
        self.pattern() == other.pattern()
    }
}

impl Eq for FullMatch {}

impl fmt::Debug for FullMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FullMatch").field(&self.pattern()).finish()
    }
}
