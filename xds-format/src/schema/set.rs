//! Encoded descriptor sets: what one must be, and what to do with a file that is something else.

use core::fmt;
use std::collections::HashMap;

use prost_reflect::DescriptorPool;
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto};

use crate::error::{ErrorKind, FormatError, abbreviate};
use crate::wire::{Fields, Payload, WireError, last_string};

/// `FileDescriptorSet.file`.
const SET_FILE: u32 = 1;

/// Fields of `FileDescriptorProto`.
const FILE_NAME: u32 = 1;
const FILE_PACKAGE: u32 = 2;
const FILE_DEPENDENCY: u32 = 3;
const FILE_MESSAGE: u32 = 4;
const FILE_ENUM: u32 = 5;
const FILE_SERVICE: u32 = 6;
const FILE_SYNTAX: u32 = 12;

/// The name of a message, an enum or a service.
const NAME: u32 = 1;

/// How a descriptor set is made.
const MAKE_ONE: &str =
    "`protoc --include_imports --descriptor_set_out=FILE NAME.proto` or `buf build -o FILE`";

pub(super) fn error(reason: impl fmt::Display) -> FormatError {
    FormatError::new("", ErrorKind::Descriptors { reason: reason.to_string() })
}

/// One file of a set, still encoded.
pub(super) struct File<'s> {
    pub(super) name: &'s str,
    package: &'s str,
    encoded: &'s [u8],
    /// With tag and length, as it stands in the set.
    raw: &'s [u8],
}

/// The files of a set, in its order.
pub(super) fn files(set: &[u8]) -> Result<Vec<File<'_>>, FormatError> {
    let not_a_set = |why: WireError| {
        error(format_args!(
            "{why}: this is no encoded `FileDescriptorSet`; make one with {MAKE_ONE}"
        ))
    };
    if let Some(what) = other_format(set) {
        return Err(error(what));
    }
    let mut files = Vec::new();
    for field in Fields::new(set) {
        let field = field.map_err(not_a_set)?;
        let (SET_FILE, Payload::Len(encoded)) = (field.number, field.payload) else { continue };
        let string = |number| last_string(encoded, number).map_err(not_a_set);
        let (name, package) = (string(FILE_NAME)?, string(FILE_PACKAGE)?);
        // The pool panics at a syntax that it does not know, such as editions.
        let syntax = string(FILE_SYNTAX)?;
        if !["", "proto2", "proto3"].contains(&syntax) {
            return Err(error(format_args!(
                "{} is written in {}",
                abbreviate(name),
                abbreviate(syntax)
            )));
        }
        files.push(File { name, package, encoded, raw: field.raw });
    }
    Ok(files)
}

