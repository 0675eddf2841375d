//! Encoding of the `google.protobuf` messages with a special JSON form.

use prost_reflect::MessageDescriptor;

use super::{Encoder, Location, Result, put_nested};
use crate::error::{ErrorKind, Fault, Path};
use crate::options::InexactNumbers;
use crate::time::{Seconds, is_duration, is_timestamp, parse_duration, parse_timestamp};
use crate::tree::{Member, Node, Value};
use crate::wire;

/// Messages, or groups of messages, with a special JSON form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WellKnown {
    Any,
    Duration,
    FieldMask,
    ListValue,
    Struct,
    Timestamp,
    Value,
    /// `UInt32Value` and similar messages, whose JSON form is that of the field `value`.
    Wrapper,
}

/// Returns the kind of a message by name; `None` for messages with plain JSON, such as `Empty`.
pub(crate) fn of(message: &MessageDescriptor) -> Option<WellKnown> {
    match message.full_name().strip_prefix("google.protobuf.")? {
        "Any" => Some(WellKnown::Any),
        "Duration" => Some(WellKnown::Duration),
        "FieldMask" => Some(WellKnown::FieldMask),
        "ListValue" => Some(WellKnown::ListValue),
        "Struct" => Some(WellKnown::Struct),
        "Timestamp" => Some(WellKnown::Timestamp),
        "Value" => Some(WellKnown::Value),
        "BoolValue" | "BytesValue" | "DoubleValue" | "FloatValue" | "Int32Value" | "Int64Value"
        | "StringValue" | "UInt32Value" | "UInt64Value" => Some(WellKnown::Wrapper),
        _ => None,
    }
}

/// Field numbers of `Duration` and `Timestamp`, `Struct` and its entries, `ListValue`, `FieldMask`.
const SECONDS: u32 = 1;
const NANOS: u32 = 2;
const STRUCT_FIELDS: u32 = 1;
const ENTRY_KEY: u32 = 1;
const ENTRY_VALUE: u32 = 2;
const LIST_VALUES: u32 = 1;
const MASK_PATHS: u32 = 1;

/// Field numbers of the oneof of `Value`.
const VALUE_NULL: u32 = 1;
const VALUE_NUMBER: u32 = 2;
const VALUE_STRING: u32 = 3;
const VALUE_BOOL: u32 = 4;
const VALUE_STRUCT: u32 = 5;
const VALUE_LIST: u32 = 6;

impl Encoder<'_> {
    pub(crate) fn well_known(
        &self,
        which: WellKnown,
        message: &MessageDescriptor,
        node: &Node<'_>,
        at: Location<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if let (
            true,
            WellKnown::FieldMask | WellKnown::Timestamp | WellKnown::Wrapper,
            Value::Object(members),
        ) = (self.is_lenient(), which, &node.value)
        {
            return self.written_out(which, message, members, node, at, out);
        }
        match which {
            WellKnown::Any => self.json_any(node, at, out),
            WellKnown::Duration => self.duration(message, node, at, out),
            WellKnown::FieldMask => field_mask(node, at, out),
            WellKnown::ListValue => match &node.value {
                Value::List(elements) => self.list_value(elements, at, out),
                _ => Err(at.wrong("a list", node)),
            },
            WellKnown::Struct => match &node.value {
                Value::Object(members) => self.struct_value(members, at, out),
                _ => Err(at.wrong("an object", node)),
            },
            WellKnown::Timestamp => match &node.value {
                Value::String(text) => match parse_timestamp(text) {
                    Some(time) => put_seconds(time, out),
                    None => Err(at.wrong_scalar("a time such as \"2024-01-31T12:00:00Z\"", node)),
                },
                _ => Err(at.wrong_scalar("a time such as \"2024-01-31T12:00:00Z\"", node)),
            },
            WellKnown::Value => self.value(node, at, out),
            WellKnown::Wrapper => match message.get_field(1) {
                Some(field) => self.singular(&field, node, at, out),
                None => Err(at.wrong("a message that has a field 1", node)),
            },
        }
    }

    /// Encodes a message given by its fields, such as `{value: 5}` for a wrapper.
    fn written_out(
        &self,
        which: WellKnown,
        message: &MessageDescriptor,
        members: &[Member<'_>],
        node: &Node<'_>,
        at: Location<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let start = out.len();
        self.fields(message, members, |_| false, at, out)?;
        let written = out.get(start..).unwrap_or_default();
        if which == WellKnown::Timestamp && !is_timestamp(read_seconds(written)) {
            return Err(at.wrong("a time from the year 1 to the year 9999", node));
        }
        Ok(())
    }

    /// Encodes a duration, given as `"5s"` or as `{seconds: 5}`.
    // S0.176
    fn duration(
        &self,
        message: &MessageDescriptor,
        node: &Node<'_>,
        at: Location<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let wrong = || {
            at.wrong_scalar("a duration such as \"1.5s\" or {seconds: 1, nanos: 500000000}", node)
        };
        match &node.value {
            Value::String(text) => put_seconds(parse_duration(text).ok_or_else(wrong)?, out),
            Value::Object(members) => {
                let start = out.len();
                self.fields(message, members, |_| false, at, out)?;
                let written = out.get(start..).unwrap_or_default();
                if is_duration(read_seconds(written)) { Ok(()) } else { Err(wrong()) }
            }
            _ => Err(wrong()),
        }
    }
}

