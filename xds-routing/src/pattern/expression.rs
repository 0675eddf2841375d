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
    /// How large all of them may be together when compiled, in bytes. Each counts as the smallest power of two, from
    /// 4 KiB on, that it does not exceed.
    pub total: usize,
}

impl Default for ExpressionLimits {
    fn default() -> Self {
        Self { length: 4 * 1024, size: 256 * 1024, count: 4_000, total: 64 * 1024 * 1024 }
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
    program: Arc<Program>,
}

/// What takes room once it is compiled.
pub(crate) trait Compiled {
    /// How much at most, in bytes.
    fn size(&self) -> usize;
}

impl Compiled for FullMatch {
    fn size(&self) -> usize {
        self.program.size
    }
}

/// An expression, compiled.
pub(super) struct Program {
    pub(super) pattern: String,
    pub(super) regex: Regex,
    pub(super) size: usize,
}

impl FullMatch {
    /// Compiles an expression.
    ///
    /// # Errors
    ///
    /// It is none, or asks for more than the limits allow.
    pub fn new(pattern: &str, limits: &ExpressionLimits) -> Result<Self, InvalidExpression> {
        // By itself first, since `a)(b` would be one between the anchors.
        compile(pattern, pattern, limits)?;
        let anchored = format!("\\A(?:{pattern})\\z");
        Ok(Self { program: Arc::new(compile(&anchored, pattern, limits)?) })
    }

    /// The expression's text.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.program.pattern
    }

    /// Whether it fits the whole of `text`.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.program.regex.is_match(text)
    }
}

/// What the smallest expression counts as, in bytes.
pub(crate) const SMALLEST_EXPRESSION: usize = 4 * 1024;

/// Compiles `text`, which is `pattern` or has it in it. How large the outcome is cannot be asked, only whether it is
/// larger than something.
pub(super) fn compile(
    text: &str,
    pattern: &str,
    limits: &ExpressionLimits,
) -> Result<Program, InvalidExpression> {
    if pattern.len() > limits.length {
        let length = pattern.len();
        return Err(InvalidExpression::TooLong { length, limit: limits.length });
    }
    let mut size = SMALLEST_EXPRESSION.min(limits.size);
    loop {
        let built = RegexBuilder::new(text)
            .size_limit(size)
            .dfa_size_limit(limits.size)
            .nest_limit(100)
            .build();
        match built {
            Ok(regex) => return Ok(Program { pattern: pattern.into(), regex, size }),
            Err(regex::Error::CompiledTooBig(_)) if size < limits.size => {
                size = size.saturating_mul(2).min(limits.size);
            }
            Err(regex::Error::CompiledTooBig(limit)) => {
                return Err(InvalidExpression::TooLarge { pattern: pattern.into(), limit });
            }
            Err(error) => return Err(InvalidExpression::Syntax(one_line(&error))),
        }
    }
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
