//! Recognition of the shapes of JSON and YAML files.

use super::Result;
use super::collector::{Collector, Place};

use crate::encode::{Dialect, Encoder, Location, TYPE_KEY};
use crate::error::{ErrorKind, Fault, Path};
use crate::faults::Faults;
use crate::format::Format;
use crate::options::ParseOptions;
use crate::schema::{DISCOVERY_RESPONSE, Schema};
use crate::tree::{Member, Node, Value, member, syntax};

pub(super) const RESOURCES: &str = "resources";

/// Reads all documents of a file.
pub(crate) fn documents<'s>(
    schema: &'s Schema,
    dialect: Dialect,
    options: ParseOptions,
    faults: Option<&'s Faults>,
    nodes: &[Node<'_>],
    collector: &mut Collector<'s>,
) -> Result<()> {
    let mut shapes = Shapes { encoder: Encoder { schema, dialect, options, faults }, collector };
    // Empty YAML documents (before the first `---`, between two, after the last) are null.
    let documents: Vec<_> = nodes.iter().filter(|node| node.value != Value::Null).collect();
    if documents.is_empty() {
        return Err(Fault::new(None, &Path::Root, ErrorKind::Empty));
    }
    documents.into_iter().try_for_each(|node| {
        let read = shapes.document(node);
        shapes.encoder.recover(read)
    })
}

/// Returns the only document of a text. Empty documents are ignored.
pub(crate) fn only(mut nodes: Vec<Node<'_>>) -> Result<Node<'_>> {
    nodes.retain(|node| node.value != Value::Null);
    match (nodes.pop(), nodes.first()) {
        (Some(node), None) => Ok(node),
        (None, _) => Err(Fault::new(None, &Path::Root, ErrorKind::Empty)),
        (Some(last), Some(_)) => {
            Err(syntax(Format::Yaml, last.offset, "expected only one document"))
        }
    }
}

struct Shapes<'c, 's> {
    encoder: Encoder<'s>,
    collector: &'c mut Collector<'s>,
}

impl Shapes<'_, '_> {
    fn document(&mut self, node: &Node<'_>) -> Result<()> {
        self.collector.no_response();
        match &node.value {
            Value::List(elements) => self.list(elements, &Path::Root),
            Value::Object(members) if is_response(members) => self.response(members, node),
            Value::Object(members) if member(members, TYPE_KEY).is_some() => {
                self.resource(node, &Path::Root)
            }
            other => {
                let is_of_kubernetes = |members: &[Member<'_>]| {
                    ["apiVersion", "kind"].iter().all(|it| member(members, it).is_some())
                };
                let found = match other {
                    Value::Object(members) if is_of_kubernetes(members) => {
                        "an object of Kubernetes (`apiVersion`, `kind`)".to_owned()
                    }
                    Value::Object(_) => "an object with neither".to_owned(),
                    other => other.kind().to_owned(),
                };
                Err(Fault::new(node.offset, &Path::Root, ErrorKind::UnexpectedShape { found }))
            }
        }
    }

    fn response(&mut self, members: &[Member<'_>], node: &Node<'_>) -> Result<()> {
        let message = self
            .encoder
            .schema
            .require(DISCOVERY_RESPONSE)
            .map_err(|kind| Fault::new(node.offset, &Path::Root, kind))?;
        let mut head = Vec::new();
        let skip = |name: &str| name == RESOURCES || name == TYPE_KEY;
        self.encoder.fields(&message, members, skip, Location::top(&Path::Root), &mut head)?;
        let place = Place { offset: Some(node.offset), path: &Path::Root };
        self.encoder.recover(self.collector.response(&head, place))?;

        let path = Path::Field(&Path::Root, RESOURCES);
        match member(members, RESOURCES).map(|member| &member.value) {
            None | Some(Node { value: Value::Null, .. }) => Ok(()),
            Some(Node { value: Value::List(elements), .. }) => self.list(elements, &path),
            Some(node) if self.encoder.options.leniency.is_envoy() => {
                self.resource(node, &Path::Index(&path, 0))
            }
            Some(other) => {
                let kind = ErrorKind::WrongValue {
                    expected: "a list".to_owned(),
                    found: other.value.kind().to_owned(),
                };
                Err(Fault::new(other.offset, &path, kind))
            }
        }
    }

    fn list(&mut self, elements: &[Node<'_>], path: &Path<'_>) -> Result<()> {
        elements
            .iter()
            .enumerate()
            .try_for_each(|(i, element)| self.resource(element, &Path::Index(path, i)))
    }

    fn resource(&mut self, node: &Node<'_>, path: &Path<'_>) -> Result<()> {
        let before = self.encoder.fault_count();
        let read = self.encoder.typed_object(node, Location::top(path)).and_then(|resource| {
            if self.encoder.fault_count() > before {
                return Ok(());
            }
            let place = Place { offset: Some(node.offset), path };
            self.collector.push(resource.type_url, resource.value, place)
        });
        self.encoder.recover(read)
    }
}

/// Whether an object is a response: by its `@type`, or without one, by a key `resources`.
pub(crate) fn is_response(members: &[Member<'_>]) -> bool {
    match member(members, TYPE_KEY).map(|member| &member.value.value) {
        Some(Value::String(type_url)) => {
            type_url.rsplit_once('/').map(|(_, name)| name) == Some(DISCOVERY_RESPONSE)
        }
        Some(_) => false,
        None => member(members, RESOURCES).is_some(),
    }
}
