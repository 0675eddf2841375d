//! Encoding of scalars, by the type of their field.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use prost_reflect::{EnumDescriptor, Kind};

use super::{Dialect, Encoder, Location, Result};
use crate::error::{ErrorKind, Fault};
use crate::options::UnknownFields;
use crate::suggest;
use crate::tree::json::is_number;
use crate::tree::yaml::is_decimal;
use crate::tree::{Node, Value};
use crate::wire;

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// A scalar by wire type.
#[derive(Clone, Debug)]
pub(crate) enum Scalar<'n> {
    Varint(u64),
    Fixed32(u32),
    Fixed64(u64),
    Len(Cow<'n, [u8]>),
}

impl Scalar<'_> {
    /// Returns the value of an absent field without presence.
    pub(crate) fn default_of(kind: &Kind) -> Self {
        match kind {
            Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => Self::Fixed64(0),
            Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => Self::Fixed32(0),
            Kind::String | Kind::Bytes => Self::Len(Cow::Borrowed(&[])),
            _ => Self::Varint(0),
        }
    }

    /// Whether the value is that of an absent field without presence.
    pub(crate) fn is_default(&self) -> bool {
        match self {
            Self::Varint(value) | Self::Fixed64(value) => *value == 0,
            Self::Fixed32(value) => *value == 0,
            Self::Len(bytes) => bytes.is_empty(),
        }
    }

    pub(crate) fn put_field(&self, number: u32, out: &mut Vec<u8>) {
        let wire_type = match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Len(_) => 2,
            Self::Fixed32(_) => 5,
        };
        wire::put_tag(out, number, wire_type);
        self.put(out);
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Varint(value) => wire::put_varint(out, *value),
            Self::Fixed32(value) => out.extend_from_slice(&value.to_le_bytes()),
            Self::Fixed64(value) => out.extend_from_slice(&value.to_le_bytes()),
            Self::Len(bytes) => {
                wire::put_varint(out, bytes.len() as u64);
                out.extend_from_slice(bytes);
            }
        }
    }
}

