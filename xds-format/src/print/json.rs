//! Printer of canonical proto3 JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, ReflectMessage as _, Value,
};
use serde_json::{Map, Number, Value as Json};

use super::redact::Redactor;
use super::{
    FieldNames, PrintOptions, Privacy, REDACTED, Result, Typed, UNKNOWN_TYPE, fields, sorted,
    unpack,
};
use crate::encode::{TYPE_KEY, WellKnown, well_known_of};
use crate::error::{ErrorKind, Fault, Path};
use crate::schema::Schema;
use crate::time::{Seconds, is_duration, print_duration, print_timestamp};

const VALUE_KEY: &str = "value";

/// Bound of the integers that a double represents exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

pub(crate) struct JsonPrinter<'s> {
    schema: &'s Schema,
    field_names: FieldNames,
    redactor: Redactor<'s>,
}

impl<'s> JsonPrinter<'s> {
    pub(crate) fn new(schema: &'s Schema, options: &PrintOptions) -> Self {
        let redactor = Redactor::new(schema, options.redaction);
        Self { schema, field_names: options.field_names, redactor }
    }

    /// Converts a resource, with its `@type`.
    pub(crate) fn typed(&self, typed: &Typed<'_>) -> Result<Json> {
        self.any(typed, Privacy::Public)
    }

    pub(crate) fn message(&self, message: &DynamicMessage, privacy: Privacy) -> Result<Json> {
        match well_known_of(&message.descriptor()) {
            Some(which) => self.well_known(which, message, privacy),
            None => Ok(Json::Object(self.fields(message, privacy)?)),
        }
    }

    fn fields(&self, message: &DynamicMessage, privacy: Privacy) -> Result<Map<String, Json>> {
        let privacy = self.redactor.within(message, privacy);
        let message = self.redactor.prepare(message);
        let mut object = Map::new();
        for (field, value) in fields(&message) {
            let name = match self.field_names {
                FieldNames::Proto => field.name(),
                FieldNames::Json => field.json_name(),
            };
            object.insert(name.to_owned(), self.field(&field, &value, privacy)?);
        }
        Ok(object)
    }

    fn field(&self, field: &FieldDescriptor, value: &Value, privacy: Privacy) -> Result<Json> {
        let hidden = self.redactor.hides(field, privacy);
        let kind = match field.kind() {
            Kind::Message(entry) if field.is_map() => entry.map_entry_value_field().kind(),
            kind => kind,
        };
        let one = |value: &Value| {
            if hidden { Ok(Json::from(REDACTED)) } else { self.value(&kind, value, privacy) }
        };
        match value {
            Value::List(elements) => elements.iter().map(one).collect(),
            Value::Map(map) => {
                let entries =
                    sorted(map).into_iter().map(|(key, value)| Ok((key_text(key), one(value)?)));
                Ok(Json::Object(entries.collect::<Result<_>>()?))
            }
            value => one(value),
        }
    }

    fn value(&self, kind: &Kind, value: &Value, privacy: Privacy) -> Result<Json> {
        Ok(match value {
            Value::Bool(value) => (*value).into(),
            Value::I32(value) => (*value).into(),
            Value::U32(value) => (*value).into(),
            // Most readers store JSON numbers as doubles.
            Value::I64(value) => value.to_string().into(),
            Value::U64(value) => value.to_string().into(),
            Value::F32(value) => float(f64::from(*value), &value.to_string()),
            Value::F64(value) => float(*value, &value.to_string()),
            Value::String(value) => value.as_str().into(),
            Value::Bytes(value) => STANDARD.encode(value).into(),
            Value::EnumNumber(number) => match kind {
                Kind::Enum(enumeration) => enum_value(enumeration, *number),
                _ => (*number).into(),
            },
            Value::Message(message) => self.message(message, privacy)?,
            Value::List(_) | Value::Map(_) => return Err(unprintable("a list inside a list")),
        })
    }

    fn any(&self, typed: &Typed<'_>, privacy: Privacy) -> Result<Json> {
        let mut object = Map::new();
        match typed {
            Typed::Nothing => {}
            Typed::Unknown(type_url, value) => {
                object.insert(TYPE_KEY.to_owned(), (*type_url).into());
                let value = if self.redactor.hides_unknown(privacy) {
                    REDACTED.to_owned()
                } else {
                    STANDARD.encode(value)
                };
                object.insert(UNKNOWN_TYPE.to_owned(), value.into());
            }
            Typed::Known(type_url, message) => {
                object.insert(TYPE_KEY.to_owned(), (*type_url).into());
                if well_known_of(&message.descriptor()).is_some() {
                    object.insert(VALUE_KEY.to_owned(), self.message(message, privacy)?);
                } else {
                    object.extend(self.fields(message, privacy)?);
                }
            }
        }
        Ok(Json::Object(object))
    }

