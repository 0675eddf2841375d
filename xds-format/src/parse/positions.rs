//! Positions of resources, and of the values in them, in a text.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

use super::marks::Marks;
use super::mentions::{Mentions, string};
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
    resources: Vec<ResourceNode<'t>>,
    /// Type of the whole text, from the header of proto text.
    header: Option<&'t str>,
    /// Resources by type and name, built by the first lookup.
    index: OnceLock<Index>,
    /// Known positions in the text, built by the first lookup.
    marks: OnceLock<Marks>,
}

/// Node that may be a resource.
#[derive(Debug)]
struct ResourceNode<'t> {
    node: Node<'t>,
    /// Strings in the message, built by the first lookup.
    mentions: OnceLock<Mentions<'t>>,
}

/// Number of the first resource of each type, without the prefix of the type URL, and name.
type Index = HashMap<String, HashMap<String, usize>>;

/// Message of a resource in the tree.
struct FoundResource<'n, 't> {
    type_name: &'n str,
    /// Name in the wrapper, if there is one.
    name: Option<Cow<'t, str>>,
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
        let resources = entries(nodes, header);
        Some(Self { text, resources, header, index: OnceLock::new(), marks: OnceLock::new() })
    }

    /// Returns the position of a value in a resource, or of the innermost value around it if there
    /// is none. `path` is a path in the resource with the proto names of the fields; an empty path
    /// means the resource itself. Returns `None` if the file does not define the resource.
    #[must_use]
    pub fn position(&self, type_url: &str, name: &str, path: &str) -> Option<Position> {
        let (_, message) = self.message(type_url, name)?;
        Some(self.position_of(descend(message, path).node.offset))
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
        let (entry, message) = self.message(type_url, name)?;
        let mentions = entry.mentions.get_or_init(|| Mentions::of(message));
        Some(self.position_of(mentions.find(target, fields).unwrap_or(message.offset)))
    }

    fn position_of(&self, offset: usize) -> Position {
        self.marks.get_or_init(|| Marks::of(self.text)).position(self.text, offset)
    }

    /// Returns a resource, and its message without wrappers.
    fn message(&self, type_url: &str, name: &str) -> Option<(&ResourceNode<'t>, &Node<'t>)> {
        let index = self.index.get_or_init(|| self.index());
        let number = index.get(last_segment(type_url))?.get(name)?;
        let entry = self.resources.get(*number)?;
        Some((entry, self.found(entry)?.message))
    }

    fn index(&self) -> Index {
        let mut index = Index::new();
        for (number, entry) in self.resources.iter().enumerate() {
            let Some(found) = self.found(entry) else { continue };
            let of_type = index.entry(last_segment(found.type_name).to_owned()).or_default();
            let mut add = |name: Cow<'_, str>| {
                of_type.entry(name.into_owned()).or_insert(number);
            };
            match found.name {
                Some(name) => add(name),
                None => own_names(found.message).for_each(add),
            }
        }
        index
    }

    fn found<'n>(&self, entry: &'n ResourceNode<'t>) -> Option<FoundResource<'n, 't>>
    where
        't: 'n,
    {
        match self.header {
            Some(type_name) if last_segment(type_name) != RESPONSE => {
                Some(FoundResource { type_name, name: None, message: &entry.node })
            }
            _ => resource(&entry.node),
        }
    }
}

/// Returns the nodes that may be resources, in the order of the text.
fn entries<'t>(nodes: Vec<Node<'t>>, header: Option<&str>) -> Vec<ResourceNode<'t>> {
    let mut entries = Vec::new();
    let mut add = |node| entries.push(ResourceNode { node, mentions: OnceLock::new() });
    let is_message = header.is_some_and(|type_name| last_segment(type_name) != RESPONSE);
    for node in nodes {
        let Node { offset, value } = node;
        match value {
            Value::List(elements) if !is_message => elements.into_iter().for_each(&mut add),
            Value::Object(members) if !is_message && is_response(&members) => {
                let lists = members.into_iter().filter(|member| member.name == RESOURCES);
                lists.for_each(|list| match list.value.value {
                    Value::List(elements) => elements.into_iter().for_each(&mut add),
                    value => add(Node { offset: list.value.offset, value }),
                });
            }
            value => add(Node { offset, value }),
        }
    }
    entries
}

const RESPONSE: &str = "envoy.service.discovery.v3.DiscoveryResponse";

fn resource<'n, 't>(node: &'n Node<'t>) -> Option<FoundResource<'n, 't>> {
    let (mut node, mut name) = (node, None);
    for _ in 0..=MOST_WRAPPERS {
        let (type_name, message) = typed(node)?;
        if last_segment(type_name) != RESOURCE_WRAPPER {
            return Some(FoundResource { type_name, name, message });
        }
        let Value::Object(members) = &message.value else { return None };
        name = member(members, "name").and_then(|it| string(&it.value)).filter(|it| !it.is_empty());
        node = &member(members, "resource")?.value;
    }
    None
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
fn own_names<'n, 't>(node: &'n Node<'t>) -> impl Iterator<Item = Cow<'t, str>> + use<'n, 't> {
    let members: &[Member<'t>] = match &node.value {
        Value::Object(members) => members,
        _ => &[],
    };
    members
        .iter()
        .filter(|it| it.name == "name" || it.name.ends_with("_name") || it.name.ends_with("Name"))
        .filter_map(|it| string(&it.value))
}

fn last_segment(type_url: &str) -> &str {
    type_url.rsplit('/').next().unwrap_or(type_url)
}
