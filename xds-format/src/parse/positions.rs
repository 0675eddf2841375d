//! Positions of resources, and of the values in them, in a text.

use std::borrow::Cow;

use super::shapes::{RESOURCES, is_response};
use super::text::header;
use super::utf8;
use super::yaml_file::descend;
use crate::encode::TYPE_KEY;
use crate::error::Position;
use crate::format::Format;
use crate::options::ParseOptions;
use crate::schema::RESOURCE_WRAPPER;
use crate::tree::{Member, Node, Value, json, member, text as text_tree, yaml};

/// Positions in a file of resources, for messages about resources that are valid.
///
/// ```
/// use xds_format::{Format, ParseOptions, ResourcePositions};
///
/// let file = b"\"@type\": t/envoy.config.cluster.v3.Cluster\nname: a\nconnect_timeout: 0s\n";
/// let places = ResourcePositions::parse(Format::Yaml, file, ParseOptions::envoy()).unwrap();
/// let place = places.position("t/envoy.config.cluster.v3.Cluster", "a", "connect_timeout");
/// assert_eq!(place.unwrap().to_string(), "3:18");
/// ```
#[derive(Debug)]
pub struct ResourcePositions<'t> {
    text: &'t str,
    nodes: Vec<Node<'t>>,
    /// Type of the whole text, from the header of proto text.
    header: Option<&'t str>,
}

/// Message of a resource in the tree.
struct FoundResource<'n, 't> {
    type_name: &'n str,
    /// Name in the wrapper, if there is one.
    name: Option<Cow<'n, str>>,
    message: &'n Node<'t>,
}

/// Depth to which wrappers are opened.
const MOST_WRAPPERS: usize = 2;

impl<'t> ResourcePositions<'t> {
    /// Parses a text. Returns `None` for binary input and for a text with a syntax error.
    #[must_use]
    pub fn parse(format: Format, input: &'t [u8], options: ParseOptions) -> Option<Self> {
        let text = utf8("", input).ok()?;
        let nodes = match format {
            Format::Binary => return None,
            Format::Json => vec![json::parse(text, options.leniency).ok()?],
            Format::Yaml => yaml::parse(text, options.leniency).ok()?,
            Format::Text => vec![text_tree::parse(text).ok()?],
        };
        let header = header(text).filter(|_| format == Format::Text);
        Some(Self { text, nodes, header })
    }

    /// Returns the position of a value in a resource, or of the innermost value around it if there
    /// is none. `path` is a path in the resource with the proto names of the fields; an empty path
    /// means the resource itself. Returns `None` if the file does not define the resource.
    #[must_use]
    pub fn position(&self, type_url: &str, name: &str, path: &str) -> Option<Position> {
        let message = self.message(type_url, name)?;
        Some(Position::of(self.text, descend(message, path).node.offset))
    }

    /// Returns the position of the text `target` in a resource: the first string that equals it in
    /// one of these fields, of which earlier ones are preferred, or else the first one anywhere.
    /// Fields are given by their proto names, such as `cluster`, or with the field around the
    /// message, such as `clusters.name`. Returns the position of the resource if there is no such
    /// string.
    #[must_use]
    pub fn mention(
        &self,
        type_url: &str,
        name: &str,
        target: &str,
        fields: &[&str],
    ) -> Option<Position> {
        let message = self.message(type_url, name)?;
        Some(Position::of(self.text, mention_in(message, target, fields)))
    }

    fn message(&self, type_url: &str, name: &str) -> Option<&Node<'t>> {
        let wanted = last_segment(type_url);
        let mut found = None;
        self.each(&mut |resource| {
            let is_name = |it: &str| it == name;
            let is_it = last_segment(resource.type_name) == wanted
                && match &resource.name {
                    Some(own) => is_name(own),
                    None => own_names(resource.message).any(|it| is_name(&it)),
                };
            if is_it && found.is_none() {
                found = Some(resource.message);
            }
        });
        found
    }

    /// Calls `visit` for each resource.
    fn each<'n>(&'n self, visit: &mut dyn FnMut(FoundResource<'n, 't>)) {
        for node in &self.nodes {
            match (&node.value, self.header) {
                (_, Some(type_name)) if last_segment(type_name) != RESPONSE => {
                    visit(FoundResource { type_name, name: None, message: node });
                }
                (Value::List(elements), _) => elements.iter().for_each(|it| resource(it, visit)),
                (Value::Object(members), _) if is_response(members) => {
                    let lists = members.iter().filter(|member| member.name == RESOURCES);
                    lists.for_each(|list| match &list.value.value {
                        Value::List(elements) => elements.iter().for_each(|it| resource(it, visit)),
                        _ => resource(&list.value, visit),
                    });
                }
                _ => resource(node, visit),
            }
        }
    }
}