fn put_seconds(Seconds { seconds, nanos }: Seconds, out: &mut Vec<u8>) -> Result<()> {
    for (number, value) in [(SECONDS, seconds), (NANOS, i64::from(nanos))] {
        if value != 0 {
            wire::put_tag(out, number, 0);
            wire::put_varint(out, value as u64);
        }
    }
    Ok(())
}

/// Reads an encoded `Duration` or `Timestamp`. Missing or invalid parts are zero.
pub(crate) fn read_seconds(message: &[u8]) -> Seconds {
    let mut value = Seconds { seconds: 0, nanos: 0 };
    for field in wire::Fields::new(message).flatten() {
        match (field.number, field.payload) {
            (SECONDS, wire::Payload::Varint(bits)) => value.seconds = bits as i64,
            (NANOS, wire::Payload::Varint(bits)) => value.nanos = bits as i32,
            _ => {}
        }
    }
    value
}

/// Encodes a field mask such as `"a.b,cD"`, with paths in lowerCamelCase.
fn field_mask(node: &Node<'_>, at: Location<'_>, out: &mut Vec<u8>) -> Result<()> {
    let Value::String(text) = &node.value else {
        return Err(at.wrong_scalar("a string of field paths", node));
    };
    for path in text.split(',').filter(|path| !path.is_empty()) {
        let mut snake = String::with_capacity(path.len() + 4);
        for c in path.chars() {
            if c.is_ascii_uppercase() {
                snake.push('_');
            }
            snake.push(c.to_ascii_lowercase());
        }
        wire::put_len(out, MASK_PATHS, snake.as_bytes());
    }
    Ok(())
}

impl Encoder<'_> {
    fn struct_value(
        &self,
        members: &[Member<'_>],
        at: Location<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut sorted: Vec<_> = members.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        for member in sorted {
            let path = Path::Key(at.path, &member.name);
            // The map entry is a message around the value.
            let at = at.deeper(&path, member.offset)?;
            put_nested(STRUCT_FIELDS, out, |out| {
                wire::put_len(out, ENTRY_KEY, member.name.as_bytes());
                self.nested_value(ENTRY_VALUE, &member.value, at, out)
            })?;
        }
        Ok(())
    }

    fn list_value(&self, elements: &[Node<'_>], at: Location<'_>, out: &mut Vec<u8>) -> Result<()> {
        for (index, element) in elements.iter().enumerate() {
            let path = Path::Index(at.path, index);
            self.nested_value(LIST_VALUES, element, Location { path: &path, ..at }, out)?;
        }
        Ok(())
    }

    fn nested_value(
        &self,
        number: u32,
        node: &Node<'_>,
        at: Location<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let at = at.deeper(at.path, node.offset)?;
        put_nested(number, out, |out| self.value(node, at, out))
    }

    fn value(&self, node: &Node<'_>, at: Location<'_>, out: &mut Vec<u8>) -> Result<()> {
        match &node.value {
            Value::Null => put_varint(VALUE_NULL, 0, out),
            Value::Bool(value) => put_varint(VALUE_BOOL, (*value).into(), out),
            Value::Number(text) => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => {
                    if self.options.inexact_numbers == InexactNumbers::Refused
                        && !is_exact(text, number)
                    {
                        let kind = ErrorKind::InexactNumber { number: at.path.quote(text) };
                        return Err(Fault::new(node.offset, at.path, kind));
                    }
                    wire::put_tag(out, VALUE_NUMBER, 1);
                    out.extend_from_slice(&number.to_le_bytes());
                }
                _ => return Err(at.wrong_scalar("a finite number", node)),
            },
            Value::String(text) => wire::put_len(out, VALUE_STRING, text.as_bytes()),
            Value::List(elements) => {
                let at = at.deeper(at.path, node.offset)?;
                return put_nested(VALUE_LIST, out, |out| self.list_value(elements, at, out));
            }
            Value::Object(members) => {
                let at = at.deeper(at.path, node.offset)?;
                return put_nested(VALUE_STRUCT, out, |out| self.struct_value(members, at, out));
            }
            Value::Word(_) => {
                return Err(at.wrong_scalar("a value", node));
            }
            Value::Bytes(_) => return Err(at.wrong("a value", node)),
        }
        Ok(())
    }
}

/// Whether a number is the value of its text, if the text is a whole number without an exponent.
/// Other numbers are approximate.
fn is_exact(text: &str, number: f64) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    // Numbers of 15 digits are below 2^53.
    if digits.len() <= 15 || !digits.bytes().all(|it| it.is_ascii_digit()) {
        return true;
    }
    let digits = digits.trim_start_matches('0');
    digits.is_empty() || format!("{:.0}", number.abs()) == digits
}

fn put_varint(number: u32, value: u64, out: &mut Vec<u8>) {
    wire::put_tag(out, number, 0);
    wire::put_varint(out, value);
}