impl Encoder<'_> {
    pub(crate) fn scalar<'n>(
        &self,
        kind: &Kind,
        node: &'n Node<'_>,
        at: Location<'_>,
    ) -> Result<Scalar<'n>> {
        match kind {
            Kind::Double => Ok(Scalar::Fixed64(self.float(node, at)?.to_bits())),
            Kind::Float => Ok(Scalar::Fixed32(self.float32(node, at)?.to_bits())),
            Kind::Int32 => Ok(Scalar::Varint(i64::from(self.signed32(node, at)?) as u64)),
            Kind::Int64 => Ok(Scalar::Varint(self.signed64(node, at)? as u64)),
            Kind::Uint32 => Ok(Scalar::Varint(self.unsigned32(node, at)?.into())),
            Kind::Uint64 => Ok(Scalar::Varint(self.unsigned64(node, at)?)),
            Kind::Sint32 => Ok(Scalar::Varint(zigzag(self.signed32(node, at)?.into()))),
            Kind::Sint64 => Ok(Scalar::Varint(zigzag(self.signed64(node, at)?))),
            Kind::Fixed32 => Ok(Scalar::Fixed32(self.unsigned32(node, at)?)),
            Kind::Fixed64 => Ok(Scalar::Fixed64(self.unsigned64(node, at)?)),
            Kind::Sfixed32 => Ok(Scalar::Fixed32(self.signed32(node, at)? as u32)),
            Kind::Sfixed64 => Ok(Scalar::Fixed64(self.signed64(node, at)? as u64)),
            Kind::Bool => Ok(Scalar::Varint(self.boolean(node, at)?.into())),
            Kind::String => Ok(Scalar::Len(self.string(node, at)?)),
            Kind::Bytes => Ok(Scalar::Len(self.bytes(node, at)?)),
            Kind::Enum(enumeration) => {
                Ok(Scalar::Varint(i64::from(self.enumeration(enumeration, node, at)?) as u64))
            }
            Kind::Message(_) => Err(at.wrong("a scalar", node)),
        }
    }

    /// Whether a value is skipped because it is an unknown name of an enum value, which a newer
    /// schema may have.
    pub(crate) fn skips_value(&self, kind: &Kind, node: &Node<'_>, at: Location<'_>) -> bool {
        let Kind::Enum(enumeration) = kind else { return false };
        self.options.unknown_fields == UnknownFields::Skipped
            && self.enumeration(enumeration, node, at).is_err_and(|fault| fault.is_unknown_name())
    }

    fn signed32(&self, node: &Node<'_>, at: Location<'_>) -> Result<i32> {
        let value = self.integer(node).and_then(|value| i32::try_from(value).ok());
        value.ok_or_else(|| at.wrong_scalar("a 32-bit integer", node))
    }

    fn signed64(&self, node: &Node<'_>, at: Location<'_>) -> Result<i64> {
        let value = self.integer(node).and_then(|value| i64::try_from(value).ok());
        value.ok_or_else(|| at.wrong_scalar("a 64-bit integer", node))
    }

    fn unsigned32(&self, node: &Node<'_>, at: Location<'_>) -> Result<u32> {
        let value = self.integer(node).and_then(|value| u32::try_from(value).ok());
        value.ok_or_else(|| at.wrong_scalar("an integer from 0 to 4294967295", node))
    }

    fn unsigned64(&self, node: &Node<'_>, at: Location<'_>) -> Result<u64> {
        let value = self.integer(node).and_then(|value| u64::try_from(value).ok());
        value.ok_or_else(|| at.wrong_scalar("an integer from 0 to 18446744073709551615", node))
    }

    fn float32(&self, node: &Node<'_>, at: Location<'_>) -> Result<f32> {
        let wide = self.float(node, at)?;
        // Parsed as f32, because narrowing an f64 would round twice.
        let narrow: f32 =
            number_text(&node.value).and_then(|text| text.parse().ok()).unwrap_or(wide as f32);
        if narrow.is_infinite() && wide.is_finite() {
            return Err(at.wrong_scalar("a 32-bit number", node));
        }
        Ok(narrow)
    }

    fn float(&self, node: &Node<'_>, at: Location<'_>) -> Result<f64> {
        let parsed = match &node.value {
            Value::Number(text) => float_literal(text),
            Value::String(text) if is_number(text) => float_literal(text),
            Value::String(text) if self.is_lenient() => lenient_float(text),
            Value::String(text) => non_finite(text),
            Value::Word(word) if word.eq_ignore_ascii_case("nan") => Some(f64::NAN),
            Value::Word(word)
                if ["inf", "infinity"].iter().any(|inf| word.eq_ignore_ascii_case(inf)) =>
            {
                Some(f64::INFINITY)
            }
            _ => None,
        };
        parsed.ok_or_else(|| at.wrong_scalar("a number", node))
    }

    /// Returns the integer of a scalar. JSON and YAML allow `5`, `5.0`, `5e0` and `"5"`, proto text
    /// only `5`. Envoy also allows `"0x5"` and `"+5"`.
    fn integer(&self, node: &Node<'_>) -> Option<i128> {
        match (&node.value, self.dialect) {
            (Value::Number(text), Dialect::Text) => text.parse().ok(),
            (Value::Number(text), Dialect::Json | Dialect::Yaml) => whole(text),
            (Value::String(text), _) if is_number(text) => whole(text),
            (Value::String(text), _) if self.is_lenient() => lenient_whole(text),
            _ => None,
        }
    }

    fn boolean(&self, node: &Node<'_>, at: Location<'_>) -> Result<bool> {
        match &node.value {
            Value::Bool(value) => Ok(*value),
            Value::String(text) if self.is_lenient() => {
                lenient_boolean(text).ok_or_else(|| at.wrong_scalar("a boolean", node))
            }
            Value::Word("true" | "True" | "t") => Ok(true),
            Value::Word("false" | "False" | "f") => Ok(false),
            Value::Number(text) if self.dialect == Dialect::Text && text == "1" => Ok(true),
            Value::Number(text) if self.dialect == Dialect::Text && text == "0" => Ok(false),
            _ => Err(at.wrong_scalar("a boolean", node)),
        }
    }

    fn string<'n>(&self, node: &'n Node<'_>, at: Location<'_>) -> Result<Cow<'n, [u8]>> {
        match &node.value {
            Value::String(text) => Ok(Cow::Borrowed(text.as_bytes())),
            Value::Bytes(bytes) if core::str::from_utf8(bytes).is_ok() => Ok(Cow::Borrowed(bytes)),
            // As in Envoy, `version: 1.10` is the text as written, while a boolean or an integer is
            // an error. An integer beyond 32 bits is a string to Envoy.
            Value::Number(text)
                if self.dialect == Dialect::Yaml
                    && text.ends_with(|c: char| c.is_ascii_digit() || c == '.')
                    && whole(text).is_none_or(|number| {
                        self.is_lenient() && i32::try_from(number).is_err()
                    }) =>
            {
                Ok(Cow::Borrowed(text.as_bytes()))
            }
            Value::Number(_) | Value::Bool(_) if self.dialect == Dialect::Yaml => {
                Err(at.wrong_scalar("a string (in quotes)", node))
            }
            _ => Err(at.wrong_scalar("a string", node)),
        }
    }

    fn bytes<'n>(&self, node: &'n Node<'_>, at: Location<'_>) -> Result<Cow<'n, [u8]>> {
        match &node.value {
            Value::Bytes(bytes) => Ok(Cow::Borrowed(bytes)),
            Value::String(text) => {
                let decoded =
                    STANDARD.decode(text.as_ref()).or_else(|_| URL_SAFE.decode(text.as_ref()));
                let expected = match text.trim_start().starts_with("-----BEGIN") {
                    true => "base64 (use `inline_string` for PEM text)",
                    false => "base64",
                };
                // Envoy accepts a mix of the two alphabets.
                let decoded = decoded.or_else(|why| match self.is_lenient() {
                    true => STANDARD.decode(text.replace('-', "+").replace('_', "/")),
                    false => Err(why),
                });
                decoded.map(Cow::Owned).map_err(|_| at.wrong(expected, node))
            }
            _ => Err(at.wrong("base64 in a string", node)),
        }
    }

    /// Returns the number of an enum value, given by name or by number. Enums are open, so any
    /// number is allowed.
    fn enumeration(
        &self,
        enumeration: &EnumDescriptor,
        node: &Node<'_>,
        at: Location<'_>,
    ) -> Result<i32> {
        let name = match &node.value {
            Value::String(name) => name.as_ref(),
            Value::Word(name) => *name,
            Value::Number(_) => return self.signed32(node, at),
            Value::Null if enumeration.full_name() == "google.protobuf.NullValue" => return Ok(0),
            _ => {
                return Err(at.wrong_scalar(
                    format!("a value of the enum `{}`", enumeration.full_name()),
                    node,
                ));
            }
        };
        if let Some(value) = enumeration.get_value_by_name(name) {
            return Ok(value.number());
        }
        let values: Vec<_> = enumeration.values().collect();
        if self.is_lenient() {
            let by_name = values.iter().find(|value| value.name().eq_ignore_ascii_case(name));
            let number = || i32::try_from(lenient_enum_number(name)?).ok();
            if let Some(number) = by_name.map(|value| value.number()).or_else(number) {
                return Ok(number);
            }
        }
        let upper = name.to_ascii_uppercase();
        let suggestion = suggest::nearest(&upper, values.iter().map(|value| value.name()));
        let kind = ErrorKind::UnknownEnumValue {
            value: at.name(name, suggestion.is_some()),
            enumeration: enumeration.full_name().to_owned(),
            suggestion: suggestion.map(str::to_owned),
        };
        Err(Fault::new(node.offset, at.path, kind))
    }
}

