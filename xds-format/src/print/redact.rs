//! Detection and replacement of secret values.

use std::borrow::Cow;

use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value,
};

use super::{Privacy, REDACTED, Redaction, Typed, UnknownTypes, decode_any, unpack};
use crate::encode::TYPE_KEY;
use crate::schema::{INLINE, SECRET, Schema, TYPED_STRUCT};

const ANY: &str = "google.protobuf.Any";

/// Field numbers in `google.protobuf.Value`.
const STRING_VALUE: u32 = 3;
const STRUCT_VALUE: u32 = 5;
const LIST_VALUE: u32 = 6;
/// Field number of `fields` in `Struct` and of `values` in `ListValue`.
const CONTENT: u32 = 1;

/// Returns whether a resource may contain a secret.
///
/// Returns `true` if it has a value that [`Redaction::Hidden`] hides, has an `Any` of an unknown
/// type (whose content cannot be examined), or does not decode.
#[must_use]
pub fn has_sensitive_fields(schema: &Schema, type_url: &str, bytes: &[u8]) -> bool {
    let redactor = Redactor::new(schema, Redaction::Hidden);
    match decode_any(schema, type_url, bytes, UnknownTypes::Refused) {
        Ok(Typed::Known(_, message)) => redactor.hides_any_of(&message, Privacy::Public),
        Ok(Typed::Nothing) => false,
        Ok(Typed::Unknown(..)) | Err(_) => true,
    }
}

/// Redaction rules, shared by the printers.
pub(crate) struct Redactor<'s> {
    schema: &'s Schema,
    redaction: Redaction,
}

impl<'s> Redactor<'s> {
    pub(crate) fn new(schema: &'s Schema, redaction: Redaction) -> Self {
        Self { schema, redaction }
    }

    /// Whether secrets are shown.
    pub(crate) fn shows_all(&self) -> bool {
        self.redaction == Redaction::Shown
    }

    /// Returns the privacy inside a message.
    pub(crate) fn within(&self, message: &DynamicMessage, outside: Privacy) -> Privacy {
        privacy_within(&message.descriptor(), outside)
    }

    /// Whether the value of a field is hidden.
    pub(crate) fn hides(&self, field: &FieldDescriptor, privacy: Privacy) -> bool {
        self.redaction == Redaction::Hidden
            && (self.schema.is_sensitive(field)
                || (privacy == Privacy::Secret && field.full_name().starts_with(INLINE)))
    }

    /// Whether the content of an unknown type is hidden. Inside a secret it may be a key.
    pub(crate) fn hides_unknown(&self, privacy: Privacy) -> bool {
        self.redaction == Redaction::Hidden && privacy == Privacy::Secret
    }

    /// Whether any value inside a message is hidden.
    fn hides_any_of(&self, message: &DynamicMessage, outside: Privacy) -> bool {
        if message.descriptor().full_name() == ANY {
            return match unpack(self.schema, message) {
                Ok(Typed::Known(_, inner)) => self.hides_any_of(&inner, outside),
                Ok(Typed::Nothing) => false,
                Ok(Typed::Unknown(..)) | Err(_) => true,
            };
        }
        let privacy = self.within(message, outside);
        let inside = |value: &Value| match value {
            Value::Message(inner) => self.hides_any_of(inner, privacy),
            _ => false,
        };
        *self.prepare(message) != *message
            || message.fields().any(|(field, value)| {
                self.hides(&field, privacy)
                    || match value {
                        Value::List(elements) => elements.iter().any(inside),
                        Value::Map(entries) => entries.values().any(inside),
                        value => inside(value),
                    }
            })
    }

    /// Hides the secrets in a `TypedStruct`, which has the fields of its type by name. Other
    /// messages are returned unchanged.
    pub(crate) fn prepare<'m>(&self, message: &'m DynamicMessage) -> Cow<'m, DynamicMessage> {
        if self.redaction == Redaction::Shown
            || !TYPED_STRUCT.contains(&message.descriptor().full_name())
        {
            return Cow::Borrowed(message);
        }
        let type_url = message.get_field_by_name("type_url");
        let inner =
            type_url.as_deref().and_then(Value::as_str).and_then(|url| self.schema.message_of(url));
        let mut message = message.clone();
        if let (Some(inner), Some(Value::Message(fields))) =
            (inner, message.get_field_by_name_mut("value"))
        {
            self.redact_struct(&inner, fields, Privacy::Public);
        }
        Cow::Owned(message)
    }

    /// Hides secrets in a `Struct` that represents a `message`.
    fn redact_struct(
        &self,
        message: &MessageDescriptor,
        fields: &mut DynamicMessage,
        privacy: Privacy,
    ) {
        let privacy = privacy_within(message, privacy);
        for (key, value) in entries(fields) {
            let MapKey::String(name) = key else { continue };
            let field =
                message.get_field_by_name(name).or_else(|| message.get_field_by_json_name(name));
            match (field, value) {
                (Some(field), Value::Message(value)) if self.hides(&field, privacy) => hide(value),
                (Some(field), Value::Message(value)) => {
                    self.redact_value(&field.kind(), value, privacy)
                }
                _ => {}
            }
        }
    }

    /// Hides secrets in a value of type `kind`, or in a list of such values.
    fn redact_value(&self, kind: &Kind, value: &mut DynamicMessage, privacy: Privacy) {
        let Kind::Message(message) = kind else { return };
        if let Some(Value::Message(list)) = set(value, LIST_VALUE) {
            for element in list
                .get_field_by_number_mut(CONTENT)
                .and_then(Value::as_list_mut)
                .into_iter()
                .flatten()
            {
                if let Value::Message(element) = element {
                    self.redact_value(kind, element, privacy);
                }
            }
        }
        let Some(Value::Message(fields)) = set(value, STRUCT_VALUE) else { return };
        if message.is_map_entry() {
            for (_, value) in entries(fields) {
                if let Value::Message(value) = value {
                    self.redact_value(&message.map_entry_value_field().kind(), value, privacy);
                }
            }
            return;
        }
        // An `Any` has its type among its fields.
        let inner = match message.full_name() {
            ANY => type_of(fields).and_then(|type_url| self.schema.message_of(&type_url)),
            _ => Some(message.clone()),
        };
        if let Some(inner) = inner {
            self.redact_struct(&inner, fields, privacy);
        }
    }
}

fn privacy_within(message: &MessageDescriptor, outside: Privacy) -> Privacy {
    if message.full_name() == SECRET { Privacy::Secret } else { outside }
}

fn entries(fields: &mut DynamicMessage) -> impl Iterator<Item = (&MapKey, &mut Value)> {
    fields.get_field_by_number_mut(CONTENT).and_then(Value::as_map_mut).into_iter().flatten()
}

fn type_of(fields: &DynamicMessage) -> Option<String> {
    let fields = fields.get_field_by_number(CONTENT)?;
    let Value::Message(value) = fields.as_map()?.get(&MapKey::String(TYPE_KEY.to_owned()))? else {
        return None;
    };
    Some(value.get_field_by_number(STRING_VALUE)?.as_str()?.to_owned())
}

/// Returns a field of a `Value` if it is set. `get_field_by_number_mut` alone would set it.
fn set(value: &mut DynamicMessage, number: u32) -> Option<&mut Value> {
    if value.has_field_by_number(number) { value.get_field_by_number_mut(number) } else { None }
}

fn hide(value: &mut DynamicMessage) {
    value.set_field_by_number(STRING_VALUE, Value::String(REDACTED.to_owned()));
}
