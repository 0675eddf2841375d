//! Encoder from a tree and a descriptor to protobuf bytes.
//!
//! The encoding is deterministic: fields are ordered by number, map entries by key, and defaults
//! are omitted. Two files with the same meaning give the same bytes in every process, whatever the
//! order and spelling of their keys. Content-based versions depend on that.

mod any;
mod map;
mod scalar;
mod well_known;

pub(crate) use any::TYPE_KEY;
pub(crate) use well_known::{WellKnown, of as well_known_of, read_seconds};

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

use crate::error::{ErrorKind, Fault, Path, Result, abbreviate};
use crate::faults::Faults;
use crate::options::{ParseOptions, UnknownFields};
use crate::schema::{Schema, is_private_message};
use crate::suggest;
use crate::tree::{Member, Node, Value};
use crate::wire;

use self::scalar::Scalar;

/// Maximum depth of nested messages, as in the common decoders. An `Any` starts the count anew,
/// because it is decoded separately.
pub(crate) const MAX_MESSAGE_DEPTH: usize = 100;

/// Maximum depth of nested messages, counted across `Any`s. Each `Any` may nest
/// [`MAX_MESSAGE_DEPTH`] messages anew.
pub(crate) const MAX_TOTAL_DEPTH: usize = 300;

/// Rules by which a tree is interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// The canonical JSON mapping.
    Json,
    /// The JSON mapping, except that a string field accepts some scalars that YAML reads as
    /// numbers.
    Yaml,
    /// The text format.
    Text,
}

/// Encoder of trees for one schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoder<'s> {
    pub(crate) schema: &'s Schema,
    pub(crate) dialect: Dialect,
    pub(crate) options: ParseOptions,
    /// Errors found so far. If it is set, the encoder continues after an error, and the encoding is
    /// useless if there is one.
    pub(crate) faults: Option<&'s Faults>,
}

/// Path and depth of the current message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location<'p> {
    pub(crate) path: &'p Path<'p>,
    /// Number of messages around this one, up to the nearest `Any`.
    pub(crate) depth: usize,
    /// Number of messages around this one, which a reader of the bytes has to descend through.
    pub(crate) total: usize,
}

impl<'p> Location<'p> {
    pub(crate) fn top(path: &'p Path<'p>) -> Self {
        Self { path, depth: 0, total: 0 }
    }

    fn deeper<'q>(&self, path: &'q Path<'q>, offset: usize) -> Result<Location<'q>> {
        Location { path, depth: self.depth + 1, total: self.total + 1 }.within_limits(offset)
    }

    /// Returns the position inside the `Any` at this position.
    fn in_any(self, offset: usize) -> Result<Self> {
        Location { depth: 0, total: self.total + 1, ..self }.within_limits(offset)
    }

    fn within_limits(self, offset: usize) -> Result<Self> {
        for (depth, limit) in [(self.depth, MAX_MESSAGE_DEPTH), (self.total, MAX_TOTAL_DEPTH)] {
            if depth > limit {
                return Err(Fault::new(offset, self.path, ErrorKind::TooDeep { limit }));
            }
        }
        Ok(self)
    }

    /// Creates the error for a value of the wrong kind.
    fn wrong(&self, expected: impl Into<String>, found: &Node<'_>) -> Box<Fault> {
        let (expected, kind) = (expected.into(), found.value.kind().to_owned());
        Fault::new(found.offset, self.path, ErrorKind::WrongValue { expected, found: kind })
    }

    /// Creates the error for a scalar that the field does not accept, and quotes it unless it may be
    /// secret.
    fn wrong_scalar(&self, expected: impl Into<String>, found: &Node<'_>) -> Box<Fault> {
        if self.path.is_private() {
            return self.wrong(expected, found);
        }
        let (expected, quoted) = (expected.into(), found.value.describe());
        Fault::new(found.offset, self.path, ErrorKind::WrongValue { expected, found: quoted })
    }
}

impl Location<'_> {
    /// Returns an unknown name for an error message. A name that resembles a known one is not a
    /// secret.
    fn name(&self, name: &str, resembles: bool) -> String {
        if resembles { abbreviate(name) } else { self.path.quote(name) }
    }

    /// Creates the error for a type URL. In a secret it is quoted only if it has the form of one.
    fn unknown_type(&self, offset: usize, kind: ErrorKind) -> Box<Fault> {
        let kind = if self.path.is_private() { kind.without_malformed_url() } else { kind };
        Fault::new(offset, self.path, kind)
    }
}

