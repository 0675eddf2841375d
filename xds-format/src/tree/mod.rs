//! Parsers of JSON, YAML and proto text into one tree of values with their positions in the text.
//!
//! A tree, unlike a streaming deserializer, gives every error its line, column and field path, even
//! an error of meaning. It also lets the encoder sort fields and map entries.

pub(crate) mod json;
pub(crate) mod lexer;
pub(crate) mod text;
pub(crate) mod yaml;

use std::borrow::Cow;
use std::collections::HashSet;

use crate::error::{ErrorKind, Fault, Path, abbreviate};
use crate::format::Format;
use crate::path::REDACTED;

/// Maximum depth of lists and objects in a text. It is twice the limit for messages, because every
/// second level can be a list, so a message within its own limit never reaches it. It bounds every
/// recursion of this crate over a tree.
pub(crate) const MAX_DEPTH: usize = 200;

/// Maximum number of values in one text. 100,000 real clusters have about six million.
pub(crate) const MAX_NODES: usize = 20_000_000;

/// A value and the byte offset where it begins. A large file has millions of small objects, so
/// their vectors are shrunk when complete, which halves the size of the tree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node<'t> {
    pub(crate) offset: usize,
    pub(crate) value: Value<'t>,
}

/// A value of JSON, YAML or proto text. Scalars stay text, because their type depends on the field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'t> {
    /// From JSON or YAML.
    Null,
    /// From JSON or YAML.
    Bool(bool),
    /// A decimal number, with optional sign, fraction and exponent. YAML and proto text also have
    /// `Infinity`, `-Infinity` and `NaN`.
    Number(Cow<'t, str>),
    /// From JSON or YAML.
    String(Cow<'t, str>),
    /// A string of proto text, which may contain any bytes.
    Bytes(Vec<u8>),
    /// A bare word of proto text: an enum value or a bool.
    Word(&'t str),
    List(Vec<Node<'t>>),
    /// An object or message. Keys are unique in JSON and YAML. Proto text repeats the name of a
    /// repeated field.
    Object(Vec<Member<'t>>),
}

/// One `key: value` pair of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member<'t> {
    /// Byte offset of the key.
    pub(crate) offset: usize,
    pub(crate) name: Cow<'t, str>,
    pub(crate) value: Node<'t>,
}

impl Value<'_> {
    /// Describes the value for an error message, without its content, which may be secret.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) | Self::Bytes(_) => "a string",
            Self::Word(_) => "a word",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// Describes the value for an error message, with the content of a scalar.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Bool(value) => format!("the boolean {value}"),
            Self::Number(text) => format!("the number {}", abbreviate(text)),
            Self::String(text) => format!("the string {:?}", abbreviate(text)),
            Self::Bytes(bytes) => match core::str::from_utf8(bytes) {
                Ok(text) => format!("the string {:?}", abbreviate(text)),
                Err(_) => "a string of bytes".to_owned(),
            },
            Self::Word(word) => format!("`{}`", abbreviate(word)),
            Self::Null | Self::List(_) | Self::Object(_) => self.kind().to_owned(),
        }
    }
}

/// Returns the first member with the given name.
pub(crate) fn member<'n, 't>(members: &'n [Member<'t>], name: &str) -> Option<&'n Member<'t>> {
    members.iter().find(|member| member.name == name)
}

/// Counts one value against the limit of a text.
pub(crate) fn count_node(left: &mut usize, offset: usize) -> Result<(), Box<Fault>> {
    *left = left.checked_sub(1).ok_or_else(|| {
        Fault::new(offset, &Path::Root, ErrorKind::TooManyNodes { limit: MAX_NODES })
    })?;
    Ok(())
}

/// Rejects a list or object that is nested too deeply.
pub(crate) fn check_depth(depth: usize, offset: usize) -> Result<(), Box<Fault>> {
    if depth < MAX_DEPTH {
        return Ok(());
    }
    Err(too_deep(offset))
}

pub(crate) fn too_deep(offset: usize) -> Box<Fault> {
    Fault::new(offset, &Path::Root, ErrorKind::TooDeep { limit: MAX_DEPTH })
}

/// Rejects an object with a duplicate key, because parsers differ in which one they use.
pub(crate) fn check_unique_keys(members: &[Member<'_>]) -> Result<(), Box<Fault>> {
    let twice = if members.len() <= 16 {
        members
            .iter()
            .enumerate()
            .find(|(i, m)| members.iter().take(*i).any(|earlier| earlier.name == m.name))
    } else {
        let mut seen = HashSet::with_capacity(members.len());
        members.iter().enumerate().find(|(_, member)| !seen.insert(&member.name))
    };
    match twice {
        None => Ok(()),
        Some((_, member)) => {
            let kind = ErrorKind::DuplicateKey { key: shown_key(&member.name) };
            Err(Fault::new(member.offset, &Path::Root, kind))
        }
    }
}

/// Returns a key whose field is not known for an error message: as it is if it is spelt like a field.
/// Another one may be a part of a secret.
fn shown_key(key: &str) -> String {
    let is_like_field = key.starts_with(|c: char| c.is_ascii_lowercase() || c == '@')
        && key.bytes().skip(1).all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_like_field { abbreviate(key) } else { REDACTED.to_owned() }
}

pub(crate) fn syntax(format: Format, offset: usize, reason: impl Into<String>) -> Box<Fault> {
    Fault::new(offset, &Path::Root, ErrorKind::Syntax { format, reason: reason.into() })
}
