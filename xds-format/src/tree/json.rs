//! JSON parser (RFC 8259) that builds a tree. In lenient mode it accepts the extensions of Envoy's
//! parser.

use std::borrow::Cow;

use super::{MAX_NODES, Member, Node, Value, check_depth, check_unique_keys, count_node, syntax};
use crate::error::{Fault, Result};
use crate::format::Format;
use crate::options::Leniency;

/// Parses one JSON text.
pub(crate) fn parse(text: &str, leniency: Leniency) -> Result<Node<'_>> {
    let mut parser = JsonParser { nodes_left: MAX_NODES, leniency, ..JsonParser::new(text) };
    parser.skip_space();
    let node = parser.value(0)?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(node),
        Some(_) => Err(parser.error("expected the end of the text after the value")),
    }
}

/// Whether the whole text is one JSON number.
pub(crate) fn is_number(text: &str) -> bool {
    let mut parser = JsonParser::new(text);
    parser.number().is_ok() && parser.at == text.len()
}

struct JsonParser<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    nodes_left: usize,
    /// `Leniency::Envoy` allows single quotes, unquoted keys, trailing commas, and line breaks in
    /// strings.
    leniency: Leniency,
}

impl<'t> JsonParser<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0, nodes_left: 0, leniency: Leniency::Strict }
    }

    fn value(&mut self, depth: usize) -> Result<Node<'t>> {
        let offset = self.at;
        count_node(&mut self.nodes_left, offset)?;
        let value = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(quote @ b'"') => Value::String(self.string(quote)?),
            Some(quote @ b'\'') if self.leniency.is_envoy() => Value::String(self.string(quote)?),
            Some(b'-' | b'0'..=b'9') => Value::Number(Cow::Borrowed(self.number()?)),
            Some(b't') => self.keyword("true", Value::Bool(true))?,
            Some(b'f') => self.keyword("false", Value::Bool(false))?,
            Some(b'n') => self.keyword("null", Value::Null)?,
            Some(_) => return Err(self.error("expected a value")),
            None => return Err(self.error("expected a value, found the end of the text")),
        };
        Ok(Node { offset, value })
    }

    fn object(&mut self, depth: usize) -> Result<Value<'t>> {
        check_depth(depth, self.at)?;
        self.at += 1;
        let mut members = Vec::new();
        self.skip_space();
        if self.take(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_space();
            let offset = self.at;
            let name = self.key()?;
            self.skip_space();
            if !self.take(b':') {
                return Err(self.error("expected `:` after a key"));
            }
            self.skip_space();
            members.push(Member { offset, name, value: self.value(depth + 1)? });
            self.skip_space();
            if self.take(b'}') {
                check_unique_keys(&members)?;
                members.shrink_to_fit();
                return Ok(Value::Object(members));
            }
            if !self.take(b',') {
                return Err(self.error("expected `,` or `}` after a member of an object"));
            }
            if self.ends_after_comma(b'}') {
                check_unique_keys(&members)?;
                return Ok(Value::Object(members));
            }
        }
    }

    fn key(&mut self) -> Result<Cow<'t, str>> {
        match self.peek() {
            Some(quote @ b'"') => self.string(quote),
            Some(quote @ b'\'') if self.leniency.is_envoy() => self.string(quote),
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$') if self.leniency.is_envoy() => {
                let start = self.at;
                while self
                    .peek()
                    .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_$".contains(&byte))
                {
                    self.at += 1;
                }
                Ok(Cow::Borrowed(self.text_from(start)))
            }
            _ => Err(self.error("expected a key in double quotes")),
        }
    }

    /// Takes the closing bracket after a trailing comma, if the leniency allows one.
    fn ends_after_comma(&mut self, close: u8) -> bool {
        self.skip_space();
        self.leniency.is_envoy() && self.take(close)
    }

    fn list(&mut self, depth: usize) -> Result<Value<'t>> {
        check_depth(depth, self.at)?;
        self.at += 1;
        let mut elements = Vec::new();
        self.skip_space();
        if self.take(b']') {
            return Ok(Value::List(elements));
        }
        loop {
            self.skip_space();
            elements.push(self.value(depth + 1)?);
            self.skip_space();
            if self.take(b']') {
                elements.shrink_to_fit();
                return Ok(Value::List(elements));
            }
            if !self.take(b',') {
                return Err(self.error("expected `,` or `]` after an element of a list"));
            }
            if self.ends_after_comma(b']') {
                return Ok(Value::List(elements));
            }
        }
    }

    fn string(&mut self, quote: u8) -> Result<Cow<'t, str>> {
        let open = self.at;
        self.at += 1;
        let start = self.at;
        let mut owned = String::new();
        let mut copied = start;
        loop {
            match self.peek() {
                Some(byte) if byte == quote => {
                    let rest = self.text_from(copied);
                    self.at += 1;
                    if copied == start {
                        return Ok(Cow::Borrowed(rest));
                    }
                    owned.push_str(rest);
                    return Ok(Cow::Owned(owned));
                }
                Some(b'\\') => {
                    owned.push_str(self.text_from(copied));
                    owned.push(self.escape()?);
                    copied = self.at;
                }
                Some(0..0x20) if !self.leniency.is_envoy() => {
                    return Err(self.error("a control character in a string must be escaped"));
                }
                Some(_) => self.at += 1,
                None => {
                    return Err(syntax(Format::Json, open, "unterminated string"));
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        let start = self.at;
        self.at += 2;
        let invalid = || syntax(Format::Json, start, "invalid escape in a string");
        match self.bytes.get(start + 1) {
            Some(b'"') => Ok('"'),
            Some(b'\'') if self.leniency.is_envoy() => Ok('\''),
            Some(b'\\') => Ok('\\'),
            Some(b'/') => Ok('/'),
            Some(b'b') => Ok('\u{8}'),
            Some(b'f') => Ok('\u{c}'),
            Some(b'n') => Ok('\n'),
            Some(b'r') => Ok('\r'),
            Some(b't') => Ok('\t'),
            Some(b'u') => {
                let first = self.hex().ok_or_else(invalid)?;
                if !(0xd800..0xdc00).contains(&first) {
                    return char::from_u32(first).ok_or_else(invalid);
                }
                // The first half of a surrogate pair; the other half must follow.
                if self.bytes.get(self.at..self.at + 2) != Some(b"\\u") {
                    return Err(invalid());
                }
                self.at += 2;
                let second = self
                    .hex()
                    .filter(|half| (0xdc00..0xe000).contains(half))
                    .ok_or_else(invalid)?;
                char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))
                    .ok_or_else(invalid)
            }
            _ => Err(invalid()),
        }
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.bytes.get(self.at..self.at + 4)?;
        self.at += 4;
        digits
            .iter()
            .try_fold(0, |value, &digit| Some(value << 4 | char::from(digit).to_digit(16)?))
    }

    fn number(&mut self) -> Result<&'t str> {
        let start = self.at;
        self.take(b'-');
        let integer = self.digits();
        let leading_zero = integer.len() > 1 && integer.starts_with('0');
        let fraction = if self.take(b'.') { self.digits() } else { "0" };
        let mut exponent = "0";
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            exponent = self.digits();
        }
        if leading_zero || [integer, fraction, exponent].contains(&"") {
            return Err(syntax(Format::Json, start, "invalid number"));
        }
        Ok(self.text_from(start))
    }

    fn digits(&mut self) -> &'t str {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.text_from(start)
    }

    /// Returns the text between an earlier position and this one.
    fn text_from(&self, start: usize) -> &'t str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn keyword(&mut self, word: &str, value: Value<'t>) -> Result<Value<'t>> {
        if !self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            return Err(self.error("expected a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn error(&self, reason: &str) -> Box<Fault> {
        syntax(Format::Json, self.at, reason)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Parses the same text with serde_json, for comparison.
    fn reference(node: &Node<'_>) -> serde_json::Value {
        match &node.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Number(text) => serde_json::from_str(text).expect("a number"),
            Value::String(text) => text.as_ref().into(),
            Value::List(elements) => elements.iter().map(reference).collect(),
            Value::Object(members) => {
                members.iter().map(|m| (m.name.clone().into_owned(), reference(&m.value))).collect()
            }
            Value::Bytes(_) | Value::Word(_) => unreachable!("not in JSON"),
        }
    }

    fn error(text: &str) -> String {
        parse(text, Leniency::Strict).unwrap_err().in_source("x.json", Some(text)).to_string()
    }

    #[test]
    fn values_carry_their_byte_offset() {
        let text = "{\n  \"a\": [1, \"b\\n\\u00e4\\ud83d\\ude00\"]\n}";
        let Value::Object(members) = parse(text, Leniency::Strict).unwrap().value else {
            panic!("an object")
        };
        assert_eq!((members[0].offset, members[0].name.as_ref()), (4, "a"));
        let Value::List(elements) = &members[0].value.value else { panic!("a list") };
        assert_eq!(elements[0], Node { offset: 10, value: Value::Number("1".into()) });
        assert_eq!(elements[1], Node { offset: 13, value: Value::String("b\nä😀".into()) });
    }

    #[test]
    fn json_syntax_errors_state_position_and_cause() {
        assert_eq!(
            error("{\"a\": 1,}"),
            "x.json:1:9: invalid JSON: expected a key in double quotes"
        );
        assert_eq!(
            error("[1 2]"),
            "x.json:1:4: invalid JSON: expected `,` or `]` after an element of a list"
        );
        assert_eq!(error("{\"a\" 1}"), "x.json:1:6: invalid JSON: expected `:` after a key");
        assert_eq!(
            error("{\"a\":1 \"b\":2}"),
            "x.json:1:8: invalid JSON: expected `,` or `}` after a member of an object"
        );
        assert_eq!(error("[\n  \"ab"), "x.json:2:3: invalid JSON: unterminated string");
        assert_eq!(error("[01]"), "x.json:1:2: invalid JSON: invalid number");
        assert_eq!(error("\"\\ud800\""), "x.json:1:2: invalid JSON: invalid escape in a string");
        assert_eq!(
            error("\"\t\""),
            "x.json:1:2: invalid JSON: a control character in a string must be escaped"
        );
        assert_eq!(
            error("1 1"),
            "x.json:1:3: invalid JSON: expected the end of the text after the value"
        );
        assert_eq!(
            error(""),
            "x.json:1:1: invalid JSON: expected a value, found the end of the text"
        );
        assert_eq!(error("{\"a\":1,\n\"a\":2}"), "x.json:2:1: duplicate key `a`");
    }

    #[test]
    fn envoy_leniency_accepts_more_than_json() {
        let text = "{a: ['x\\'\"\n', 1,], \"b\": {'c': null,},}";
        let strict = "{\"a\": [\"x'\\\"\\n\", 1], \"b\": {\"c\": null}}";
        let lenient = parse(text, Leniency::Envoy).unwrap();
        assert_eq!(reference(&lenient), reference(&parse(strict, Leniency::Strict).unwrap()));
        for bad in
            ["{,}", "[,]", "[1,,]", "{a}", "[a]", "{1: 2}", "// c\n{}", "{} x", "{a: 1, 'a': 2}"]
        {
            assert!(parse(bad, Leniency::Envoy).is_err(), "{bad}");
        }
    }

    #[test]
    fn json_nesting_depth_is_limited() {
        assert!(
            parse(&format!("{}{}", "[".repeat(200), "]".repeat(200)), Leniency::Strict).is_ok()
        );
        assert_eq!(error(&"[".repeat(1_000_000)), "x.json:1:201: nested deeper than 200 levels");
        assert_eq!(
            error(&"{\"a\":".repeat(1_000_000)),
            "x.json:1:1001: nested deeper than 200 levels"
        );
    }

    #[test]
    fn duplicate_key_is_found_among_many_keys() {
        let text = (0..100).map(|i| format!("\"k{}\":0", i % 99)).collect::<Vec<_>>().join(",");
        assert_eq!(error(&format!("{{{text}}}")), "x.json:1:784: duplicate key `k0`");
    }

    proptest! {
        /// The parser accepts the same texts as serde_json, with the same meaning.
        #[test]
        fn strict_json_accepts_the_same_texts_as_serde_json(text in r#"[\[\]{}":,0-9eE+.\-a\\utfnrls \n]{0,24}"#) {
            match (parse(&text, Leniency::Strict), serde_json::from_str::<serde_json::Value>(&text)) {
                (Ok(ours), Ok(theirs)) => prop_assert_eq!(reference(&ours), theirs),
                (Err(_), Err(_)) => {}
                // Two known differences: of two equal keys serde_json keeps the last, and it
                // rejects numbers beyond f64.
                (Err(fault), Ok(_)) => prop_assert!(
                    fault.in_source("", None).to_string().contains("duplicate key"), "{}", text),
                (Ok(_), Err(theirs)) => prop_assert!(
                    theirs.to_string().contains("number out of range"), "{}: {}", text, theirs),
            }
        }

        #[test]
        fn json_printed_by_serde_json_parses_to_the_same_value(text in "\\PC{0,40}", number in any::<i64>()) {
            let json = serde_json::json!({"a": [text, number, null, true], "b": {"c": i64::MIN}});
            for printed in [json.to_string(), serde_json::to_string_pretty(&json).unwrap()] {
                prop_assert_eq!(reference(&parse(&printed, Leniency::Strict).unwrap()), json.clone());
            }
        }
    }
}
