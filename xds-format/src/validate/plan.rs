//! Constraints of all messages of a schema, read once, because a descriptor decodes its options on
//! every access.

use std::collections::HashMap;

use prost_reflect::{
    DescriptorPool, DynamicMessage, ExtensionDescriptor, FieldDescriptor, MessageDescriptor,
    OneofDescriptor,
};

use super::FieldRules;

/// Constraints by full name of the message. Messages without constraints are omitted.
#[derive(Debug, Default)]
pub(crate) struct Plans(HashMap<String, Plan>);

/// Constraints of one message.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Whether the message and its content are not checked.
    pub(crate) is_disabled: bool,
    /// Field constraints by field number.
    pub(crate) fields: HashMap<u32, FieldRules>,
    /// Oneofs that must be set.
    pub(crate) required_oneofs: Vec<OneofDescriptor>,
}

/// Extensions that contain constraints, as far as the schema defines them.
pub(crate) struct Options {
    rules: Option<ExtensionDescriptor>,
    required: Option<ExtensionDescriptor>,
    disabled: [Option<ExtensionDescriptor>; 2],
}

impl Options {
    pub(crate) fn of(pool: &DescriptorPool) -> Self {
        let extension = |name| pool.get_extension_by_name(name);
        Self {
            rules: extension("validate.rules"),
            required: extension("validate.required"),
            disabled: [extension("validate.disabled"), extension("validate.ignored")],
        }
    }

    /// Returns the constraints of a field, if it has any.
    pub(crate) fn field(&self, field: &FieldDescriptor) -> Result<Option<FieldRules>, String> {
        if field.field_descriptor_proto().options.is_none() {
            return Ok(None);
        }
        let options = field.options();
        let Some(rules) = self.rules.as_ref().filter(|rules| options.has_extension(rules)) else {
            return Ok(None);
        };
        let rules = options.get_extension(rules);
        let read = rules.as_message().map(FieldRules::read).transpose();
        read.map_err(|why| format!("the pattern of {}: {why}", field.full_name()))
    }

    /// Whether a member of the oneof must be set.
    pub(crate) fn requires(&self, oneof: &OneofDescriptor) -> bool {
        oneof.oneof_descriptor_proto().options.is_some()
            && is_set(&oneof.options(), self.required.as_ref())
    }

    /// Whether the message is exempt from all checks.
    pub(crate) fn disables(&self, message: &MessageDescriptor) -> bool {
        if message.descriptor_proto().options.is_none() {
            return false;
        }
        let options = message.options();
        self.disabled.iter().any(|option| is_set(&options, option.as_ref()))
    }
}

fn is_set(options: &DynamicMessage, option: Option<&ExtensionDescriptor>) -> bool {
    option.is_some_and(|option| options.get_extension(option).as_bool() == Some(true))
}

impl Plans {
    /// Reads the constraints of all messages. An invalid pattern is an error.
    pub(crate) fn new(pool: &DescriptorPool) -> Result<Self, String> {
        let options = Options::of(pool);
        let mut plans = Self::default();
        for message in pool.all_messages() {
            let mut plan = Plan { is_disabled: options.disables(&message), ..Plan::default() };
            for field in message.fields() {
                if let Some(rules) = options.field(&field)? {
                    plan.fields.insert(field.number(), rules);
                }
            }
            plan.required_oneofs = message.oneofs().filter(|it| options.requires(it)).collect();
            if plan.is_disabled || !plan.fields.is_empty() || !plan.required_oneofs.is_empty() {
                plans.0.insert(message.full_name().to_owned(), plan);
            }
        }
        Ok(plans)
    }

    pub(crate) fn get(&self, full_name: &str) -> Option<&Plan> {
        self.0.get(full_name)
    }
}
