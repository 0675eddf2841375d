//! Lexer of the protobuf text format.

use std::borrow::Cow;

use super::syntax;
use crate::error::Result;
use crate::format::Format;

/// A token of proto text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token<'t> {
    /// A name or a bare word.
    Ident(&'t str),
    /// A number without its sign, in decimal.
    Number(Cow<'t, str>),
    /// A quoted string, unescaped.
    Str(Vec<u8>),
    /// Any other character of the grammar.
    Punct(char),
    /// The end of the text.
    End,
}

/// Whether a type URL can be written in brackets, as the text format does for an `Any`.
pub(crate) fn is_bracketed(type_url: &str) -> bool {
    type_url.bytes().all(is_in_brackets)
}

fn is_in_brackets(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-/~%!$&()*+,;=".contains(&byte)
}

/// Splits proto text into tokens. White space and comments are skipped.
pub(crate) struct Lexer<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0 }
    }

    /// Returns the next token and its byte offset.
    pub(crate) fn next(&mut self) -> Result<(usize, Token<'t>)> {
        self.skip_space();
        let start = self.at;
        let token = match self.peek() {
            None => Token::End,
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => {
                self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                Token::Ident(self.text_from(start))
            }
            Some(b'0'..=b'9') => Token::Number(self.number()?),
            Some(b'.') if self.bytes.get(start + 1).is_some_and(u8::is_ascii_digit) => {
                Token::Number(self.number()?)
            }
            Some(quote @ (b'"' | b'\'')) => Token::Str(self.string(quote)?),
            Some(byte @ (b'{' | b'}' | b'<' | b'>' | b'[' | b']' | b':' | b',' | b';' | b'-')) => {
                self.at += 1;
                Token::Punct(char::from(byte))
            }
            Some(_) => {
                let rest = self.text.get(start..).unwrap_or_default();
                let found = rest.chars().next().unwrap_or_default();
                return Err(syntax(Format::Text, start, format!("unexpected character {found:?}")));
            }
        };
        Ok((start, token))
    }

    /// Reads up to the `]` after a `[`, without white space: the name of an extension or of an
    /// `Any`'s type.
    pub(crate) fn bracketed(&mut self) -> Result<String> {
        let start = self.at;
        let mut name = String::new();
        loop {
            match self.peek() {
                Some(b']') => {
                    self.at += 1;
                    return Ok(name);
                }
                Some(byte) if byte.is_ascii_whitespace() => self.at += 1,
                Some(byte) if is_in_brackets(byte) => {
                    name.push(char::from(byte));
                    self.at += 1;
                }
                _ => {
                    return Err(syntax(
                        Format::Text,
                        start,
                        "expected a type URL and `]` after `[`",
                    ));
                }
            }
        }
    }

    /// Returns the text between an earlier position and this one.
    fn text_from(&self, start: usize) -> &'t str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn number(&mut self) -> Result<Cow<'t, str>> {
        let start = self.at;
        self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
        // The sign of an exponent.
        let mantissa = self.text_from(start);
        if matches!(self.peek(), Some(b'+' | b'-'))
            && mantissa.ends_with(['e', 'E'])
            && !mantissa.starts_with("0x")
        {
            self.at += 1;
            self.skip_while(|byte| byte.is_ascii_alphanumeric());
        }
        let text = self.text_from(start);
        let integer = match (text.split_at_checked(2), text.as_bytes()) {
            (Some(("0x" | "0X", digits)), _) => u64::from_str_radix(digits, 16).ok(),
            (_, [b'0', b'0'..=b'9', ..]) => u64::from_str_radix(text, 8).ok(),
            _ => text.parse().ok(),
        };
        if let Some(value) = integer {
            let decimal: Cow<'t, str> = value.to_string().into();
            return Ok(if decimal == text { Cow::Borrowed(text) } else { decimal });
        }
        let float = text.strip_suffix(['f', 'F']).unwrap_or(text);
        let is_float = float
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
            && float.parse::<f64>().is_ok()
            && !(float.starts_with('0') && float.as_bytes().get(1).is_some_and(u8::is_ascii_digit));
        if is_float {
            Ok(Cow::Borrowed(float))
        } else {
            Err(syntax(Format::Text, start, "invalid number"))
        }
    }

    fn string(&mut self, quote: u8) -> Result<Vec<u8>> {
        let open = self.at;
        self.at += 1;
        let mut out = Vec::new();
        loop {
            match self.peek() {
                None | Some(b'\n') => {
                    return Err(syntax(Format::Text, open, "unterminated string on this line"));
                }
                Some(b'\\') => self.escape(&mut out)?,
                Some(byte) => {
                    self.at += 1;
                    if byte == quote {
                        return Ok(out);
                    }
                    out.push(byte);
                }
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let start = self.at;
        let invalid = || syntax(Format::Text, start, "invalid escape in a string");
        self.at += 1;
        let kind = self.peek().ok_or_else(invalid)?;
        self.at += 1;
        out.push(match kind {
            b'a' => 7,
            b'b' => 8,
            b't' => 9,
            b'n' => 10,
            b'v' => 11,
            b'f' => 12,
            b'r' => 13,
            b'\\' | b'\'' | b'"' | b'?' => kind,
            b'0'..=b'7' => {
                self.at -= 1;
                u8::try_from(self.digits(8, 1, 3).ok_or_else(invalid)?).map_err(|_| invalid())?
            }
            b'x' | b'X' => self.digits(16, 1, 2).ok_or_else(invalid)? as u8,
            b'u' | b'U' => {
                let count = if kind == b'u' { 4 } else { 8 };
                let scalar =
                    self.digits(16, count, count).and_then(char::from_u32).ok_or_else(invalid)?;
                out.extend_from_slice(scalar.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(invalid()),
        });
        Ok(())
    }

    fn digits(&mut self, radix: u32, at_least: usize, at_most: usize) -> Option<u32> {
        let mut value = 0_u32;
        for read in 0..at_most {
            match self.peek().and_then(|byte| char::from(byte).to_digit(radix)) {
                Some(digit) => value = value.checked_mul(radix)?.checked_add(digit)?,
                None if read >= at_least => break,
                None => return None,
            }
            self.at += 1;
        }
        Some(value)
    }

    fn skip_space(&mut self) {
        loop {
            self.skip_while(|byte| byte.is_ascii_whitespace() || byte == 0x0b);
            if self.peek() != Some(b'#') {
                return;
            }
            self.skip_while(|byte| byte != b'\n');
        }
    }

    fn skip_while(&mut self, skip: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&skip) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token<'_> {
        Lexer::new(text).next().unwrap().1
    }

    #[test]
    fn number_tokens_become_decimal() {
        for (text, decimal) in [
            ("12", "12"),
            ("0x1F", "31"),
            ("017", "15"),
            ("0", "0"),
            ("1.5f", "1.5"),
            (".5", ".5"),
            ("1e-3", "1e-3"),
            ("10F", "10"),
        ] {
            assert_eq!(token(text), Token::Number(decimal.into()), "{text}");
        }
        for text in ["12abc", "09", "0x", "1.2.3", "0x1g", "1e", "99999999999999999999999x"] {
            assert!(Lexer::new(text).next().is_err(), "{text}");
        }
    }

    #[test]
    fn string_tokens_are_unescaped() {
        assert_eq!(
            token(
                r#" # note
            "a\n\x41\101\u00e4\\\"" "#
            ),
            Token::Str("a\nAAä\\\"".into())
        );
        assert_eq!(token(r"'\377\xff'"), Token::Str(vec![255, 255]));
        for text in ["\"a", "\"a\nb\"", r"'\q'", r"'\400'", r"'\ud800'", "'\\"] {
            assert!(Lexer::new(text).next().is_err(), "{text}");
        }
    }
}
