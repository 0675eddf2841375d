//! JSON values with their paths, so that every error can name its field.

use std::{fmt, time::Duration};

use serde_json::{Map, Value};

use crate::error::{BootstrapError, ErrorKind};

/// Maximum length of a text in bytes.
pub(crate) const MAX_BYTES: usize = 16 << 20;
/// Maximum duration of proto3, in seconds.
const MAX_SECONDS: u64 = 315_576_000_000;

/// Uninterpreted part of a configuration. It may contain secrets, so `Debug` does not print it.
#[derive(Clone, PartialEq)]
pub struct RawJson(Value);

impl RawJson {
    pub(crate) const fn new(value: Value) -> Self {
        Self(value)
    }

    /// Returns the value.
    #[must_use]
    pub const fn value(&self) -> &Value {
        &self.0
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawJson(..)")
    }
}

/// Parses a JSON text. The parser bounds the nesting.
pub(crate) fn parse(text: &str) -> Result<Value, BootstrapError> {
    if text.len() > MAX_BYTES {
        return Err(BootstrapError::new("", ErrorKind::TooLong { limit: MAX_BYTES }));
    }
    serde_json::from_str(text).map_err(|why| {
        let words = why.to_string();
        let words = words.split(" at line ").next().unwrap_or_default();
        let reason = match words.strip_prefix("EOF while parsing ") {
            Some(_) if text.trim().is_empty() => "there is no text".into(),
            Some("a value") => "the text ends where a value is expected".into(),
            Some(value) => format!("the text ends inside {value}"),
            None => words.to_owned(),
        };
        // The end of a text has column 0 after a line feed.
        let (line, column) = (why.line(), why.column().max(1));
        BootstrapError::new("", ErrorKind::Syntax { line, column, reason: reason.into() })
    })
}

/// A value and its path.
#[derive(Clone, Debug)]
pub(crate) struct Field<'v> {
    pub(crate) value: &'v Value,
    pub(crate) path: String,
}

impl<'v> Field<'v> {
    pub(crate) const fn root(value: &'v Value) -> Self {
        Self { value, path: String::new() }
    }

    pub(crate) fn error(&self, kind: ErrorKind) -> BootstrapError {
        BootstrapError::new(self.path.clone(), kind)
    }

    pub(crate) fn wrong_type(&self, expected: &'static str) -> BootstrapError {
        let found = match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        self.error(ErrorKind::WrongType { expected, found })
    }

    /// Returns the path of a field of this object.
    pub(crate) fn path_of(&self, key: &str) -> String {
        let is_plain =
            !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match (self.path.as_str(), is_plain) {
            ("", true) => key.into(),
            (path, true) => format!("{path}.{key}"),
            (path, false) => {
                let short: String = key.chars().take(64).collect();
                format!("{path}[{short:?}]")
            }
        }
    }

    pub(crate) fn object(&self) -> Result<&'v Map<String, Value>, BootstrapError> {
        self.value.as_object().ok_or_else(|| self.wrong_type("an object"))
    }

    /// Returns the field `key`, if this is an object that has it.
    pub(crate) fn get(&self, key: &str) -> Option<Self> {
        Some(Self { value: self.value.get(key)?, path: self.path_of(key) })
    }

    pub(crate) fn require(&self, key: &str) -> Result<Self, BootstrapError> {
        self.get(key).ok_or_else(|| BootstrapError::new(self.path_of(key), ErrorKind::Missing))
    }

    /// Returns the entries of this object.
    pub(crate) fn entries(&self) -> Result<impl Iterator<Item = (&'v str, Self)>, BootstrapError> {
        Ok(self
            .object()?
            .iter()
            .map(|(key, value)| (key.as_str(), Self { value, path: self.path_of(key) })))
    }

    /// Returns the elements of this list.
    pub(crate) fn elements(&self) -> Result<impl Iterator<Item = Self>, BootstrapError> {
        let elements = self.value.as_array().ok_or_else(|| self.wrong_type("a list"))?;
        Ok(elements
            .iter()
            .enumerate()
            .map(|(index, value)| Self { value, path: format!("{}[{index}]", self.path) }))
    }

    pub(crate) fn string(&self) -> Result<&'v str, BootstrapError> {
        self.value.as_str().ok_or_else(|| self.wrong_type("a string"))
    }

    pub(crate) fn nonempty(&self) -> Result<&'v str, BootstrapError> {
        let text = self.string()?;
        if text.is_empty() { Err(self.error(ErrorKind::Empty)) } else { Ok(text) }
    }

    pub(crate) fn boolean(&self) -> Result<bool, BootstrapError> {
        self.value.as_bool().ok_or_else(|| self.wrong_type("a boolean"))
    }

    /// Parses a duration in proto3's JSON form, such as `"1.5s"`, or in message form, such as
    /// `{ "seconds": 5 }`.
    // S0.176
    pub(crate) fn duration(&self) -> Result<Duration, BootstrapError> {
        if self.value.is_object() {
            return self.written_out();
        }
        let text =
            self.value.as_str().ok_or_else(|| self.wrong_type("a duration, as in \"1.5s\""))?;
        parse_duration(text).ok_or_else(|| {
            self.error(ErrorKind::InvalidValue("must be a non-negative duration, as in \"1.5s\""))
        })
    }

    fn written_out(&self) -> Result<Duration, BootstrapError> {
        if let Some((_, other)) =
            self.entries()?.find(|(key, _)| !["seconds", "nanos"].contains(key))
        {
            return Err(other.error(ErrorKind::UnknownField));
        }
        let number = |name, limit| match self.get(name) {
            None => Ok(0),
            Some(field) => {
                // Proto3 JSON writes 64-bit integers as strings.
                let number = field.value.as_u64().or_else(|| field.value.as_str()?.parse().ok());
                number.filter(|&number| number <= limit).ok_or_else(|| {
                    field
                        .error(ErrorKind::InvalidValue("must be a non-negative part of a duration"))
                })
            }
        };
        let nanos = number("nanos", 999_999_999)?;
        Ok(Duration::from_secs(number("seconds", MAX_SECONDS)?) + Duration::from_nanos(nanos))
    }

    pub(crate) fn positive_duration(&self) -> Result<Duration, BootstrapError> {
        match self.duration()? {
            Duration::ZERO => Err(self.error(ErrorKind::InvalidValue("must be more than 0s"))),
            duration => Ok(duration),
        }
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.strip_suffix('s')?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let seconds: u64 = whole.parse().ok().filter(|&seconds| seconds <= MAX_SECONDS)?;
    let nanos: u32 = format!("{fraction:0<9}").parse().ok()?;
    Some(Duration::new(seconds, nanos))
}

/// Formats a duration in proto3's JSON form.
pub(crate) fn print_duration(duration: Duration) -> String {
    match duration.subsec_nanos() {
        0 => format!("{}s", duration.as_secs()),
        nanos => format!("{}.{nanos:09}s", duration.as_secs()),
    }
}