/// The files that the pool lacks, as an encoded set: their extension options stay.
pub(super) fn encode_new(
    known: &DescriptorPool,
    files: &[File<'_>],
) -> Result<Vec<u8>, FormatError> {
    let is_known = |name: &str| known.get_file_by_name(name).is_some();
    let new: Vec<_> = files.iter().filter(|file| !is_known(file.name)).collect();
    let mut defined: HashMap<String, &str> = HashMap::new();
    let mut out = Vec::new();
    for file in &new {
        for import in strings(file.encoded, FILE_DEPENDENCY) {
            if !is_known(import) && files.iter().all(|file| file.name != import) {
                return Err(error(format_args!(
                    "`{}` imports `{}`, which neither the set nor the schema has; make the set with {MAKE_ONE}",
                    abbreviate(file.name),
                    abbreviate(import)
                )));
            }
        }
        for full_name in definitions(file) {
            let other = defined_in(known, &full_name)
                .or_else(|| defined.insert(full_name.clone(), file.name).map(str::to_owned));
            if let Some(other) = other {
                return Err(error(format_args!(
                    "`{}` is defined by `{}` and by `{}`; a file that is imported under two names has to \
                     have one of them",
                    abbreviate(&full_name),
                    abbreviate(&other),
                    abbreviate(file.name)
                )));
            }
        }
        out.extend_from_slice(file.raw);
    }
    Ok(out)
}

/// The full names of what files of these names define here and not in the pool.
pub(super) fn passed_over(
    known: &DescriptorPool,
    files: &[File<'_>],
) -> Result<Vec<String>, FormatError> {
    let mut lost = Vec::new();
    for file in files.iter().filter(|file| known.get_file_by_name(file.name).is_some()) {
        let proto = FileDescriptorProto::decode(file.encoded).map_err(error)?;
        proto.enum_type.iter().for_each(|it| lost_of_enum(known, file.package, it, &mut lost));
        proto
            .message_type
            .iter()
            .for_each(|it| lost_of_message(known, file.package, it, &mut lost));
    }
    Ok(lost)
}

/// The depth is bounded by the decoder.
fn lost_of_message(
    known: &DescriptorPool,
    scope: &str,
    message: &DescriptorProto,
    lost: &mut Vec<String>,
) {
    let full_name = join(scope, message.name());
    let Some(ours) = known.get_message_by_name(&full_name) else { return lost.push(full_name) };
    for field in &message.field {
        let number = u32::try_from(field.number()).unwrap_or_default();
        if ours.get_field(number).is_none() {
            lost.push(join(&full_name, field.name()));
        }
    }
    message.enum_type.iter().for_each(|it| lost_of_enum(known, &full_name, it, lost));
    message.nested_type.iter().for_each(|it| lost_of_message(known, &full_name, it, lost));
}

fn lost_of_enum(
    known: &DescriptorPool,
    scope: &str,
    enumeration: &EnumDescriptorProto,
    lost: &mut Vec<String>,
) {
    let full_name = join(scope, enumeration.name());
    let Some(ours) = known.get_enum_by_name(&full_name) else { return lost.push(full_name) };
    for value in &enumeration.value {
        if ours.get_value_by_name(value.name()).is_none() {
            lost.push(join(&full_name, value.name()));
        }
    }
}

fn join(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

/// The full names of what a file defines at its top.
fn definitions(file: &File<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for field in Fields::new(file.encoded).flatten() {
        let (FILE_MESSAGE | FILE_ENUM | FILE_SERVICE, Payload::Len(definition)) =
            (field.number, field.payload)
        else {
            continue;
        };
        let name = last_string(definition, NAME).unwrap_or_default();
        names.push(join(file.package, name));
    }
    names
}

/// The file of the pool that defines it.
fn defined_in(known: &DescriptorPool, full_name: &str) -> Option<String> {
    let message = known.get_message_by_name(full_name).map(|it| it.parent_file());
    let file = message
        .or_else(|| known.get_enum_by_name(full_name).map(|it| it.parent_file()))
        .or_else(|| known.get_service_by_name(full_name).map(|it| it.parent_file()))?;
    Some(file.name().to_owned())
}

fn strings(message: &[u8], number: u32) -> impl Iterator<Item = &str> {
    Fields::new(message).flatten().filter_map(move |field| match field.payload {
        Payload::Len(value) if field.number == number => core::str::from_utf8(value).ok(),
        _ => None,
    })
}

/// What a file is that is certainly no descriptor set, and what to do about it. A set has control characters:
/// its tags and lengths.
fn other_format(set: &[u8]) -> Option<String> {
    if set.starts_with(&[0x1f, 0x8b]) {
        return Some("the file is compressed; unpack it first".to_owned());
    }
    let text = core::str::from_utf8(set).ok()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim();
    if text.is_empty() || text.chars().any(|c| c.is_control() && !c.is_whitespace()) {
        return None;
    }
    const KEYWORDS: [&str; 6] = ["syntax", "edition", "package", "import", "message", "enum"];
    let is_source = text.lines().any(|line| {
        let word = line.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        KEYWORDS.contains(&word) && line.ends_with([';', '{', '}'])
    });
    let what = if is_source { "the source of a schema (.proto)" } else { "text" };
    Some(format!("the file is {what}; compile the schema with {MAKE_ONE}"))
}