/// Returns the offset of the text `target` in a message, or of the message.
pub(super) fn mention_in(message: &Node<'_>, target: &str, fields: &[&str]) -> usize {
    let mut best = (0, message.offset);
    mentions(message, ["", ""], 0, &mut |[parent, field], depth, node| {
        if string(node).as_deref() != Some(target) {
            return;
        }
        let is_it = |listed: &str| match listed.split_once('.') {
            Some((around, name)) => is_same(around, parent) && is_same(name, field),
            None => is_same(listed, field),
        };
        let rank = match (fields.iter().position(|listed| is_it(listed)), depth) {
            (Some(at), _) => 2 + fields.len() - at,
            (None, 2..) => 2,
            (None, _) => 1,
        };
        if rank > best.0 {
            best = (rank, node.offset);
        }
    });
    best.1
}

const RESPONSE: &str = "envoy.service.discovery.v3.DiscoveryResponse";

fn resource<'n, 't>(node: &'n Node<'t>, visit: &mut dyn FnMut(FoundResource<'n, 't>)) {
    let (mut node, mut name) = (node, None);
    for _ in 0..=MOST_WRAPPERS {
        let Some((type_name, message)) = typed(node) else { return };
        if last_segment(type_name) != RESOURCE_WRAPPER {
            return visit(FoundResource { type_name, name, message });
        }
        let Value::Object(members) = &message.value else { return };
        name = member(members, "name").and_then(|it| string(&it.value)).filter(|it| !it.is_empty());
        let Some(inner) = member(members, "resource") else { return };
        node = &inner.value;
    }
}

/// Returns type and message of an `Any`: an object with `@type`, or its form in proto text.
fn typed<'n, 't>(node: &'n Node<'t>) -> Option<(&'n str, &'n Node<'t>)> {
    let Value::Object(members) = &node.value else { return None };
    match (member(members, TYPE_KEY).map(|it| &it.value.value), members.first()) {
        (Some(Value::String(type_url)), _) => Some((type_url, node)),
        (None, Some(expanded)) => {
            let type_url = expanded.name.strip_prefix('[')?.strip_suffix(']')?;
            Some((type_url, &expanded.value))
        }
        _ => None,
    }
}

/// Returns the strings of a message that may be its name.
fn own_names<'n>(node: &'n Node<'_>) -> impl Iterator<Item = Cow<'n, str>> {
    let members: &[Member<'_>] = match &node.value {
        Value::Object(members) => members,
        _ => &[],
    };
    members
        .iter()
        .filter(|it| it.name == "name" || it.name.ends_with("_name") || it.name.ends_with("Name"))
        .filter_map(|it| string(&it.value))
}

/// Calls `visit` for each scalar, with the names of the field around its message and of its own
/// field, and the depth of its message. The parser bounds the depth of the recursion.
fn mentions<'n, 't>(
    node: &'n Node<'t>,
    fields: [&str; 2],
    depth: usize,
    visit: &mut dyn FnMut([&str; 2], usize, &'n Node<'t>),
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

fn string<'n>(node: &'n Node<'_>) -> Option<Cow<'n, str>> {
    match &node.value {
        Value::String(text) | Value::Number(text) => Some(Cow::Borrowed(text)),
        Value::Bytes(bytes) => core::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        _ => None,
    }
}

/// Whether a name is that of a field with this proto name, in either spelling.
fn is_same(proto: &str, written: &str) -> bool {
    let letters = |text: &str| text.replace('_', "").to_ascii_lowercase();
    proto == written || (proto.contains('_') && letters(proto) == letters(written))
}

fn last_segment(type_url: &str) -> &str {
    type_url.rsplit('/').next().unwrap_or(type_url)
}
