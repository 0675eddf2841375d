//! A protobuf message in the JSON form that Envoy reads: two spellings per field, `null` for what is not set, and more
//! spellings of values than the canonical form has. `xds-format` calls them `Leniency::Envoy`.

use serde_json::Value;

use crate::{
    error::{BootstrapError, ErrorKind},
    json::Field,
};

/// A message whose fields have been checked to exist, once each.
pub(crate) struct Message<'v> {
    field: Field<'v>,
}

impl<'v> Message<'v> {
    /// Takes an object as a message with the `known` fields, in proto spelling.
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

    /// A message of which only some fields are of interest.
    pub(crate) fn open(field: Field<'v>) -> Result<Self, BootstrapError> {
        field.object()?;
        Ok(Self { field })
    }

    /// A field that is set, by its proto spelling.
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

    /// The one of several fields that is set, if one is; more than one is an error.
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

    /// The elements of a repeated field, none if it is not set. One element needs no list around it, which
    /// examples rely on.
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

/// The value of an enum: its name in any case, or its number, which may be a string. The first value is what is
/// meant where the field is not set.
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
            return Err(field.wrong_type("the name or the number of an enum's value"));
        }
    };
    found.map(|&(_, _, value)| value).ok_or_else(|| field.error(ErrorKind::UnknownEnumValue(known)))
}

/// A boolean, which may be a string.
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

/// The value in a wrapper that is written out as the message that it is.
fn unwrapped(value: &Value) -> &Value {
    match value {
        Value::Object(members) if members.len() == 1 => members.get("value").unwrap_or(value),
        _ => value,
    }
}

/// An unsigned number, which proto3 also writes as a string.
pub(crate) fn read_u32(field: &Field<'_>) -> Result<u32, BootstrapError> {
    let number = match unwrapped(field.value) {
        Value::Number(number) => number.as_u64().or_else(|| {
            // Proto3 takes a whole number in any notation.
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
        .ok_or_else(|| field.error(ErrorKind::InvalidValue("not a whole number of 32 bits")))
}

/// A finite number more than zero.
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
        .ok_or_else(|| field.error(ErrorKind::InvalidValue("must be a number more than 0")))
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
