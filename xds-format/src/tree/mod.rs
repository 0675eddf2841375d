//! What JSON, YAML and proto text have in common before a descriptor looks at them: a tree of
//! values that remember where in the text they stand.
//!
//! Keeping the tree ourselves, instead of streaming into a deserializer, is what gives every error,
//! also those about meaning, its line, column and field path, and lets the encoder put fields and
//! map entries into one order.

pub(crate) mod json;
pub(crate) mod lexer;
pub(crate) mod text;
pub(crate) mod yaml;

use std::borrow::Cow;
use std::collections::HashSet;

use crate::error::{ErrorKind, Fault, Path, abbreviate};
use crate::format::Format;

/// How deeply lists and objects may nest in a text. Twice what messages may (every second level can
/// be a list), so that this limit only ever stops what could not be encoded anyway. All our
/// recursions are bounded by it.
pub(crate) const MAX_DEPTH: usize = 200;

/// How many values one text may have. 100,000 real clusters have about six million.
pub(crate) const MAX_NODES: usize = 20_000_000;

/// A value and the byte offset where it begins. Most objects are small and a large file has
/// millions of them, so their vectors are shrunk once they are complete: that halves the tree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node<'t> {
    pub(crate) offset: usize,
    pub(crate) value: Value<'t>,
}

/// One of the values that the three texts know. Scalars stay text: only the field they are meant
/// for knows their type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'t> {
    /// JSON and YAML.
    Null,
    /// JSON and YAML.
    Bool(bool),
    /// Decimal, perhaps with sign, fraction and exponent; YAML and text also `Infinity`,
    /// `-Infinity`, `NaN`.
    Number(Cow<'t, str>),
    /// JSON and YAML.
    String(Cow<'t, str>),
    /// A string of proto text, which may hold any bytes.
    Bytes(Vec<u8>),
    /// A bare word of proto text: an enum value or a bool.
    Word(&'t str),
    List(Vec<Node<'t>>),
    /// Keys are unique in JSON and YAML; in proto text repeated fields repeat their name.
    Object(Vec<Member<'t>>),
}

/// One `key: value` of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member<'t> {
    /// Where the key begins.
    pub(crate) offset: usize,
    pub(crate) name: Cow<'t, str>,
    pub(crate) value: Node<'t>,
}

impl Value<'_> {
    /// The value as an error message shows it.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => format!("the boolean {value}"),
            Self::Number(text) => format!("the number {}", abbreviate(text)),
            Self::String(text) => format!("the string {:?}", abbreviate(text)),
            Self::Bytes(bytes) => match core::str::from_utf8(bytes) {
                Ok(text) => format!("the string {:?}", abbreviate(text)),
                Err(_) => "a string of bytes".to_owned(),
            },
            Self::Word(word) => format!("`{}`", abbreviate(word)),
            Self::List(_) => "a list".to_owned(),
            Self::Object(_) => "an object".to_owned(),
        }
    }
}

/// The member of this name.
pub(crate) fn member<'n, 't>(members: &'n [Member<'t>], name: &str) -> Option<&'n Member<'t>> {
    members.iter().find(|member| member.name == name)
}

/// Takes one value off the budget of a text.
pub(crate) fn count_node(left: &mut usize, offset: usize) -> Result<(), Box<Fault>> {
    *left = left.checked_sub(1).ok_or_else(|| {
        Fault::new(offset, &Path::Root, ErrorKind::TooManyNodes { limit: MAX_NODES })
    })?;
    Ok(())
}

/// Refuses a list or object that opens one level too deep.
pub(crate) fn check_depth(depth: usize, offset: usize) -> Result<(), Box<Fault>> {
    if depth < MAX_DEPTH {
        return Ok(());
    }
    Err(too_deep(offset))
}

pub(crate) fn too_deep(offset: usize) -> Box<Fault> {
    Fault::new(offset, &Path::Root, ErrorKind::TooDeep { limit: MAX_DEPTH })
}

/// Refuses an object that has a key twice; which one counts differs between readers.
pub(crate) fn check_unique_keys(members: &[Member<'_>]) -> Result<(), Box<Fault>> {
    let twice = if members.len() <= 16 {
        members
            .iter()
            .enumerate()
            .find(|(i, m)| members[..*i].iter().any(|earlier| earlier.name == m.name))
    } else {
        let mut seen = HashSet::with_capacity(members.len());
        members.iter().enumerate().find(|(_, member)| !seen.insert(&member.name))
    };
    match twice {
        None => Ok(()),
        Some((_, member)) => {
            let kind = ErrorKind::DuplicateKey { key: abbreviate(&member.name) };
            Err(Fault::new(member.offset, &Path::Root, kind))
        }
    }
}

pub(crate) fn syntax(format: Format, offset: usize, reason: impl Into<String>) -> Box<Fault> {
    Fault::new(offset, &Path::Root, ErrorKind::Syntax { format, reason: reason.into() })
}
