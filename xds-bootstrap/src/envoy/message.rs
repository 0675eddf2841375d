//! Reader of protobuf messages in the JSON form that Envoy accepts: two spellings of each field
//! name, `null` for a field that is not set, and more spellings of values than canonical JSON. It
//! corresponds to `Leniency::Envoy` of `xds-format`.

use serde_json::Value;

use crate::{
    error::{BootstrapError, ErrorKind},
    json::Field,
};

/// A message whose fields are known and unique.
pub(crate) struct Message<'v> {
    field: Field<'v>,
}

impl<'v> Message<'v> {
    /// Reads an object as a message with the `known` fields, given by their proto names.
    pub(crate) fn read(field: Field<'v>, known: &[&str]) -> Result<Self, BootstrapError> {
        for (key, entry) in field.entries()? {
            let Some(name) = known.iter().find(|&&name| name == key || is_camel_case(key, name))
            else {
                return Err(entry.error(ErrorKind::UnknownField));
            };
            if *name != key && field.get(name).is_some() {
                return Err(entry.error(ErrorKind::TwoSpellings((*name).into())));
            }
        }
        Ok(Self { field })
    }

    /// Reads an object as a message, ignoring unknown fields.
    pub(crate) fn open(field: Field<'v>) -> Result<Self, BootstrapError> {
        field.object()?;
        Ok(Self { field })
    }

    /// Returns a field by its proto name, if it is set.
    pub(crate) fn get(&self, name: &str) -> Option<Field<'v>> {
        self.field
            .get(name)
            .or_else(|| self.field.get(&to_camel_case(name)))
            .filter(|field| !field.value.is_null())
    }

    pub(crate) fn require(&self, name: &str) -> Result<Field<'v>, BootstrapError> {
        self.get(name).ok_or_else(|| self.missing(name))
    }

    pub(crate) fn missing(&self, name: &str) -> BootstrapError {
        BootstrapError::new(self.field.path_of(name), ErrorKind::Missing)
    }

    /// Returns the field among `names` that is set, if any. More than one is an error.
    pub(crate) fn one_of(
        &self,
        names: &[&'static str],
    ) -> Result<Option<(&'static str, Field<'v>)>, BootstrapError> {
        let mut found: Option<(&'static str, Field<'v>)> = None;
        for &name in names {
            let Some(field) = self.get(name) else { continue };
            if let Some((other, _)) = found {
                return Err(field.error(ErrorKind::Excludes(other)));
            }
            found = Some((name, field));
        }
        Ok(found)
    }

    pub(crate) fn string(&self, name: &str) -> Result<String, BootstrapError> {
        self.get(name).map_or_else(|| Ok(String::new()), |field| field.string().map(String::from))
    }

    /// Returns the elements of a repeated field; none if it is not set. A single element may lack
    /// the list around it, as in some of Envoy's examples.
    pub(crate) fn elements(&self, name: &str) -> Result<Vec<Field<'v>>, BootstrapError> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(field) if !field.value.is_array() => Ok(vec![field]),
            Some(field) => Ok(field.elements()?.collect()),
        }
    }

    pub(crate) fn error(&self, kind: ErrorKind) -> BootstrapError {
        self.field.error(kind)
    }
}

/// Reads an enum value, given by its name in any case, or by its number, which may be a string.
pub(crate) fn read_enum<T: Copy>(
    field: &Field<'_>,
    values: &[(&'static str, u64, T)],
    known: &'static str,
) -> Result<T, BootstrapError> {
    let found = match field.value {
        Value::String(name) => values.iter().find(|(known, number, _)| {
            known.eq_ignore_ascii_case(name) || name.trim_ascii().parse() == Ok(*number)
        }),
        Value::Number(number) => {
            let number = number.as_u64();
            values.iter().find(|&&(_, known, _)| number == Some(known))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            return Err(field.wrong_type("the name or number of an enum value"));
        }
    };
    found.map(|&(_, _, value)| value).ok_or_else(|| field.error(ErrorKind::UnknownEnumValue(known)))
}

/// Reads a boolean, which may be a string.
pub(crate) fn read_bool(field: &Field<'_>) -> Result<bool, BootstrapError> {
    let Value::String(text) = unwrapped(field.value) else {
        return Field { value: unwrapped(field.value), path: field.path.clone() }.boolean();
    };
    let is_one_of = |words: [&str; 5]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    match text.as_str() {
        _ if is_one_of(["true", "t", "yes", "y", "1"]) => Ok(true),
        _ if is_one_of(["false", "f", "no", "n", "0"]) => Ok(false),
        _ => Err(field.wrong_type("a boolean")),
    }
}

/// Returns the value of a wrapper in message form; other values are returned unchanged.
fn unwrapped(value: &Value) -> &Value {
    match value {
        Value::Object(members) if members.len() == 1 => members.get("value").unwrap_or(value),
        _ => value,
    }
}

/// Reads an unsigned number, which may be a string.
pub(crate) fn read_u32(field: &Field<'_>) -> Result<u32, BootstrapError> {
    let number = match unwrapped(field.value) {
        Value::Number(number) => number.as_u64().or_else(|| {
            // Proto3 JSON allows an integer in any notation.
            let number = number.as_f64()?;
            (number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number))
                .then_some(number as u64)
        }),
        Value::String(text) => match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        },
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            return Err(field.wrong_type("a number"));
        }
    };
    number
        .and_then(|number| u32::try_from(number).ok())
        .ok_or_else(|| field.error(ErrorKind::InvalidValue("must be a 32-bit unsigned integer")))
}

/// Reads a finite number greater than zero.
pub(crate) fn read_positive(field: &Field<'_>) -> Result<f64, BootstrapError> {
    let number = match unwrapped(field.value) {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            return Err(field.wrong_type("a number"));
        }
    };
    number
        .filter(|number| number.is_finite() && *number > 0.0)
        .ok_or_else(|| field.error(ErrorKind::InvalidValue("must be a number greater than 0")))
}

fn is_camel_case(key: &str, name: &str) -> bool {
    key == to_camel_case(name)
}

fn to_camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = String::from(words.next().unwrap_or_default());
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}
