//! Finds the fields that carry the option `udpa.annotations.sensitive` (B16).
//!
//! Read off the encoded descriptors: the option is an extension, which only a reader that knows its
//! definition would decode, and here it is enough to know its number.

use std::collections::HashSet;

use crate::wire::{Fields, Payload, WireError, last_string};

/// The field number of the extension in `google.protobuf.FieldOptions`; a bool.
const SENSITIVE: u32 = 76_569_463;

const SET_FILE: u32 = 1;
const FILE_PACKAGE: u32 = 2;
const FILE_MESSAGE: u32 = 4;
const MESSAGE_NAME: u32 = 1;
const MESSAGE_FIELD: u32 = 2;
const MESSAGE_NESTED: u32 = 3;
const FIELD_NAME: u32 = 1;
const FIELD_OPTIONS: u32 = 8;

/// Adds the full names of the sensitive fields of an encoded descriptor set.
pub(crate) fn collect(set: &[u8], into: &mut HashSet<String>) -> Result<(), WireError> {
    for_each(set, SET_FILE, &mut |file| {
        let package = last_string(file, FILE_PACKAGE)?;
        for_each(file, FILE_MESSAGE, &mut |message| collect_message(package, message, into))
    })
}

/// The depth is bounded by the decoder of the pool, which has read the set before.
fn collect_message(
    scope: &str,
    message: &[u8],
    into: &mut HashSet<String>,
) -> Result<(), WireError> {
    let name = last_string(message, MESSAGE_NAME)?;
    let full_name = if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") };
    for_each(message, MESSAGE_FIELD, &mut |field| {
        if is_sensitive(field)? {
            into.insert(format!("{full_name}.{}", last_string(field, FIELD_NAME)?));
        }
        Ok(())
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
