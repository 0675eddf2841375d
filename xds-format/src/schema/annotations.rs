//! Schema options: secret fields (`udpa.annotations.sensitive`) and the previous names of messages
//! (`udpa.annotations.versioning`).
//!
//! The options are extensions, so they are read from the encoded descriptors by field number. This
//! needs no extension definitions.
// B16, S4.051

use std::collections::{HashMap, HashSet};

use crate::wire::{Fields, Payload, WireError, last_string};

/// Field number of the bool extension in `google.protobuf.FieldOptions`.
const SENSITIVE: u32 = 76_569_463;

/// Field numbers of the extension in `google.protobuf.MessageOptions`, and of its field
/// `previous_message_type`.
const VERSIONING: u32 = 7_881_811;
const PREVIOUS_MESSAGE_TYPE: u32 = 1;

const SET_FILE: u32 = 1;
const FILE_PACKAGE: u32 = 2;
const FILE_MESSAGE: u32 = 4;
const MESSAGE_NAME: u32 = 1;
const MESSAGE_FIELD: u32 = 2;
const MESSAGE_NESTED: u32 = 3;
const MESSAGE_OPTIONS: u32 = 7;
const FIELD_NAME: u32 = 1;
const FIELD_OPTIONS: u32 = 8;

/// Annotations by full name. The collections are never iterated, so their order does not matter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Annotations {
    /// Full names of secret fields.
    sensitive: HashSet<String>,
    /// Current names by previous name; `None` if several messages claim a previous name.
    renamed: HashMap<String, Option<String>>,
}

impl Annotations {
    /// Adds the annotations of an encoded descriptor set.
    pub(crate) fn collect(&mut self, set: &[u8]) -> Result<(), WireError> {
        for_each(set, SET_FILE, &mut |file| {
            let package = last_string(file, FILE_PACKAGE)?;
            for_each(file, FILE_MESSAGE, &mut |message| collect_message(package, message, self))
        })
    }

    pub(crate) fn is_sensitive(&self, field_full_name: &str) -> bool {
        self.sensitive.contains(field_full_name)
    }

    /// Returns the current name of a message by its previous name.
    pub(crate) fn name_now(&self, previous: &str) -> Option<&str> {
        self.renamed.get(previous)?.as_deref()
    }
}

/// Collects the annotations of a message and its nested messages. The pool has decoded the set
/// before, which bounds the depth.
fn collect_message(scope: &str, message: &[u8], into: &mut Annotations) -> Result<(), WireError> {
    let name = last_string(message, MESSAGE_NAME)?;
    let full_name = if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") };
    for_each(message, MESSAGE_FIELD, &mut |field| {
        if is_sensitive(field)? {
            into.sensitive.insert(format!("{full_name}.{}", last_string(field, FIELD_NAME)?));
        }
        Ok(())
    })?;
    for_each(message, MESSAGE_OPTIONS, &mut |options| {
        for_each(options, VERSIONING, &mut |versioning| {
            let previous = last_string(versioning, PREVIOUS_MESSAGE_TYPE)?;
            let known = into.renamed.entry(previous.to_owned());
            let name = known.or_insert_with(|| Some(full_name.clone()));
            if name.as_ref() != Some(&full_name) {
                *name = None;
            }
            Ok(())
        })
    })?;
    for_each(message, MESSAGE_NESTED, &mut |nested| collect_message(&full_name, nested, into))
}

fn is_sensitive(field: &[u8]) -> Result<bool, WireError> {
    let mut sensitive = false;
    for_each(field, FIELD_OPTIONS, &mut |options| {
        for option in Fields::new(options) {
            let option = option?;
            if option.number == SENSITIVE {
                sensitive = option.payload != Payload::Varint(0);
            }
        }
        Ok(())
    })?;
    Ok(sensitive)
}

fn for_each(
    message: &[u8],
    number: u32,
    visit: &mut dyn FnMut(&[u8]) -> Result<(), WireError>,
) -> Result<(), WireError> {
    for field in Fields::new(message) {
        let field = field?;
        if let Payload::Len(value) = field.payload
            && field.number == number
        {
            visit(value)?;
        }
    }
    Ok(())
}