fn number_text<'n>(value: &'n Value<'_>) -> Option<&'n str> {
    match value {
        Value::Number(text) | Value::String(text) => Some(text),
        _ => None,
    }
}

/// Parses a quoted boolean as Envoy does.
fn lenient_boolean(text: &str) -> Option<bool> {
    let is_one_of = |words: [&str; 5]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    match text {
        _ if is_one_of(["true", "t", "yes", "y", "1"]) => Some(true),
        _ if is_one_of(["false", "f", "no", "n", "0"]) => Some(false),
        _ => None,
    }
}

/// Parses a quoted integer, in any decimal notation or in hexadecimal. Leading zeros are rejected,
/// because YAML 1.1 reads them as octal in unquoted numbers.
fn lenient_whole(text: &str) -> Option<i128> {
    if is_decimal(text) { whole(text) } else { hexadecimal(text) }
}

/// Parses a quoted number, including infinities and NaN.
fn lenient_float(text: &str) -> Option<f64> {
    if is_decimal(text) {
        return float_literal(text);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if ["nan", "inf", "infinity"].iter().any(|word| unsigned.eq_ignore_ascii_case(word)) {
        return text.parse().ok();
    }
    hexadecimal(text).map(|number| number as f64)
}

/// Parses a quoted enum number, with optional white space around it.
fn lenient_enum_number(text: &str) -> Option<i128> {
    let text = text.trim_ascii();
    let is_whole = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-".contains(&byte));
    if is_whole && is_decimal(text) { whole(text) } else { None }
}

/// Parses a hexadecimal number such as `0x1f`.
fn hexadecimal(text: &str) -> Option<i128> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+')).map(i128::from)
}

