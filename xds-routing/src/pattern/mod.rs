//! How paths, headers and other texts have to look.

mod expression;
mod fraction;
mod header;
mod path;
mod text;

pub use self::{
    expression::{ExpressionLimits, FullMatch, InvalidExpression},
    fraction::Fraction,
    header::{HeaderMatcher, HeaderTest, Headers},
    path::PathMatcher,
    text::{LetterCase, TextMatcher},
};
