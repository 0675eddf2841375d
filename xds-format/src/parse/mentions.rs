//! Strings in messages, such as references to other resources.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::tree::{Node, Value};

/// Strings in a message, by their text.
#[derive(Debug)]
pub(super) struct Mentions<'t>(HashMap<Cow<'t, str>, Vec<Mention<'t>>>);

/// Occurrence of a string.
#[derive(Debug)]
struct Mention<'t> {
    /// Names of the field around its message and of its own field.
    fields: [Cow<'t, str>; 2],
    /// Depth of its message.
    depth: usize,
    offset: usize,
}

impl<'t> Mentions<'t> {
    pub(super) fn of(message: &Node<'t>) -> Self {
        let mut found = HashMap::<_, Vec<_>>::new();
        mentions(message, [&Cow::Borrowed(""); 2], 0, &mut |fields, depth, node| {
            if let Some(text) = string(node) {
                let mention =
                    Mention { fields: fields.map(Cow::clone), depth, offset: node.offset };
                found.entry(text).or_default().push(mention);
            }
        });
        Self(found)
    }

    /// Returns the offset of the text `target`: the first string that equals it in one of these
    /// fields, of which earlier ones are preferred, or else the first one anywhere.
    pub(super) fn find(&self, target: &str, fields: &[&str]) -> Option<usize> {
        let mut best = None;
        for mention in self.0.get(target)? {
            let rank = rank(mention, fields);
            if best.is_none_or(|(highest, _)| rank > highest) {
                best = Some((rank, mention.offset));
            }
        }
        best.map(|(_, offset)| offset)
    }
}

/// Returns a number that is greater the better an occurrence fits the fields.
fn rank(mention: &Mention<'_>, fields: &[&str]) -> usize {
    let [parent, field] = &mention.fields;
    let is_it = |listed: &str| match listed.split_once('.') {
        Some((around, name)) => is_same(around, parent) && is_same(name, field),
        None => is_same(listed, field),
    };
    match (fields.iter().position(|listed| is_it(listed)), mention.depth) {
        (Some(at), _) => 2 + fields.len() - at,
        (None, 2..) => 2,
        (None, _) => 1,
    }
}

/// Returns the offset of the text `target` in a message, or of the message.
pub(super) fn mention_in(message: &Node<'_>, target: &str, fields: &[&str]) -> usize {
    Mentions::of(message).find(target, fields).unwrap_or(message.offset)
}

/// Function for scalars; see [`mentions`].
type Visit<'f, 'n, 't> = dyn FnMut([&Cow<'t, str>; 2], usize, &'n Node<'t>) + 'f;

/// Calls `visit` for each scalar, with the names of the field around its message and of its own
/// field, and the depth of its message. The parser bounds the depth of the recursion.
fn mentions<'n, 't>(
    node: &'n Node<'t>,
    fields: [&Cow<'t, str>; 2],
    depth: usize,
    visit: &mut Visit<'_, 'n, 't>,
) {
    match &node.value {
        Value::List(elements) => {
            elements.iter().for_each(|element| mentions(element, fields, depth, visit));
        }
        Value::Object(members) => members
            .iter()
            .for_each(|it| mentions(&it.value, [fields[1], &it.name], depth + 1, visit)),
        _ => visit(fields, depth, node),
    }
}

/// Returns the text of a string or number.
pub(super) fn string<'t>(node: &Node<'t>) -> Option<Cow<'t, str>> {
    match &node.value {
        Value::String(text) | Value::Number(text) => Some(text.clone()),
        Value::Bytes(bytes) => {
            core::str::from_utf8(bytes).ok().map(|text| Cow::Owned(text.to_owned()))
        }
        _ => None,
    }
}

/// Whether a name is that of a field with this proto name, in either spelling.
fn is_same(proto: &str, written: &str) -> bool {
    let letters = |text: &str| text.replace('_', "").to_ascii_lowercase();
    proto == written || (proto.contains('_') && letters(proto) == letters(written))
}
