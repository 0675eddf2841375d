//! Parser of the protobuf text format that builds a tree.
//!
//! It implements only the grammar. A repeated field appears as several members of one name, and
//! `[type.googleapis.com/name] {..}` as a member whose name includes the brackets. The encoder
//! interprets names and words.

use std::borrow::Cow;

use super::lexer::{Lexer, Token};
use super::{MAX_NODES, Member, Node, Value, check_depth, count_node, syntax};
use crate::error::{Fault, Result};
use crate::format::Format;

/// Parses a text into an object of its fields.
pub(crate) fn parse(text: &str) -> Result<Node<'_>> {
    let mut lexer = Lexer::new(text);
    let (offset, token) = lexer.next()?;
    let mut parser = TextParser { lexer, offset, token, nodes_left: MAX_NODES };
    let members = parser.members(&Token::End, 0)?;
    Ok(Node { offset: 0, value: Value::Object(members) })
}

struct TextParser<'t> {
    lexer: Lexer<'t>,
    /// Next token, and the byte offset where it begins.
    token: Token<'t>,
    offset: usize,
    nodes_left: usize,
}

impl<'t> TextParser<'t> {
    fn members(&mut self, end: &Token<'t>, depth: usize) -> Result<Vec<Member<'t>>> {
        let mut members = Vec::new();
        while self.token != *end {
            members.push(self.member(depth)?);
            if matches!(self.token, Token::Punct(',' | ';')) {
                self.advance()?;
            }
        }
        members.shrink_to_fit();
        Ok(members)
    }

    fn member(&mut self, depth: usize) -> Result<Member<'t>> {
        let offset = self.offset;
        let name = match self.token {
            Token::Ident(name) => Cow::Borrowed(name),
            Token::Punct('[') => format!("[{}]", self.lexer.bracketed()?).into(),
            _ => return Err(self.unexpected("a field name")),
        };
        self.advance()?;
        let colon = self.token == Token::Punct(':');
        if colon {
            self.advance()?;
        }
        // The colon is optional only before messages and lists of messages.
        if !colon && !matches!(self.token, Token::Punct('{' | '<' | '[')) {
            return Err(self.unexpected("`:` or `{` after a field name"));
        }
        let value = self.value(depth)?;
        let is_scalar_list = match &value.value {
            Value::List(elements) => {
                elements.iter().any(|element| !matches!(element.value, Value::Object(_)))
            }
            _ => false,
        };
        if !colon && is_scalar_list {
            return Err(syntax(
                Format::Text,
                value.offset,
                "expected `:` before a list of scalars",
            ));
        }
        Ok(Member { offset, name, value })
    }