    fn well_known(
        &self,
        which: WellKnown,
        message: &DynamicMessage,
        privacy: Privacy,
    ) -> Result<Json> {
        match which {
            WellKnown::Any => self.any(&unpack(self.schema, message)?, privacy),
            WellKnown::Duration => {
                let duration = seconds(message);
                let text = is_duration(duration).then(|| print_duration(duration));
                Ok(text.ok_or_else(|| unprintable("a duration out of range"))?.into())
            }
            WellKnown::Timestamp => {
                let text = print_timestamp(seconds(message));
                Ok(text.ok_or_else(|| unprintable("a timestamp out of range"))?.into())
            }
            WellKnown::FieldMask => {
                let paths = list(message, 1);
                let paths: Vec<_> =
                    paths.iter().filter_map(Value::as_str).map(camel_case).collect();
                Ok(paths.join(",").into())
            }
            WellKnown::Struct => {
                let value = message.get_field_by_number(1);
                let Some(Value::Map(map)) = value.as_deref() else {
                    return Ok(Json::Object(Map::new()));
                };
                let entries = sorted(map)
                    .into_iter()
                    .map(|(key, value)| Ok((key_text(key), self.inner(value, privacy)?)));
                Ok(Json::Object(entries.collect::<Result<_>>()?))
            }
            WellKnown::ListValue => {
                list(message, 1).iter().map(|value| self.inner(value, privacy)).collect()
            }
            WellKnown::Value => match message.fields().next() {
                None | Some((_, Value::EnumNumber(_))) => Ok(Json::Null),
                Some((_, Value::F64(number))) if is_whole(*number) => Ok((*number as i64).into()),
                Some((field, value)) => self.value(&field.kind(), value, privacy),
            },
            WellKnown::Wrapper => match message.descriptor().get_field(1) {
                Some(field) => self.value(&field.kind(), &message.get_field(&field), privacy),
                None => Err(unprintable("a wrapper without a value")),
            },
        }
    }

    fn inner(&self, value: &Value, privacy: Privacy) -> Result<Json> {
        match value {
            Value::Message(message) => self.message(message, privacy),
            _ => Err(unprintable("a `google.protobuf.Value` that is not a message")),
        }
    }
}

/// Whether a number equals an exact integer. Negative zero does not, because integers have only one
/// zero.
fn is_whole(number: f64) -> bool {
    let is_negative_zero = number == 0.0 && number.is_sign_negative();
    number.fract() == 0.0 && number.abs() < EXACT && !is_negative_zero
}

/// Converts a float to the shortest number that reads back the same. `text` is the shortest decimal
/// form in the original width.
fn float(value: f64, text: &str) -> Json {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    text.parse().ok().and_then(Number::from_f64).map_or_else(|| text.into(), Json::Number)
}

fn enum_value(enumeration: &EnumDescriptor, number: i32) -> Json {
    match enumeration.get_value(number) {
        _ if enumeration.full_name() == "google.protobuf.NullValue" => Json::Null,
        Some(value) => value.name().into(),
        None => number.into(),
    }
}

fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(value) => value.to_string(),
        MapKey::I32(value) => value.to_string(),
        MapKey::I64(value) => value.to_string(),
        MapKey::U32(value) => value.to_string(),
        MapKey::U64(value) => value.to_string(),
        MapKey::String(value) => value.clone(),
    }
}

fn seconds(message: &DynamicMessage) -> Seconds {
    let field = |number| message.get_field_by_number(number);
    Seconds {
        seconds: field(1).and_then(|value| value.as_i64()).unwrap_or_default(),
        nanos: field(2).and_then(|value| value.as_i32()).unwrap_or_default(),
    }
}

fn list(message: &DynamicMessage, number: u32) -> Vec<Value> {
    match message.get_field_by_number(number).map(std::borrow::Cow::into_owned) {
        Some(Value::List(elements)) => elements,
        _ => Vec::new(),
    }
}

fn camel_case(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut upper = false;
    for c in path.chars() {
        match c {
            '_' => upper = true,
            c if core::mem::take(&mut upper) => out.push(c.to_ascii_uppercase()),
            c => out.push(c),
        }
    }
    out
}

fn unprintable(what: &str) -> Box<Fault> {
    let kind =
        ErrorKind::WrongValue { expected: "a printable value".to_owned(), found: what.to_owned() };
    Fault::new(None, &Path::Root, kind)
}
