//! Matchers for paths, headers, other texts and addresses, and regular expression rewrites.

mod expression;
mod fraction;
mod header;
mod path;
mod profile;
mod query;
mod range;
mod rewrite;
mod text;

pub(crate) use self::expression::{Compiled, SMALLEST_EXPRESSION};
pub use self::{
    expression::{ExpressionLimits, FullMatch, InvalidExpression},
    fraction::Fraction,
    header::{HeaderMatcher, HeaderTest, Headers},
    path::PathMatcher,
    profile::{HeaderValues, MatchProfile, QueryString, VisibleHeaders},
    query::{QueryMatcher, QueryTest},
    range::CidrRange,
    rewrite::Rewrite,
    text::{LetterCase, StringMatcher},
};
