//! Validation of matchers that several messages share: headers, strings, address ranges.

use alloc::string::String;
use core::net::IpAddr;

use xds_core::proto::{
    StringMatcher as StringMatcherSchema,
    envoy::r#type::matcher::v3::{RegexMatcher, string_matcher::MatchPattern},
};

use crate::{
    pattern::{CidrRange, HeaderMatcher, HeaderTest, LetterCase, StringMatcher},
    proto::envoy::config::{
        core::v3::CidrRange as CidrRangeSchema,
        route::v3::{self as schema, header_matcher::HeaderMatchSpecifier},
    },
    validation::Validator,
};

/// Maximum length of a header name in HTTP/2 implementations, in bytes.
const HEADER_NAME_LENGTH: usize = 16 * 1024;

pub(crate) fn validate_header(
    header: &schema::HeaderMatcher,
    validator: &mut Validator<'_>,
) -> Option<HeaderMatcher> {
    if header.name.is_empty() || header.name.len() > HEADER_NAME_LENGTH {
        validator.error_in("name", format_args!("must have 1 to {HEADER_NAME_LENGTH} bytes"));
    }
    let text = |text: &String| text.clone();
    let sensitive = LetterCase::Sensitive;
    #[allow(deprecated, reason = "servers still send these fields")]
    let test = match header.header_match_specifier.as_ref() {
        Some(HeaderMatchSpecifier::ExactMatch(exact)) => {
            HeaderTest::Text(StringMatcher::Exact(text(exact), sensitive))
        }
        Some(HeaderMatchSpecifier::SafeRegexMatch(regex)) => {
            let expression = validator.field("safe_regex_match.regex", |validator| {
                validate_expression(regex, validator)
            })?;
            HeaderTest::Text(expression)
        }
        Some(HeaderMatchSpecifier::RangeMatch(range)) => {
            if range.end < range.start {
                validator.error_in("range_match", "the end must not be smaller than the start");
            }
            HeaderTest::Range(range.start, range.end)
        }
        Some(HeaderMatchSpecifier::PresentMatch(present)) => HeaderTest::Present(*present),
        Some(HeaderMatchSpecifier::PrefixMatch(prefix)) => {
            HeaderTest::Text(StringMatcher::Prefix(text(prefix), sensitive))
        }
        Some(HeaderMatchSpecifier::SuffixMatch(suffix)) => {
            HeaderTest::Text(StringMatcher::Suffix(text(suffix), sensitive))
        }
        Some(HeaderMatchSpecifier::ContainsMatch(part)) => {
            HeaderTest::Text(StringMatcher::Contains(text(part), sensitive))
        }
        Some(HeaderMatchSpecifier::StringMatch(matcher)) => HeaderTest::Text(
            validator
                .field("string_match", |validator| validate_string_matcher(matcher, validator))?,
        ),
        None => {
            validator.error_in("header_match_specifier", "must be one that gRPC supports");
            return None;
        }
    };
    Some(HeaderMatcher {
        name: header.name.to_ascii_lowercase(),
        test,
        invert: header.invert_match,
        missing_is_empty: header.treat_missing_header_as_empty,
    })
}

fn validate_expression(
    regex: &RegexMatcher,
    validator: &mut Validator<'_>,
) -> Option<StringMatcher> {
    // `max_program_size` is in units of RE2, so it is ignored (S2.076, S2.086).
    validator.expression(&regex.regex).map(StringMatcher::Expression)
}

pub(crate) fn validate_string_matcher(
    matcher: &StringMatcherSchema,
    validator: &mut Validator<'_>,
) -> Option<StringMatcher> {
    let case = if matcher.ignore_case { LetterCase::Ignored } else { LetterCase::Sensitive };
    match matcher.match_pattern.as_ref() {
        Some(MatchPattern::Exact(exact)) => Some(StringMatcher::Exact(exact.clone(), case)),
        Some(MatchPattern::Prefix(prefix)) => Some(StringMatcher::Prefix(prefix.clone(), case)),
        Some(MatchPattern::Suffix(suffix)) => Some(StringMatcher::Suffix(suffix.clone(), case)),
        Some(MatchPattern::Contains(part)) => Some(StringMatcher::Contains(part.clone(), case)),
        Some(MatchPattern::SafeRegex(regex)) => {
            if matcher.ignore_case {
                validator
                    .error_in("ignore_case", "has no effect on safe_regex and must not be set");
            }
            validator.field("safe_regex.regex", |validator| validate_expression(regex, validator))
        }
        Some(MatchPattern::Custom(_)) => {
            validator.error_in("custom", "not supported by gRPC");
            None
        }
        None => {
            validator.error_in("match_pattern", "must be set");
            None
        }
    }
}

/// Validates an address range. A length that exceeds that of the address counts as that.
pub(crate) fn validate_range(
    range: &CidrRangeSchema,
    validator: &mut Validator<'_>,
) -> Option<CidrRange> {
    let Ok(address) = range.address_prefix.parse::<IpAddr>() else {
        let why = format_args!("`{}` is not an IP address", range.address_prefix);
        validator.error_in("address_prefix", why);
        return None;
    };
    Some(CidrRange::new(address, range.prefix_len.as_ref().map_or(0, |it| it.value)))
}
