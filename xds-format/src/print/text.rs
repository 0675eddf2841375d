//! Printer of the protobuf text format, with one field per line.

use core::fmt::Write as _;

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, ReflectMessage as _, Value};

use super::redact::Redactor;
use super::{PrintOptions, Privacy, REDACTED, Result, Typed, fields, sorted, unpack};
use crate::encode::{WellKnown, well_known_of};
use crate::schema::Schema;
use crate::tree::lexer::is_bracketed;

pub(crate) struct TextPrinter<'s> {
    schema: &'s Schema,
    redactor: Redactor<'s>,
    out: String,
    indent: usize,
}

impl<'s> TextPrinter<'s> {
    pub(crate) fn new(schema: &'s Schema, options: &PrintOptions) -> Self {
        Self {
            schema,
            redactor: Redactor::new(schema, options.redaction),
            out: String::new(),
            indent: 0,
        }
    }

    /// Prints a file with one message, and a header with its type.
    pub(crate) fn file(mut self, typed: &Typed<'_>) -> Result<String> {
        match typed {
            Typed::Known(_, message) => {
                self.line(&format!("# proto-message: {}", message.descriptor().full_name()));
                self.message(message, Privacy::Public)?;
            }
            Typed::Nothing => self.line("# proto-message: google.protobuf.Any"),
            Typed::Unknown(type_url, value) => {
                self.line("# proto-message: google.protobuf.Any");
                self.raw_any(type_url, value, Privacy::Public);
            }
        }
        Ok(self.out)
    }

    fn message(&mut self, message: &DynamicMessage, privacy: Privacy) -> Result<()> {
        if well_known_of(&message.descriptor()) == Some(WellKnown::Any) {
            return self.any(message, privacy);
        }
        let privacy = self.redactor.within(message, privacy);
        let message = self.redactor.prepare(message);
        for (field, value) in fields(&message) {
            self.field(&field, &value, privacy)?;
        }
        Ok(())
    }

    fn field(&mut self, field: &FieldDescriptor, value: &Value, privacy: Privacy) -> Result<()> {
        let hidden = self.redactor.hides(field, privacy);
        match value {
            Value::List(elements) => {
                for element in elements {
                    self.one(field.name(), &field.kind(), element, hidden, privacy)?;
                }
            }
            Value::Map(map) => {
                let Kind::Message(entry) = field.kind() else { return Ok(()) };
                let kind = entry.map_entry_value_field().kind();
                for (key, value) in sorted(map) {
                    self.open(field.name());
                    self.line(&format!("key: {}", key_text(key)));
                    self.one("value", &kind, value, hidden, privacy)?;
                    self.close();
                }
            }
            value => self.one(field.name(), &field.kind(), value, hidden, privacy)?,
        }
        Ok(())
    }

    fn one(
        &mut self,
        name: &str,
        kind: &Kind,
        value: &Value,
        hidden: bool,
        privacy: Privacy,
    ) -> Result<()> {
        if hidden {
            self.line(&format!("{name}: {REDACTED:?}"));
            return Ok(());
        }
        match value {
            Value::Message(message) => {
                self.open(name);
                self.message(message, privacy)?;
                self.close();
            }
            scalar => self.line(&format!("{name}: {}", scalar_text(kind, scalar))),
        }
        Ok(())
    }

    fn any(&mut self, any: &DynamicMessage, privacy: Privacy) -> Result<()> {
        match unpack(self.schema, any)? {
            Typed::Nothing => {}
            Typed::Unknown(type_url, value) => self.raw_any(type_url, value, privacy),
            // A program that reads the output needs this form for such a type URL. A person prefers
            // the expanded form.
            Typed::Known(type_url, _) if !is_bracketed(type_url) && self.redactor.shows_all() => {
                let value = any.get_field_by_number(2);
                let value = value.as_deref().and_then(Value::as_bytes);
                self.raw_any(type_url, value.map(|it| &it[..]).unwrap_or_default(), privacy);
            }
            Typed::Known(type_url, message) => {
                self.open(&format!("[{type_url}]"));
                self.message(&message, privacy)?;
                self.close();
            }
        }
        Ok(())
    }

    fn raw_any(&mut self, type_url: &str, value: &[u8], privacy: Privacy) {
        self.line(&format!("type_url: {}", quoted(type_url.as_bytes())));
        let value = if self.redactor.hides_unknown(privacy) { REDACTED.as_bytes() } else { value };
        self.line(&format!("value: {}", quoted(value)));
    }

    fn open(&mut self, name: &str) {
        self.line(&format!("{name} {{"));
        self.indent += 2;
    }

    fn close(&mut self) {
        self.indent -= 2;
        self.line("}");
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:indent$}{text}", "", indent = self.indent);
    }
}

fn scalar_text(kind: &Kind, value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::I32(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::U32(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        // Rust writes `inf`, `-inf` and `NaN`, which are valid in the format.
        Value::F32(value) => value.to_string(),
        Value::F64(value) => value.to_string(),
        Value::String(text) => quoted(text.as_bytes()),
        Value::Bytes(bytes) => quoted(bytes),
        Value::EnumNumber(number) => match kind {
            Kind::Enum(enumeration) => enumeration
                .get_value(*number)
                .map_or_else(|| number.to_string(), |value| value.name().to_owned()),
            _ => number.to_string(),
        },
        Value::Message(_) | Value::List(_) | Value::Map(_) => String::new(),
    }
}

fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(value) => value.to_string(),
        MapKey::I32(value) => value.to_string(),
        MapKey::I64(value) => value.to_string(),
        MapKey::U32(value) => value.to_string(),
        MapKey::U64(value) => value.to_string(),
        MapKey::String(value) => quoted(value.as_bytes()),
    }
}

/// Quotes a string. Bytes that are not printable UTF-8 become octal escapes.
fn quoted(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if c.is_control() => {
                    escape_octal(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut out)
                }
                c => out.push(c),
            }
        }
        escape_octal(chunk.invalid(), &mut out);
    }
    out.push('"');
    out
}

fn escape_octal(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        let _ = write!(out, "\\{byte:03o}");
    }
}
