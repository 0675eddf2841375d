//! Regular expressions that must match a whole text, in time linear in its length.
//!
//! The schema requires RE2 syntax. This crate uses the `regex` crate, whose syntax differs
//! slightly:
//!
//! | expression | RE2 | here |
//! |---|---|---|
//! | `\d`, `\w`, `\s`, `\b` | ASCII | Unicode; no difference for ASCII paths and metadata |
//! | `\Q..\E`, `\C`, octal `\123` | literal text, any byte, a character | rejected |
//! | `[a&&b]`, `[a--b]`, `[a~~b]`, `[[a]]` | the listed characters | operations on classes |
//! | `x**`, `x{1001}` | rejected | repetition, limited by the compiled size |
//! | `(?x)` | rejected | ignores whitespace; rejected with a trailing comment |
//! | `(?R)`, `\<`, `\>` | rejected | line endings, word boundaries |
//! | `\u{..}` | rejected | a character |
//! | `\p{Alphabetic}` | rejected | rejected |
//! | `\pN`, `\p{Greek}`, `(?P<n>)`, `(?i)`, `(?s)`, `(?m)`, `(?U)` | supported | the same |
//! | `[[:alpha:]]`, `\x{10FFFF}`, `\A`, `\z` | supported | the same |
//! | `\1`, `(?=..)`, `(?<!..)`, possessive quantifiers | rejected | rejected |

use alloc::{format, string::String, sync::Arc};
use core::fmt;

use regex::{Regex, RegexBuilder};
use thiserror::Error;

/// Limits on the regular expressions of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpressionLimits {
    /// Maximum length of the text of an expression, in bytes. Default: 4 KiB.
    pub length: usize,
    /// Maximum size of a compiled expression, and of its cache while it runs, in bytes each.
    /// Default: 256 KiB.
    pub size: usize,
    /// Maximum number of different expressions in a resource. Default: 4,000.
    pub count: usize,
    /// Maximum total size of a resource's compiled expressions, in bytes. Each is charged the
    /// smallest power of two, from 4 KiB up, that it does not exceed. Default: 64 MiB.
    pub total: usize,
}

impl Default for ExpressionLimits {
    fn default() -> Self {
        Self { length: 4 * 1024, size: 256 * 1024, count: 4_000, total: 64 * 1024 * 1024 }
    }
}

/// Error for an expression that is malformed or exceeds a limit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidExpression {
    /// The text is longer than the limit.
    #[error("expression of {length} bytes exceeds the limit of {limit}")]
    TooLong {
        /// Length of the text in bytes.
        length: usize,
        /// Limit in bytes.
        limit: usize,
    },
    /// The compiled expression is larger than the limit.
    #[error("expression `{pattern}` exceeds {limit} bytes when compiled")]
    TooLarge {
        /// Text of the expression.
        pattern: String,
        /// Limit in bytes.
        limit: usize,
    },
    /// The expression is malformed. The value describes the error.
    #[error("invalid expression: {0}")]
    Syntax(String),
}

/// Regular expression that must match a whole text. Clones share the compiled program.
// X37
#[derive(Clone)]
pub struct FullMatch {
    program: Arc<Program>,
}

/// Compiled object whose size counts against a limit.
pub(crate) trait Compiled {
    /// Returns an upper bound of the size in bytes.
    fn size(&self) -> usize;
}

impl Compiled for FullMatch {
    fn size(&self) -> usize {
        self.program.size
    }
}

/// Compiled expression.
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
    /// Returns an error if the expression is malformed or exceeds a limit.
    pub fn new(pattern: &str, limits: &ExpressionLimits) -> Result<Self, InvalidExpression> {
        // The pattern is also compiled alone: `a)(b` is malformed, but valid between the anchors.
        compile(pattern, pattern, limits)?;
        let anchored = format!("\\A(?:{pattern})\\z");
        Ok(Self { program: Arc::new(compile(&anchored, pattern, limits)?) })
    }

    /// Returns the text of the expression.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.program.pattern
    }

    /// Whether the expression matches the whole of `text`.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.program.regex.is_match(text)
    }
}

/// Size in bytes that the smallest expression is charged.
pub(crate) const SMALLEST_EXPRESSION: usize = 4 * 1024;

/// Compiles `text`, which is `pattern` or contains it. `regex` does not report the compiled size,
/// only whether it exceeds a limit, so the limit is doubled until it suffices.
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

/// Returns the last line of the error message, which describes the error. The lines before it show
/// the position.
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