/// Parses a decimal number, which must be finite, or one of the three non-finite values of JSON.
fn float_literal(text: &str) -> Option<f64> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Some(value),
        _ => non_finite(text),
    }
}

fn non_finite(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// Returns the integer that a decimal text denotes. A text with a fraction or an exponent is parsed
/// as f64, which is exact below 2^53; larger integers must be written in plain digits.
pub(crate) fn whole(text: &str) -> Option<i128> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if let Ok(value) = text.parse() {
        return Some(value);
    }
    let value: f64 = text.parse().ok()?;
    (value.fract() == 0.0 && value.abs() < EXACT).then_some(value as i128)
}

pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_number_literals_are_parsed_exactly() {
        for (text, value) in [
            ("5", Some(5)),
            ("-5", Some(-5)),
            ("+5", Some(5)),
            ("5.0", Some(5)),
            ("5e3", Some(5000)),
            ("1.5", None),
            ("9007199254740991.0", Some(9_007_199_254_740_991)),
            ("9007199254740993.0", None),
            ("1e400", None),
            ("NaN", None),
            ("x", None),
        ] {
            assert_eq!(whole(text), value, "{text}");
        }
        assert_eq!(whole("18446744073709551615"), Some(u64::MAX.into()));
    }

    #[test]
    fn lenient_number_strings_follow_envoy() {
        for (text, value) in [
            ("+1", Some(1)),
            ("0x10", Some(16)),
            ("0XfF", Some(255)),
            ("1.", Some(1)),
            (".5e1", Some(5)),
            ("1e3", Some(1000)),
            ("010", None),
            ("0x", None),
            ("0x+1", None),
            ("-0x1", None),
            (" 1", None),
            ("", None),
            ("inf", None),
        ] {
            assert_eq!(lenient_whole(text), value, "{text:?}");
        }
        assert_eq!(lenient_float("-INF"), Some(f64::NEG_INFINITY));
        assert_eq!(lenient_float("infinit"), None);
        assert_eq!(lenient_float("1e400"), None);
        assert_eq!(
            [" 1", "+1", "-0", "01", "1.0"].map(lenient_enum_number),
            [Some(1), Some(1), Some(0), None, None]
        );
    }

    #[test]
    fn zigzag_encoding_matches_protobuf() {
        assert_eq!(
            [0, -1, 1, -2, i64::MAX, i64::MIN].map(zigzag),
            [0, 1, 2, 3, u64::MAX - 1, u64::MAX]
        );
    }

    #[test]
    fn float_out_of_range_is_rejected() {
        assert_eq!(float_literal("1e400"), None);
        assert_eq!(float_literal("-Infinity"), Some(f64::NEG_INFINITY));
        assert_eq!(float_literal("inf"), None);
        assert_eq!(float_literal("1.5e3"), Some(1500.0));
    }
}
