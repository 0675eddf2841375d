//! Validation that permissions and principals share.

use alloc::vec::Vec;

use super::condition::AccessCondition;
use crate::{
    matchers::{validate_header, validate_string_matcher},
    proto::envoy::{
        config::route::v3::HeaderMatcher as HeaderSchema,
        r#type::matcher::v3::{PathMatcher, path_matcher::Rule},
    },
    validation::Validator,
};

/// Validates a list of conditions, which must not be empty: the API requires it, and a condition
/// left out by mistake must not change who has access.
pub(super) fn validate_list<T>(
    name: &str,
    list: &[T],
    validator: &mut Validator<'_>,
    validate: impl Fn(&T, &mut Validator<'_>) -> Option<AccessCondition>,
) -> Vec<AccessCondition> {
    if list.is_empty() {
        validator.error_in(name, "must not be empty");
    }
    let mut validated = Vec::new();
    for (index, condition) in list.iter().enumerate() {
        validated
            .extend(validator.element(name, index, |validator| validate(condition, validator)));
    }
    validated
}

/// Maximum number of levels of conditions within conditions.
const DEPTH: usize = 16;

/// Returns the depth of conditions within one of this depth, or `None` after recording an error.
pub(super) fn deeper(depth: usize, validator: &mut Validator<'_>) -> Option<usize> {
    if depth >= DEPTH {
        validator.error(format_args!("nested more than {DEPTH} levels deep"));
        return None;
    }
    Some(depth + 1)
}

/// Validates a condition for every request, which must be true.
pub(super) fn validate_any(any: bool, validator: &mut Validator<'_>) -> Option<AccessCondition> {
    if !any {
        validator.error_in("any", "must be true");
    }
    Some(AccessCondition::Constant(true))
}

/// Validates a header matcher. Some headers belong to the gRPC library and not to the application.
pub(super) fn validate_header_condition(
    header: &HeaderSchema,
    validator: &mut Validator<'_>,
) -> Option<AccessCondition> {
    validator.field("header", |validator| {
        let header = validate_header(header, validator)?;
        if header.name.starts_with("grpc-") || header.name == ":scheme" {
            let why = format_args!("`{}` must not be matched", header.name);
            validator.error_in("name", why);
        }
        Some(AccessCondition::Header(header))
    })
}

pub(super) fn validate_path_condition(
    path: &PathMatcher,
    validator: &mut Validator<'_>,
) -> Option<AccessCondition> {
    validator.field("url_path", |validator| {
        let Some(Rule::Path(matcher)) = path.rule.as_ref() else {
            validator.error_in("path", "must be set");
            return None;
        };
        validator
            .field("path", |validator| validate_string_matcher(matcher, validator))
            .map(AccessCondition::Path)
    })
}
