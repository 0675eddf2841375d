//! Interpretation of YAML scalars.
//!
//! Plain scalars are read as Envoy reads them: with YAML 1.1 booleans (`on`, `no`, `y`, ...). A
//! scalar that is not null, a boolean or a number is a string.

use std::borrow::Cow;

use granit_parser::{ScalarStyle, Tag};

use crate::error::{Fault, Result};
use crate::format::Format;
use crate::options::Leniency;
use crate::tree::{Value, syntax};

/// Rejects a tag other than the core tag `expected`. With `Leniency::Envoy` every tag is accepted.
pub(crate) fn check_tag(
    tag: Option<&Tag>,
    expected: &str,
    leniency: Leniency,
    offset: usize,
) -> Result<()> {
    match tag {
        None => Ok(()),
        Some(_) if leniency.is_envoy() => Ok(()),
        Some(tag) if tag.is_yaml_core_schema_tag(expected) => Ok(()),
        Some(_) => Err(unsupported_tag(offset)),
    }
}

fn unsupported_tag(offset: usize) -> Box<Fault> {
    syntax(
        Format::Yaml,
        offset,
        "this tag is not supported; put a string that begins with `!` in quotes",
    )
}

/// Interprets a scalar by its quotes, tag and text.
pub(crate) fn scalar<'t>(
    text: Cow<'t, str>,
    style: ScalarStyle,
    tag: Option<&Tag>,
    leniency: Leniency,
    offset: usize,
) -> Result<Value<'t>> {
    let quoted = style != ScalarStyle::Plain;
    match tag {
        None if quoted => Ok(Value::String(text)),
        None => Ok(plain(text)),
        // `! text` and `!!binary`, whose text is base64 as a bytes field expects it.
        Some(tag) if tag.original() == "!" => Ok(Value::String(text)),
        Some(tag) if ["str", "binary"].iter().any(|name| tag.is_yaml_core_schema_tag(name)) => {
            Ok(Value::String(text))
        }
        Some(tag)
            if ["int", "float", "bool", "null"]
                .iter()
                .any(|name| tag.is_yaml_core_schema_tag(name)) =>
        {
            Ok(plain(text))
        }
        // Envoy ignores other tags.
        Some(_) if leniency.is_envoy() => {
            Ok(if quoted { Value::String(text) } else { plain(text) })
        }
        Some(_) => Err(unsupported_tag(offset)),
    }
}

/// Interprets an unquoted scalar. A number with leading zeros stays a string, because YAML 1.1
/// (octal) and 1.2 (decimal) differ; a field of a numeric type then rejects it.
fn plain(text: Cow<'_, str>) -> Value<'_> {
    match text.as_ref() {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        ".nan" | ".NaN" | ".NAN" => Value::Number("NaN".into()),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Value::Number("Infinity".into()),
        "-.inf" | "-.Inf" | "-.INF" => Value::Number("-Infinity".into()),
        word if is_one_of(word, &["y", "yes", "true", "on"]) => Value::Bool(true),
        word if is_one_of(word, &["n", "no", "false", "off"]) => Value::Bool(false),
        number if is_decimal(number) => Value::Number(text),
        number => match radix(number) {
            Some(value) => Value::Number(value.to_string().into()),
            None => Value::String(text),
        },
    }
}

/// Whether this text, unquoted, is a string in both YAML 1.1 and 1.2. Everything that resembles a
/// number or a timestamp counts as one, because readers differ in their forms.
pub(crate) fn is_string(text: &str) -> bool {
    let in_number = |byte: u8| byte.is_ascii_hexdigit() || b"_.:+-xXoOtTzZ".contains(&byte);
    let looks_like_number =
        text.starts_with(|c: char| c.is_ascii_digit()) && text.bytes().all(in_number);
    let is_exponent = text.strip_prefix(['e', 'E']).is_some_and(|digits| {
        digits.bytes().all(|byte| byte.is_ascii_digit() || b"+-".contains(&byte))
    });
    !looks_like_number && !is_exponent && matches!(plain(Cow::Borrowed(text)), Value::String(_))
}

/// Whether a word is in the list, in lower case, in upper case, or capitalised.
fn is_one_of(word: &str, lower: &[&str]) -> bool {
    let behind_capital = word.strip_prefix(|c: char| c.is_ascii_uppercase());
    // `lower` is the word in lower case, so a common end makes them equal except for the capital.
    let flexible = |lower: &str| {
        word == lower
            || word.bytes().all(|byte| byte.is_ascii_uppercase())
            || behind_capital.is_some_and(|rest| lower.ends_with(rest))
    };
    lower.iter().any(|lower| word.eq_ignore_ascii_case(lower) && flexible(lower))
}

/// Whether the text is a number of the form
/// `[-+]? (digits [. digits?] | . digits) ([eE] [-+]? digits)?`, without extra leading zeros.
pub(crate) fn is_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        None => (unsigned, "0"),
        Some((mantissa, exponent)) => {
            (mantissa, exponent.strip_prefix(['-', '+']).unwrap_or(exponent))
        }
    };
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    digits(integer)
        && digits(fraction)
        && digits(exponent)
        && !exponent.is_empty()
        && !(integer.is_empty() && fraction.is_empty())
        && (integer.len() < 2 || !integer.starts_with('0'))
}

/// Parses a hexadecimal (`0x1f`) or octal (`0o17`) number.
fn radix(text: &str) -> Option<u64> {
    let (digits, radix) = match text.split_at_checked(2)? {
        ("0x", digits) => (digits, 16),
        ("0o", digits) => (digits, 8),
        _ => return None,
    };
    // Without a sign, which the standard library would accept.
    let is_number = digits.chars().all(|digit| digit.is_digit(radix));
    u64::from_str_radix(digits, radix).ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::yaml;

    fn string(text: &str) -> Value<'_> {
        Value::String(text.into())
    }

    #[test]
    fn plain_yaml_scalars_have_the_type_that_envoy_gives_them() {
        for (text, value) in [
            ("~", Value::Null),
            ("null", Value::Null),
            ("yes", Value::Bool(true)),
            ("On", Value::Bool(true)),
            ("y", Value::Bool(true)),
            ("OFF", Value::Bool(false)),
            ("n", Value::Bool(false)),
            ("oFF", string("oFF")),
            ("12", Value::Number("12".into())),
            ("-1.5e3", Value::Number("-1.5e3".into())),
            (".5", Value::Number(".5".into())),
            ("0x1F", Value::Number("31".into())),
            ("0o17", Value::Number("15".into())),
            (".inf", Value::Number("Infinity".into())),
            ("0777", string("0777")),
            ("5s", string("5s")),
            ("1.2.3.4", string("1.2.3.4")),
            ("12e", string("12e")),
            (".", string(".")),
            ("\"12\"", string("12")),
            ("'no'", string("no")),
            ("!!str 12", string("12")),
            ("! 12", string("12")),
            ("!!int '12'", Value::Number("12".into())),
        ] {
            assert_eq!(yaml::parse(text, Leniency::Strict).unwrap()[0].value, value, "{text}");
        }
    }
}
