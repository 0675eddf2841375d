//! The protobuf wire format: an iterator over the fields of an encoded message, and writers.
//!
//! `build.rs` includes this file to strip the descriptor set, so it uses only `core` and `Vec`.

use core::fmt;

/// Maximum depth of groups inside an unknown field; prost has the same limit for messages.
const MAX_GROUP_DEPTH: usize = 100;

/// Error in the encoding of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireError {
    /// The bytes end inside a field.
    Truncated,
    /// A varint is longer than ten bytes or does not fit into 64 bits.
    InvalidVarint,
    /// A tag has field number 0, a number above 2^29 - 1, or a wire type that does not exist.
    InvalidTag,
    /// A group ends without a start, is not closed, or nests too deeply.
    UnbalancedGroup,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the encoding is truncated",
            Self::InvalidVarint => "the encoding has an invalid varint",
            Self::InvalidTag => "the encoding has an invalid field tag",
            Self::UnbalancedGroup => "the encoding has an unbalanced group",
        })
    }
}

/// Payload of a field, by wire type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 1.
    Fixed64,
    /// Wire type 2: string, bytes, message, map entry or packed scalars.
    Len(&'a [u8]),
    /// Wire types 3 and 4, skipped as a whole.
    Group,
    /// Wire type 5.
    Fixed32,
}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    /// Field number.
    pub(crate) number: u32,
    /// Field value.
    pub(crate) payload: Payload<'a>,
    /// Tag and value as encoded in the message.
    pub(crate) raw: &'a [u8],
}

/// Iterator over the fields of a message. Ends after the first error.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn read(&mut self) -> Result<Field<'a>, WireError> {
        let start = self.rest;
        let (number, wire_type) = read_tag(&mut self.rest)?;
        let payload = match wire_type {
            0 => Payload::Varint(read_varint(&mut self.rest)?),
            1 => {
                take(&mut self.rest, 8)?;
                Payload::Fixed64
            }
            2 => Payload::Len(read_len(&mut self.rest)?),
            3 => {
                skip_group(&mut self.rest, number)?;
                Payload::Group
            }
            5 => {
                take(&mut self.rest, 4)?;
                Payload::Fixed32
            }
            _ => return Err(WireError::UnbalancedGroup),
        };
        let raw = start.get(..start.len() - self.rest.len()).unwrap_or_default();
        Ok(Field { number, payload, raw })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

fn read_tag(input: &mut &[u8]) -> Result<(u32, u8), WireError> {
    let tag = u32::try_from(read_varint(input)?).map_err(|_| WireError::InvalidTag)?;
    let wire_type = (tag & 7) as u8;
    match tag >> 3 {
        0 => Err(WireError::InvalidTag),
        _ if wire_type > 5 => Err(WireError::InvalidTag),
        number => Ok((number, wire_type)),
    }
}

/// Reads one varint from the front of `input`.
pub(crate) fn read_varint(input: &mut &[u8]) -> Result<u64, WireError> {
    let mut value = 0_u64;
    for (i, &byte) in input.iter().take(10).enumerate() {
        // The tenth byte carries only the topmost bit.
        if i == 9 && byte > 1 {
            return Err(WireError::InvalidVarint);
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            *input = input.get(i + 1..).unwrap_or_default();
            return Ok(value);
        }
    }
    Err(if input.len() < 10 { WireError::Truncated } else { WireError::InvalidVarint })
}

fn read_len<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], WireError> {
    let len = usize::try_from(read_varint(input)?).map_err(|_| WireError::Truncated)?;
    take(input, len)
}

/// Takes `len` bytes from the front of `input`.
pub(crate) fn take<'a>(input: &mut &'a [u8], len: usize) -> Result<&'a [u8], WireError> {
    let (head, tail) = input.split_at_checked(len).ok_or(WireError::Truncated)?;
    *input = tail;
    Ok(head)
}

fn skip_group(input: &mut &[u8], number: u32) -> Result<(), WireError> {
    let mut open = vec![number];
    while let Some(&innermost) = open.last() {
        let (number, wire_type) = read_tag(input)?;
        match wire_type {
            0 => drop(read_varint(input)?),
            1 => drop(take(input, 8)?),
            2 => drop(read_len(input)?),
            3 if open.len() < MAX_GROUP_DEPTH => open.push(number),
            4 if number == innermost => drop(open.pop()),
            5 => drop(take(input, 4)?),
            _ => return Err(WireError::UnbalancedGroup),
        }
    }
    Ok(())
}

/// Appends a varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a field's tag.
pub(crate) fn put_tag(out: &mut Vec<u8>, number: u32, wire_type: u8) {
    put_varint(out, u64::from(number) << 3 | u64::from(wire_type));
}

/// Appends a length-delimited field.
pub(crate) fn put_len(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    put_tag(out, number, 2);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Returns the last value of a singular string field, or `""` if it is not set or not UTF-8. A
/// caller that must reject invalid UTF-8 checks the whole message first.
pub(crate) fn last_string(message: &[u8], number: u32) -> Result<&str, WireError> {
    let mut last = "";
    for field in Fields::new(message) {
        let field = field?;
        if let Payload::Len(value) = field.payload
            && field.number == number
        {
            last = core::str::from_utf8(value).unwrap_or_default();
        }
    }
    Ok(last)
}
