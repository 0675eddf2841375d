//! Recursive check of a resource against the constraints of its messages.

use core::fmt;
use std::borrow::Cow;
use std::collections::BTreeSet;

use prost_reflect::prost::Message as _;
use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, ReflectMessage as _, Value,
};

use super::number::Number;
use super::plan::Plans;
use super::rules::{FieldRules, ValueRules};
use super::text::{Flavour, quoted};
use crate::error::{ErrorKind, Fault, Path};
use crate::print::sorted;
use crate::schema::{Schema, is_private_message};

/// State of a check: its limit and its violations.
pub(crate) struct Walk<'s> {
    schema: &'s Schema,
    plans: &'s Plans,
    most: usize,
    faults: Vec<Fault>,
}

impl<'s> Walk<'s> {
    /// Creates a check that ends after `most` violations.
    pub(crate) fn new(schema: &'s Schema, plans: &'s Plans, most: usize) -> Self {
        Self { schema, plans, most, faults: Vec::new() }
    }

    pub(crate) fn into_faults(self) -> Vec<Fault> {
        self.faults
    }

    fn is_over(&self) -> bool {
        self.faults.len() >= self.most
    }

    fn report(&mut self, path: &Path<'_>, rule: &'static str, reason: String) {
        if !self.is_over() {
            self.faults.push(*Fault::new(None, path, ErrorKind::Constraint { rule, reason }));
        }
    }

    pub(crate) fn message(&mut self, message: &DynamicMessage, path: &Path<'_>) {
        let descriptor = message.descriptor();
        let private = Path::Private(path);
        let path = if is_private_message(&descriptor) { &private } else { path };
        let plan = self.plans.get(descriptor.full_name());
        if plan.is_some_and(|plan| plan.is_disabled) {
            return;
        }
        for field in descriptor.fields() {
            if self.is_over() {
                return;
            }
            let rules = plan.and_then(|plan| plan.fields.get(&field.number()));
            self.field(message, &field, rules, path);
        }
        for oneof in plan.iter().flat_map(|plan| &plan.required_oneofs) {
            if !oneof.fields().any(|field| message.has_field(&field)) {
                let members: Vec<_> =
                    oneof.fields().map(|field| format!("`{}`", field.name())).collect();
                let reason = match members.as_slice() {
                    [member] => format!("must have {member} set"),
                    _ => format!("must have one of {} set", members.join(", ")),
                };
                self.report(path, "oneof.required", reason);
            }
        }
        if descriptor.full_name() == "google.protobuf.Any" {
            self.packed(message, path);
        }
    }

    /// Checks the message inside an `Any`, under the path of the `Any`.
    fn packed(&mut self, any: &DynamicMessage, path: &Path<'_>) {
        let part = |number| match any.get_field_by_number(number) {
            Some(Cow::Borrowed(value)) => Some(value),
            _ => None,
        };
        let type_url = part(1).and_then(Value::as_str).unwrap_or_default();
        let value = part(2).and_then(Value::as_bytes).map(|it| &it[..]).unwrap_or_default();
        // Decoding cannot fail here: it was checked before.
        if let Some(descriptor) = self.schema.message_of(type_url)
            && let Ok(message) = DynamicMessage::decode(descriptor, value)
        {
            self.message(&message, path);
        }
    }