impl Encoder<'_> {
    /// Whether spellings that only Envoy accepts are allowed.
    fn is_lenient(&self) -> bool {
        self.options.leniency.is_envoy() && self.dialect != Dialect::Text
    }

    /// Adds an error to those found so far and continues, if all errors are wanted.
    pub(crate) fn recover(&self, result: Result<()>) -> Result<()> {
        match (result, self.faults) {
            (Err(fault), Some(faults)) => {
                faults.add(*fault);
                Ok(())
            }
            (result, _) => result,
        }
    }

    /// Number of errors found so far.
    pub(crate) fn fault_count(&self) -> usize {
        self.faults.map_or(0, Faults::count)
    }

    /// Appends the encoding of a message.
    pub(crate) fn message(
        &self,
        message: &MessageDescriptor,
        node: &Node<'_>,
        at: Location<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if self.dialect != Dialect::Text
            && let Some(well_known) = well_known::of(message)
        {
            return self.well_known(well_known, message, node, at, out);
        }
        match &node.value {
            Value::Object(members) => match any::expanded(message, members) {
                Some(expanded) if self.dialect == Dialect::Text => {
                    self.expanded_any(expanded, at, out)
                }
                _ => self.fields(message, members, |_| false, at, out),
            },
            _ => Err(at.wrong(format!("an object (`{}`)", message.full_name()), node)),
        }
    }

    /// Appends the fields of a message, ordered by number. `skip` selects keys that are not fields.
    pub(crate) fn fields(
        &self,
        message: &MessageDescriptor,
        members: &[Member<'_>],
        skip: impl Fn(&str) -> bool,
        at: Location<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let private = Path::Private(at.path);
        let at = if is_private_message(message) { Location { path: &private, ..at } } else { at };
        let mut fields: Vec<(FieldDescriptor, &Member<'_>)> = Vec::with_capacity(members.len());
        for member in members.iter().filter(|member| !skip(&member.name)) {
            let field = match self.field_of(message, member, at) {
                Err(_) if self.options.unknown_fields == UnknownFields::Skipped => continue,
                Err(fault) => {
                    self.recover(Err(fault))?;
                    continue;
                }
                Ok(field) => field,
            };
            if member.value.value != Value::Null || takes_null(&field) {
                fields.push((field, member));
            }
        }
        fields.sort_by_key(|(field, _)| field.number());
        self.recover(check_oneofs(&fields, at))?;

        for group in fields.chunk_by(|(a, _), (b, _)| a.number() == b.number()) {
            let [(field, first), ..] = group else { continue };
            if let Some((_, second)) = group.get(1)
                && !(self.dialect == Dialect::Text && (field.is_list() || field.is_map()))
            {
                let kind = ErrorKind::DuplicateField { field: field.name().to_owned() };
                self.recover(Err(Fault::new(second.offset, at.path, kind)))?;
            }
            let path = Path::Field(at.path, &first.name);
            let private = Path::Private(&path);
            let path = if self.schema.is_private_field(field) { &private } else { &path };
            let at = Location { path, ..at };
            self.recover(if field.is_map() {
                self.map(field, group, at, out)
            } else if field.is_list() {
                self.list(field, group, at, out)
            } else {
                self.singular(field, &first.value, at, out)
            })?;
        }
        Ok(())
    }

    /// Returns the field of a member by its proto name or lowerCamelCase name. Proto text allows
    /// only the proto name.
    // S4.056
    fn field_of(
        &self,
        message: &MessageDescriptor,
        member: &Member<'_>,
        at: Location<'_>,
    ) -> Result<FieldDescriptor> {
        let by_json_name = || match self.dialect {
            Dialect::Text => None,
            Dialect::Json | Dialect::Yaml => message.get_field_by_json_name(&member.name),
        };
        message.get_field_by_name(&member.name).or_else(by_json_name).ok_or_else(|| {
            let suggestion = self.nearest_field(message, &member.name);
            let kind = ErrorKind::UnknownField {
                field: at.name(&member.name, suggestion.is_some()),
                message: message.full_name().to_owned(),
                suggestion,
            };
            Fault::new(member.offset, at.path, kind)
        })
    }

    /// Suggests a field name in the spelling of the file: in JSON and YAML, a misspelt name with
    /// capitals is first compared with the JSON names.
    fn nearest_field(&self, message: &MessageDescriptor, name: &str) -> Option<String> {
        let fields: Vec<_> = message.fields().collect();
        let proto = || suggest::nearest(name, fields.iter().map(FieldDescriptor::name));
        let json = || suggest::nearest(name, fields.iter().map(FieldDescriptor::json_name));
        let camel = name.contains(|c: char| c.is_ascii_uppercase());
        match (self.dialect, camel) {
            (Dialect::Text, _) => proto().map(str::to_owned).or_else(|| {
                let meant = json()?;
                fields
                    .iter()
                    .find(|field| field.json_name() == meant)
                    .map(|field| field.name().to_owned())
            }),
            (Dialect::Json | Dialect::Yaml, true) => json().or_else(proto).map(str::to_owned),
            (Dialect::Json | Dialect::Yaml, false) => proto().or_else(json).map(str::to_owned),
        }
    }

    fn singular(
        &self,
        field: &FieldDescriptor,
        node: &Node<'_>,
        at: Location<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match field.kind() {
            Kind::Message(message) => self.nested(field.number(), &message, node, at, out),
            kind if self.skips_value(&kind, node, at) => Ok(()),
            kind => {
                let scalar = self.scalar(&kind, node, at)?;
                if field.supports_presence() || !scalar.is_default() {
                    scalar.put_field(field.number(), out);
                }
                Ok(())
            }
        }
    }

    fn list(
        &self,
        field: &FieldDescriptor,
        group: &[(FieldDescriptor, &Member<'_>)],
        at: Location<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut packed = Vec::new();
        for (index, node) in self.elements(group, at)?.into_iter().enumerate() {
            let path = Path::Index(at.path, index);
            let at = Location { path: &path, ..at };
            let kind = field.kind();
            if self.is_lenient() && node.value == Value::Null && !null_is_a_value(&kind) {
                match kind {
                    Kind::Message(_) => wire::put_len(out, field.number(), &[]),
                    _ if field.is_packed() => Scalar::default_of(&kind).put(&mut packed),
                    _ => Scalar::default_of(&kind).put_field(field.number(), out),
                }
                continue;
            }
            self.recover(match kind {
                Kind::Message(message) => self.nested(field.number(), &message, node, at, out),
                kind if self.skips_value(&kind, node, at) => Ok(()),
                kind if field.is_packed() => {
                    self.scalar(&kind, node, at).map(|it| it.put(&mut packed))
                }
                kind => self.scalar(&kind, node, at).map(|it| it.put_field(field.number(), out)),
            })?;
        }
        if !packed.is_empty() {
            wire::put_len(out, field.number(), &packed);
        }
        Ok(())
    }

    /// Returns the elements of a repeated field. JSON has one list. In proto text each occurrence
    /// is an element or a list.
    fn elements<'n, 't>(
        &self,
        group: &[(FieldDescriptor, &'n Member<'t>)],
        at: Location<'_>,
    ) -> Result<Vec<&'n Node<'t>>> {
        let mut elements = Vec::new();
        for (field, member) in group {
            match &member.value.value {
                Value::List(list) if self.is_lenient() && !is_list_itself(&field.kind()) => {
                    flatten(list, &mut elements);
                }
                Value::List(list) => elements.extend(list),
                _ if self.is_lenient() || self.dialect == Dialect::Text => {
                    elements.push(&member.value);
                }
                _ => return Err(at.wrong("a list", &member.value)),
            }
        }
        Ok(elements)
    }

    /// Appends a message as a field.
    fn nested(
        &self,
        number: u32,
        message: &MessageDescriptor,
        node: &Node<'_>,
        at: Location<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let at = at.deeper(at.path, node.offset)?;
        put_nested(number, out, |out| self.message(message, node, at, out))
    }
}

/// Flattens nested lists. The depth limit of the text bounds the recursion.
fn flatten<'n, 't>(list: &'n [Node<'t>], elements: &mut Vec<&'n Node<'t>>) {
    for node in list {
        match &node.value {
            Value::List(inner) => flatten(inner, elements),
            _ => elements.push(node),
        }
    }
}

/// Appends a length-delimited field whose content is appended by `write`. The length is inserted
/// afterwards.
fn put_nested(
    number: u32,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    wire::put_tag(out, number, 2);
    let start = out.len();
    write(out)?;
    let len = out.len() - start;
    wire::put_varint(out, len as u64);
    let prefix = out.len() - start - len;
    #[expect(clippy::indexing_slicing, reason = "`out` has only grown since `start`")]
    out[start..].rotate_right(prefix);
    Ok(())
}

/// Whether `null` is a value of the field. For other fields it means "not set".
fn takes_null(field: &FieldDescriptor) -> bool {
    !field.is_list() && null_is_a_value(&field.kind())
}

/// Whether a list may be a single value of this kind.
fn is_list_itself(kind: &Kind) -> bool {
    const NAMES: [&str; 2] = ["google.protobuf.Value", "google.protobuf.ListValue"];
    matches!(kind, Kind::Message(message) if NAMES.contains(&message.full_name()))
}

fn null_is_a_value(kind: &Kind) -> bool {
    match kind {
        Kind::Message(message) => message.full_name() == "google.protobuf.Value",
        Kind::Enum(enumeration) => enumeration.full_name() == "google.protobuf.NullValue",
        _ => false,
    }
}

fn check_oneofs(fields: &[(FieldDescriptor, &Member<'_>)], at: Location<'_>) -> Result<()> {
    for (i, (field, member)) in fields.iter().enumerate() {
        let Some(oneof) = field.containing_oneof() else { continue };
        let earlier = fields.iter().take(i).find(|(earlier, _)| {
            earlier.number() != field.number()
                && earlier.containing_oneof().as_ref() == Some(&oneof)
        });
        if let Some((earlier, _)) = earlier {
            let kind = ErrorKind::OneofConflict {
                oneof: oneof.name().to_owned(),
                first: earlier.name().to_owned(),
                second: field.name().to_owned(),
            };
            return Err(Fault::new(member.offset, at.path, kind));
        }
    }
    Ok(())
}
