//! Detection of the deprecated fields and enum values that a resource uses.
// S4.011

use core::fmt;

use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage as _,
    Value,
};

use crate::error::{ErrorKind, Fault, FormatError, Path};
use crate::print::sorted;
use crate::resource::check;
use crate::schema::Schema;

/// A deprecated field or enum value used by a resource, or a message type of an earlier version of
/// the API.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deprecated {
    /// Path in the resource, such as `filter_chains[0].use_proxy_proto`.
    pub path: String,
    /// Full name of the field, enum value or message.
    pub full_name: String,
    /// Full name of the current version of the message.
    pub current: Option<String>,
}

impl fmt::Display for Deprecated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, full_name, current } = self;
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        match current {
            None => write!(f, "`{full_name}` is deprecated"),
            Some(current) => write!(
                f,
                "`{full_name}` is a type of an earlier version of the API: use `{current}`"
            ),
        }
    }
}

/// Maximum number of uses reported for a resource.
const MOST: usize = 100;

/// Returns the deprecated fields and enum values that a resource uses, and its types of an earlier
/// version of the API, in the order of the fields, at most 100.
///
/// Messages inside an `Any` of a known type are included. A resource of an unknown type has none. In
/// a resource whose own type is of an earlier version, such as `envoy.api.v2.Cluster`, the types of
/// that version are expected, so only its own type is returned.
///
/// # Errors
///
/// Returns the errors of [`decode_check`](crate::decode_check), if the type is known.
pub fn deprecated_uses(
    schema: &Schema,
    type_url: &str,
    bytes: &[u8],
) -> Result<Vec<Deprecated>, FormatError> {
    let Some(descriptor) = schema.message_of(type_url) else { return Ok(Vec::new()) };
    let walked = || {
        // After this check everything decodes and nothing is nested too deeply.
        check::message(schema, &descriptor, bytes, &Path::Root)?;
        let message = DynamicMessage::decode(descriptor.clone(), bytes).map_err(|why| {
            let message = descriptor.full_name().to_owned();
            let kind = ErrorKind::Corrupt { message, reason: why.to_string() };
            Fault::new(None, &Path::Root, kind)
        })?;
        let mut walk = DeprecationWalk { schema, found: Vec::new(), is_earlier: false };
        walk.type_url(type_url, &descriptor, &Path::Root);
        walk.is_earlier = !walk.found.is_empty();
        walk.message(&message, &Path::Root);
        Ok(walk.found)
    };
    walked().map_err(|fault: Box<Fault>| fault.in_source("", None))
}

struct DeprecationWalk<'s> {
    schema: &'s Schema,
    found: Vec<Deprecated>,
    /// Whether the resource is of an earlier version of the API.
    is_earlier: bool,
}

impl DeprecationWalk<'_> {
    fn message(&mut self, message: &DynamicMessage, path: &Path<'_>) {
        for (field, value) in message.fields() {
            if self.found.len() >= MOST {
                return;
            }
            let path = Path::Field(path, field.name());
            let private = Path::Private(&path);
            let path = if self.schema.is_private_field(&field) { &private } else { &path };
            if is_deprecated(&field) {
                self.report(path, field.full_name(), None);
            }
            match value {
                Value::List(elements) => {
                    for (index, element) in elements.iter().enumerate() {
                        self.value(element, &field.kind(), &Path::Index(path, index));
                    }
                }
                Value::Map(entries) => {
                    let Kind::Message(entry) = field.kind() else { continue };
                    let kind = entry.map_entry_value_field().kind();
                    for (key, value) in sorted(entries) {
                        self.value(value, &kind, &Path::Key(path, &key_text(key)));
                    }
                }
                value => self.value(value, &field.kind(), path),
            }
        }
        if message.descriptor().full_name() == "google.protobuf.Any" {
            self.packed(message, path);
        }
    }

    fn value(&mut self, value: &Value, kind: &Kind, path: &Path<'_>) {
        match (value, kind) {
            (Value::Message(message), _) => self.message(message, path),
            (Value::EnumNumber(number), Kind::Enum(of)) if is_deprecated_value(of, *number) => {
                let name = of.get_value(*number).map(|it| it.full_name().to_owned());
                self.report(path, &name.unwrap_or_default(), None);
            }
            _ => {}
        }
    }

    /// Walks the message inside an `Any`, under the path of the `Any`.
    fn packed(&mut self, any: &DynamicMessage, path: &Path<'_>) {
        let (type_url, value) = (any.get_field_by_number(1), any.get_field_by_number(2));
        let type_url = type_url.as_deref().and_then(Value::as_str).unwrap_or_default();
        let value = value.as_deref().and_then(Value::as_bytes);
        // Decoding cannot fail here: it was checked before.
        if let Some(descriptor) = self.schema.message_of(type_url)
            && let Some(value) = value
            && let Ok(message) = DynamicMessage::decode(descriptor.clone(), &value[..])
        {
            if !self.is_earlier {
                self.type_url(type_url, &descriptor, path);
            }
            self.message(&message, path);
        }
    }

    /// Reports a type URL that has the previous name of its message.
    fn type_url(&mut self, type_url: &str, message: &MessageDescriptor, path: &Path<'_>) {
        let name = type_url.rsplit_once('/').map_or("", |(_, name)| name);
        if name != message.full_name() {
            self.report(path, name, Some(message.full_name()));
        }
    }

    fn report(&mut self, path: &Path<'_>, full_name: &str, current: Option<&str>) {
        if self.found.len() < MOST {
            let (path, full_name) = (path.to_string(), full_name.to_owned());
            let current = current.map(str::to_owned);
            self.found.push(Deprecated { path, full_name, current });
        }
    }
}

fn key_text(key: &prost_reflect::MapKey) -> String {
    match key {
        prost_reflect::MapKey::String(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

fn is_deprecated(field: &FieldDescriptor) -> bool {
    field.field_descriptor_proto().options.as_ref().is_some_and(|it| it.deprecated())
}

fn is_deprecated_value(of: &EnumDescriptor, number: i32) -> bool {
    let value = of.get_value(number);
    let options = value.and_then(|it| it.enum_value_descriptor_proto().options.clone());
    options.is_some_and(|it| it.deprecated())
}
