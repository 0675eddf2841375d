//! Fields of JSON objects in protobuf's JSON mapping: names in either spelling, `null` for absent
//! fields, and numbers as numbers or strings. Unknown fields are ignored.

use alloc::{string::String, vec::Vec};

use serde_json::{Map, Value};

use crate::validation::Validator;

/// Fields of a JSON object.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldReader<'a>(&'a Map<String, Value>);

impl<'a> FieldReader<'a> {
    pub(super) fn of(value: &'a Value, validator: &mut Validator<'_>) -> Option<Self> {
        let object = value.as_object();
        if object.is_none() {
            validator.error("must be an object");
        }
        object.map(Self)
    }

    /// Returns a field by its name in lower camel case, or `None` if it is absent.
    pub(super) fn get(&self, name: &str, validator: &mut Validator<'_>) -> Option<&'a Value> {
        let set = |name: &str| self.0.get(name).filter(|value| !value.is_null());
        let other = snake_case(name);
        if other == name {
            return set(name);
        }
        match (set(name), set(&other)) {
            (Some(_), Some(_)) => {
                validator.error_in(name, format_args!("must not be set together with {other}"));
                None
            }
            (value, other) => value.or(other),
        }
    }

    pub(super) fn required(&self, name: &str, validator: &mut Validator<'_>) -> Option<&'a Value> {
        let value = self.get(name, validator);
        if value.is_none() {
            validator.error_in(name, "must be set");
        }
        value
    }

    /// Returns a string; empty if absent, as in protobuf.
    pub(super) fn text(&self, name: &str, validator: &mut Validator<'_>) -> Option<&'a str> {
        match self.get(name, validator) {
            None => Some(""),
            Some(Value::String(text)) => Some(text),
            Some(_) => {
                validator.error_in(name, "must be a string");
                None
            }
        }
    }

    pub(super) fn flag(&self, name: &str, validator: &mut Validator<'_>) -> Option<bool> {
        match self.get(name, validator)? {
            Value::Bool(flag) => Some(*flag),
            _ => {
                validator.error_in(name, "must be true or false");
                None
            }
        }
    }

    /// Returns a non-negative integer.
    pub(super) fn number(&self, name: &str, validator: &mut Validator<'_>) -> Option<u32> {
        let number = u32::try_from(self.wide_number(name, validator)?);
        if number.is_err() {
            validator.error_in(name, format_args!("must be from 0 to {}", u32::MAX));
        }
        number.ok()
    }

    /// Returns an integer. The JSON mapping has 64-bit integers as strings.
    pub(super) fn wide_number(&self, name: &str, validator: &mut Validator<'_>) -> Option<i64> {
        let number = match self.get(name, validator)? {
            Value::Number(number) => number.as_i64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        if number.is_none() {
            validator.error_in(name, "must be an integer");
        }
        number
    }

    /// Returns the elements of a list; none if absent.
    pub(super) fn list(&self, name: &str, validator: &mut Validator<'_>) -> &'a [Value] {
        match self.get(name, validator) {
            None => &[],
            Some(Value::Array(list)) => list,
            Some(_) => {
                validator.error_in(name, "must be a list");
                &[]
            }
        }
    }

    /// Returns the entries of a map; none if absent.
    pub(super) fn map(
        &self,
        name: &str,
        validator: &mut Validator<'_>,
    ) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
        let value = self.get(name, validator);
        if value.is_some_and(|value| !value.is_object()) {
            validator.error_in(name, "must be an object");
        }
        value.and_then(Value::as_object).into_iter().flatten()
    }
}

fn snake_case(camel_case: &str) -> String {
    let mut name = String::new();
    for letter in camel_case.chars() {
        if letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// Returns the one field that is present. JSON has no `oneof`, so none or several may be.
// S2.036
pub(super) fn one_of<'a>(
    fields: &FieldReader<'_>,
    names: &[&'a str],
    validator: &mut Validator<'_>,
) -> Option<&'a str> {
    let set = names.iter().copied().filter(|name| fields.get(name, validator).is_some());
    let set: Vec<&str> = set.collect();
    match set.as_slice() {
        [one] => Some(one),
        [] => {
            validator.error(format_args!("must have one of {}", names.join(", ")));
            None
        }
        several => {
            validator.error(format_args!("must have only one of {}", several.join(", ")));
            None
        }
    }
}
