//! Percent-encoding of the parts of a URI, each with its own set of unescaped characters.

use alloc::{borrow::Cow, string::String, vec::Vec};

use super::InvalidXdstp;

/// Part of a URI, with the characters that it allows unescaped (RFC 3986, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Authority,
    /// Text between two slashes of the path.
    Segment,
    /// Key or value of a context parameter.
    Context,
    /// Text that may be placed in the path or in the context.
    Anywhere,
}

impl Part {
    /// Appends the bytes, escaping those that the part does not allow.
    pub(super) fn encode(self, bytes: &[u8], out: &mut String) {
        for &byte in bytes {
            if self.allows(byte) {
                out.push(char::from(byte));
            } else {
                out.push('%');
                for nibble in [byte >> 4, byte & 0xf] {
                    let digit = char::from_digit(u32::from(nibble), 16).unwrap_or('0');
                    out.push(digit.to_ascii_uppercase());
                }
            }
        }
    }

    fn allows(self, byte: u8) -> bool {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => true,
            b'-' | b'.' | b'_' | b'~' => true,
            b'!' | b'$' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b':' | b'@' => true,
            b'&' | b'=' => matches!(self, Self::Authority | Self::Segment),
            b'/' | b'?' => self == Self::Context,
            b'[' | b']' => self == Self::Authority,
            _ => false,
        }
    }
}

/// Unescapes a text. `at` is its offset in the whole name, for the error.
pub(super) fn decode(text: &str, at: usize) -> Result<Cow<'_, [u8]>, InvalidXdstp> {
    if !text.contains('%') {
        return Ok(Cow::Borrowed(text.as_bytes()));
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes().enumerate();
    while let Some((offset, byte)) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|(_, digit)| char::from(digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(InvalidXdstp::Escape { at: at + offset });
        };
        decoded.push((high << 4 | low) as u8);
    }
    Ok(Cow::Owned(decoded))
}