    fn value(&mut self, depth: usize) -> Result<Node<'t>> {
        let offset = self.offset;
        count_node(&mut self.nodes_left, offset)?;
        let value = match self.token {
            Token::Punct('{') => self.message('}', depth)?,
            Token::Punct('<') => self.message('>', depth)?,
            Token::Punct('[') => self.list(depth)?,
            Token::Punct('-') => self.negative()?,
            Token::Str(_) => Value::Bytes(self.strings()?),
            Token::Ident(word) => {
                self.advance()?;
                Value::Word(word)
            }
            Token::Number(_) => Value::Number(self.number()?),
            Token::Punct(_) | Token::End => return Err(self.unexpected("a value")),
        };
        Ok(Node { offset, value })
    }

    fn message(&mut self, close: char, depth: usize) -> Result<Value<'t>> {
        check_depth(depth, self.offset)?;
        self.advance()?;
        let members = self.members(&Token::Punct(close), depth + 1)?;
        self.advance()?;
        Ok(Value::Object(members))
    }

    fn list(&mut self, depth: usize) -> Result<Value<'t>> {
        check_depth(depth, self.offset)?;
        self.advance()?;
        let mut elements = Vec::new();
        while self.token != Token::Punct(']') {
            if !elements.is_empty() {
                if self.token != Token::Punct(',') {
                    return Err(self.unexpected("`,` or `]` after an element of a list"));
                }
                self.advance()?;
            }
            if self.token == Token::Punct('[') {
                return Err(self.unexpected("an element that is not a list"));
            }
            elements.push(self.value(depth + 1)?);
        }
        self.advance()?;
        Ok(Value::List(elements))
    }

    fn negative(&mut self) -> Result<Value<'t>> {
        self.advance()?;
        match self.token {
            Token::Number(_) => Ok(Value::Number(format!("-{}", self.number()?).into())),
            Token::Ident(word)
                if ["inf", "infinity"].iter().any(|inf| word.eq_ignore_ascii_case(inf)) =>
            {
                self.advance()?;
                Ok(Value::Number("-Infinity".into()))
            }
            Token::Ident(word) if word.eq_ignore_ascii_case("nan") => {
                self.advance()?;
                Ok(Value::Number("NaN".into()))
            }
            _ => Err(self.unexpected("a number after `-`")),
        }
    }

    fn number(&mut self) -> Result<Cow<'t, str>> {
        match self.advance()? {
            Token::Number(text) => Ok(text),
            _ => Err(self.unexpected("a number")),
        }
    }

    /// Concatenates adjacent strings.
    fn strings(&mut self) -> Result<Vec<u8>> {
        let mut joined = Vec::new();
        while matches!(self.token, Token::Str(_)) {
            if let Token::Str(part) = self.advance()? {
                joined.extend_from_slice(&part);
            }
        }
        Ok(joined)
    }

    /// Returns the current token and moves to the next one.
    fn advance(&mut self) -> Result<Token<'t>> {
        let (offset, token) = self.lexer.next()?;
        self.offset = offset;
        Ok(core::mem::replace(&mut self.token, token))
    }

    fn unexpected(&self, expected: &str) -> Box<Fault> {
        let found = match &self.token {
            Token::End => "the end of the text".to_owned(),
            Token::Punct(punct) => format!("`{punct}`"),
            // The field is not known, so the content may be secret.
            Token::Ident(_) => "a word".to_owned(),
            Token::Number(_) => "a number".to_owned(),
            Token::Str(_) => "a string".to_owned(),
        };
        syntax(Format::Text, self.offset, format!("expected {expected}, found {found}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text).unwrap_err().in_source("x.txtpb", Some(text)).to_string()
    }

    fn names<'n>(value: &'n Value<'_>) -> Vec<&'n str> {
        match value {
            Value::Object(members) => members.iter().map(|member| member.name.as_ref()).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn text_format_grammar_is_parsed() {
        let text = r#"
            # a comment
            name: "a" 'b'  # another
            port: -0x10; ratio: -inf, mode: STRICT
            one { two < three: [1, 2] > }
            any: { [type.googleapis.com/ a.B] { c: true } }
            list [ {}, {} ]
            empty: []
        "#;
        let node = parse(text).unwrap();
        assert_eq!(
            names(&node.value),
            ["name", "port", "ratio", "mode", "one", "any", "list", "empty"]
        );
        let Value::Object(members) = &node.value else { panic!("an object") };
        let values: Vec<_> = members.iter().map(|member| &member.value.value).collect();
        assert_eq!(values[0], &Value::Bytes(b"ab".into()));
        assert_eq!(values[1], &Value::Number("-16".into()));
        assert_eq!(values[2], &Value::Number("-Infinity".into()));
        assert_eq!(values[3], &Value::Word("STRICT"));
        assert_eq!(names(values[4]), ["two"]);
        assert_eq!(names(values[5]), ["[type.googleapis.com/a.B]"]);
        assert!(matches!(values[6], Value::List(elements) if elements.len() == 2));
        assert_eq!(values[7], &Value::List(vec![]));
    }

    #[test]
    fn text_format_errors_state_position_and_cause() {
        assert_eq!(
            error("a: 1\nb {\n  c: }"),
            "x.txtpb:3:6: invalid proto text: expected a value, found `}`"
        );
        assert_eq!(
            error("a \"x\""),
            "x.txtpb:1:3: invalid proto text: expected `:` or `{` after a field name, found a string"
        );
        assert_eq!(
            error("a {"),
            "x.txtpb:1:4: invalid proto text: expected a field name, found the end of the text"
        );
        assert_eq!(
            error("a: 1 }"),
            "x.txtpb:1:6: invalid proto text: expected a field name, found `}`"
        );
        assert_eq!(
            error("a { b: 1 >"),
            "x.txtpb:1:10: invalid proto text: expected a field name, found `>`"
        );
        assert_eq!(
            error("a: [1 2]"),
            "x.txtpb:1:7: invalid proto text: expected `,` or `]` after an element of a list, found a number"
        );
        assert_eq!(
            error("a: [[1]]"),
            "x.txtpb:1:5: invalid proto text: expected an element that is not a list, found `[`"
        );
        assert_eq!(
            error("a [1]"),
            "x.txtpb:1:3: invalid proto text: expected `:` before a list of scalars"
        );
        assert_eq!(
            error("[a b\" c] {}"),
            "x.txtpb:1:2: invalid proto text: expected a type URL and `]` after `[`"
        );
        assert_eq!(error("a: §"), "x.txtpb:1:4: invalid proto text: unexpected character '§'");
        assert_eq!(
            error("a: -b"),
            "x.txtpb:1:5: invalid proto text: expected a number after `-`, found a word"
        );
    }

    #[test]
    fn text_format_nesting_depth_is_limited() {
        assert_eq!(error(&"a{".repeat(1_000_000)), "x.txtpb:1:402: nested deeper than 200 levels");
        assert_eq!(error(&"a:<".repeat(1_000_000)), "x.txtpb:1:603: nested deeper than 200 levels");
    }
}