    fn field(
        &mut self,
        message: &DynamicMessage,
        field: &FieldDescriptor,
        rules: Option<&FieldRules>,
        parent: &Path<'_>,
    ) {
        let path = Path::Field(parent, field.name());
        let private = Path::Private(&path);
        let path = if self.schema.is_private_field(field) { &private } else { &path };
        if !message.has_field(field) {
            let Some(rules) = rules else { return };
            if field.supports_presence() {
                let is_alternative =
                    field.containing_oneof().is_some_and(|oneof| !oneof.is_synthetic());
                if rules.required && !is_alternative {
                    self.report(path, "required", "must be set".to_owned());
                }
                return;
            }
        }
        match &*message.get_field(field) {
            Value::List(elements) => self.list(elements, &field.kind(), rules, path),
            Value::Map(entries) => {
                let Kind::Message(entry) = field.kind() else { return };
                let kinds =
                    (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
                self.map(&sorted(entries), &kinds, rules, path);
            }
            value => self.value(value, &field.kind(), rules, path),
        }
    }

    fn list(
        &mut self,
        elements: &[Value],
        kind: &Kind,
        rules: Option<&FieldRules>,
        path: &Path<'_>,
    ) {
        let mut of_items = None;
        if let Some(ValueRules::Repeated { count, unique, items, ignore_empty }) =
            rules.map(|rules| &rules.value)
        {
            if *ignore_empty && elements.is_empty() {
                return;
            }
            if let Some((rule, requirement)) =
                count.fault(elements.len(), "element", ["min_items", "max_items"])
            {
                self.report(path, rule, format!("must {requirement}, has {}", elements.len()));
            }
            let mut seen = BTreeSet::new();
            let twice = elements.iter().position(|it| *unique && !seen.insert(identity(it)));
            if let Some(index) = twice {
                let path = &Path::Index(path, index);
                self.report(path, "unique", "must be unique in the list".to_owned());
            }
            of_items = Some(&**items);
        }
        for (index, element) in elements.iter().enumerate() {
            if self.is_over() {
                return;
            }
            self.value(element, kind, of_items, &Path::Index(path, index));
        }
    }

    fn map(
        &mut self,
        entries: &[(&MapKey, &Value)],
        (key_kind, value_kind): &(Kind, Kind),
        rules: Option<&FieldRules>,
        path: &Path<'_>,
    ) {
        let (mut of_keys, mut of_values) = (None, None);
        if let Some(ValueRules::Map { count, keys, values, ignore_empty }) =
            rules.map(|rules| &rules.value)
        {
            if *ignore_empty && entries.is_empty() {
                return;
            }
            if let Some((rule, requirement)) =
                count.fault(entries.len(), "entry", ["min_pairs", "max_pairs"])
            {
                self.report(path, rule, format!("must {requirement}, has {}", entries.len()));
            }
            (of_keys, of_values) = (Some(&**keys), Some(&**values));
        }
        for (key, value) in entries {
            if self.is_over() {
                return;
            }
            let key = Value::from((*key).clone());
            let name = match &key {
                Value::String(name) => name.clone(),
                key => Number::of(key).map_or_else(|| format!("{key:?}"), |it| it.to_string()),
            };
            let path = &Path::Key(path, &name);
            self.value(&key, key_kind, of_keys, path);
            self.value(value, value_kind, of_values, path);
        }
    }

    fn value(&mut self, value: &Value, kind: &Kind, rules: Option<&FieldRules>, path: &Path<'_>) {
        if let Some(rules) = rules {
            self.constraints(value, kind, &rules.value, path);
        }
        if let Value::Message(message) = value
            && !rules.is_some_and(|rules| rules.skip)
        {
            self.message(message, path);
        }
    }

    fn constraints(&mut self, value: &Value, kind: &Kind, rules: &ValueRules, path: &Path<'_>) {
        match rules {
            ValueRules::Free | ValueRules::Repeated { .. } | ValueRules::Map { .. } => {}
            ValueRules::Number(numbers) => {
                if let Some(number) = Number::of(value)
                    && let Some((rule, requirement)) = numbers.fault(number)
                {
                    self.report(path, rule, format!("must {requirement}{}", found(path, number)));
                }
            }
            ValueRules::Bool(wanted) => {
                if unwrapped(value).as_bool().is_some_and(|it| it != *wanted) {
                    self.report(path, "const", format!("must be {wanted}"));
                }
            }
            ValueRules::Text(texts) => {
                let value = unwrapped(value);
                let (text, flavour) = match &*value {
                    Value::String(text) => (text.as_bytes(), Flavour::String),
                    Value::Bytes(bytes) => (&bytes[..], Flavour::Bytes),
                    _ => return,
                };
                if let Some((rule, requirement)) = texts.fault(text, flavour) {
                    let found = match text.is_empty() {
                        true => String::new(),
                        false => found(path, quoted(text, flavour)),
                    };
                    self.report(path, rule, format!("must {requirement}{found}"));
                }
            }
            ValueRules::Enum { numbers, defined_only } => {
                let (Value::EnumNumber(number), Kind::Enum(enumeration)) = (value, kind) else {
                    return;
                };
                let shown = enum_text(enumeration, *number);
                if *defined_only && enumeration.get_value(*number).is_none() {
                    let name = enumeration.full_name();
                    let reason =
                        format!("must be a value of the enum `{name}`{}", found(path, &shown));
                    self.report(path, "defined_only", reason);
                }
                if let Some((rule, requirement)) = numbers.fault(Number::Integer((*number).into()))
                {
                    self.report(path, rule, format!("must {requirement}{}", found(path, shown)));
                }
            }
            ValueRules::Any { one_of, none_of } => {
                let Value::Message(any) = value else { return };
                let url = any.get_field_by_number(1);
                let url = url.as_deref().and_then(Value::as_str).unwrap_or_default();
                let is_in = |list: &[String]| list.iter().any(|it| it == url);
                let shown = path.quote(url);
                if !one_of.is_empty() && !is_in(one_of) {
                    let reason = format!("must be of type {}, is `{shown}`", one_of.join(" or "));
                    self.report(path, "in", reason);
                } else if is_in(none_of) {
                    self.report(path, "not_in", format!("must not be of type `{shown}`"));
                }
            }
        }
    }
}

/// Returns the end of an error message, with the value unless it may be secret.
fn found(path: &Path<'_>, value: impl fmt::Display) -> String {
    if path.is_private() { String::new() } else { format!(", is {value}") }
}

/// Whether the absence of a field violates its constraints.
pub(crate) fn refuses_absence(
    schema: &Schema,
    field: &FieldDescriptor,
    rules: &FieldRules,
) -> bool {
    let plans = Plans::default();
    let mut walk = Walk::new(schema, &plans, 1);
    let message = DynamicMessage::new(field.parent_message().clone());
    walk.field(&message, field, Some(rules), &Path::Root);
    walk.is_over()
}

/// Returns the value inside a wrapper message such as `google.protobuf.StringValue`; other values
/// are returned unchanged.
fn unwrapped(value: &Value) -> Cow<'_, Value> {
    match value {
        Value::Message(message) => message.get_field_by_number(1).unwrap_or(Cow::Borrowed(value)),
        value => Cow::Borrowed(value),
    }
}

fn enum_text(enumeration: &EnumDescriptor, number: i32) -> String {
    match enumeration.get_value(number) {
        Some(value) => format!("{} ({number})", value.name()),
        None => number.to_string(),
    }
}

/// Returns a key that is equal for equal values.
fn identity(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Bytes(bytes) => bytes.to_vec(),
        Value::Message(message) => message.encode_to_vec(),
        value => format!("{value:?}").into_bytes(),
    }
}
