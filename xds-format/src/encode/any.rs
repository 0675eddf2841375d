//! Encoding of `google.protobuf.Any` by its type URL. An unknown type is an error.
// S4.050

use prost_reflect::MessageDescriptor;

use super::{Encoder, Location, Result, put_nested, well_known};
use crate::error::{ErrorKind, Fault, Path};
use crate::tree::{Member, Node, Value, member};
use crate::wire;

/// Field numbers of `Any.type_url` and `Any.value`.
const TYPE_URL: u32 = 1;
const VALUE: u32 = 2;

/// JSON key of the type URL.
pub(crate) const TYPE_KEY: &str = "@type";
/// JSON key of the value of a type whose JSON form is not a plain object.
const VALUE_KEY: &str = "value";

/// Type URL and encoded value of a JSON object with `@type`.
#[derive(Debug)]
pub(crate) struct TypedObject<'n> {
    pub(crate) type_url: &'n str,
    pub(crate) value: Vec<u8>,
}

impl Encoder<'_> {
    /// Encodes the message in a JSON object with `@type`.
    pub(crate) fn typed_object<'n>(
        &self,
        node: &'n Node<'_>,
        at: Location<'_>,
    ) -> Result<TypedObject<'n>> {
        let path = at.path;
        let Value::Object(members) = &node.value else {
            return Err(at.wrong(format!("an object with `{TYPE_KEY}`"), node));
        };
        let Some(type_member) = member(members, TYPE_KEY) else {
            return Err(Fault::new(node.offset, path, ErrorKind::MissingType));
        };
        let Value::String(type_url) = &type_member.value.value else {
            let path = Path::Field(path, TYPE_KEY);
            return Err(Location { path: &path, ..at }.wrong("a type URL", &type_member.value));
        };
        let message = self.schema.require_url(type_url).map_err(|kind| {
            let path = Path::Field(path, TYPE_KEY);
            Location { path: &path, ..at }.unknown_type(type_member.value.offset, kind)
        })?;

        let mut value = Vec::new();
        if well_known::of(&message).is_some() {
            self.well_known_in_any(&message, node, members, at, &mut value)?;
        } else {
            // Some writers treat `Empty` as a type with a special JSON form, `"value": {}`. Envoy
            // does not.
            let no_value =
                message.full_name() == "google.protobuf.Empty" && holds_empty_value(members);
            let skip = |name: &str| name == TYPE_KEY || (no_value && name == VALUE_KEY);
            self.fields(&message, members, skip, at, &mut value)?;
        }
        Ok(TypedObject { type_url, value })
    }

    /// Appends an `Any` given as a JSON object with `@type`. `{}` is an empty `Any`.
    pub(crate) fn json_any(
        &self,
        node: &Node<'_>,
        at: Location<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if matches!(&node.value, Value::Object(members) if members.is_empty()) {
            return Ok(());
        }
        let TypedObject { type_url, value } = self.typed_object(node, at.in_any(node.offset)?)?;
        wire::put_len(out, TYPE_URL, type_url.as_bytes());
        if !value.is_empty() {
            wire::put_len(out, VALUE, &value);
        }
        Ok(())
    }

    /// Encodes a well-known type in an `Any`, such as
    /// `{"@type": "type.googleapis.com/google.protobuf.Duration", "value": "5s"}`.
    fn well_known_in_any(
        &self,
        message: &MessageDescriptor,
        node: &Node<'_>,
        members: &[Member<'_>],
        at: Location<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let unknown =
            members.iter().find(|member| member.name != TYPE_KEY && member.name != VALUE_KEY);
        let (None, Some(inner)) = (unknown, member(members, VALUE_KEY)) else {
            return Err(
                at.wrong(format!("an object with only `{TYPE_KEY}` and `{VALUE_KEY}`"), node)
            );
        };
        let path = Path::Field(at.path, VALUE_KEY);
        self.message(message, &inner.value, Location { path: &path, ..at }, out)
    }

    /// Appends an `Any` in [expanded form](expanded).
    pub(crate) fn expanded_any(
        &self,
        (expanded, type_url): (&Member<'_>, &str),
        at: Location<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let message = self
            .schema
            .require_url(type_url)
            .map_err(|kind| at.unknown_type(expanded.offset, kind))?;
        wire::put_len(out, TYPE_URL, type_url.as_bytes());
        let before = out.len();
        let inner = at.in_any(expanded.offset)?;
        put_nested(VALUE, out, |out| self.message(&message, &expanded.value, inner, out))?;
        // An empty value is omitted, like any default.
        if out.len() == before + 2 {
            out.truncate(before);
        }
        Ok(())
    }
}

fn holds_empty_value(members: &[Member<'_>]) -> bool {
    member(members, VALUE_KEY).is_some_and(|member| member.value.value == Value::Object(Vec::new()))
}

/// Returns the only member of an `Any` in the form `[prefix/full.name] { .. }` of proto text, and the
/// type URL in its name; `None` for members of another form.
pub(crate) fn expanded<'m, 't>(
    message: &MessageDescriptor,
    members: &'m [Member<'t>],
) -> Option<(&'m Member<'t>, &'m str)> {
    let [member] = members else { return None };
    let type_url = member.name.strip_prefix('[')?.strip_suffix(']')?;
    (message.full_name() == "google.protobuf.Any").then_some((member, type_url))
}
