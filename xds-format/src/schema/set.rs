//! Encoded descriptor sets, and error messages for files that are something else.

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

/// Commands that make a descriptor set, for error messages.
const MAKE_ONE: &str =
    "`protoc --include_imports --descriptor_set_out=FILE NAME.proto` or `buf build -o FILE`";

pub(super) fn error(reason: impl fmt::Display) -> FormatError {
    FormatError::new("", ErrorKind::Descriptors { reason: reason.to_string() })
}

/// A still encoded file of a set.
pub(super) struct File<'s> {
    pub(super) name: &'s str,
    package: &'s str,
    encoded: &'s [u8],
    /// Tag, length and content, as in the set.
    raw: &'s [u8],
}

/// Returns the files of a set, in order.
pub(super) fn files(set: &[u8]) -> Result<Vec<File<'_>>, FormatError> {
    let not_a_set = |why: WireError| {
        error(format_args!("{why}: not an encoded `FileDescriptorSet`; create one with {MAKE_ONE}"))
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
        // The pool panics at an unknown syntax, such as editions.
        let syntax = string(FILE_SYNTAX)?;
        if !["", "proto2", "proto3"].contains(&syntax) {
            return Err(error(format_args!(
                "{} has the unsupported syntax {}",
                abbreviate(name),
                abbreviate(syntax)
            )));
        }
        files.push(File { name, package, encoded, raw: field.raw });
    }
    Ok(files)
}

/// Returns the files that the pool lacks, as an encoded set. Their extension options are kept.
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
                    "`{}` imports `{}`, which is neither in the set nor in the schema; create the \
                     set with {MAKE_ONE}",
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
                    "`{}` is defined by both `{}` and `{}`; import each file by one name only",
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

/// Returns the full names defined in files that the pool has in another version, and missing there.
pub(super) fn ignored_definitions(
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

/// Collects the definitions of a message that the pool lacks. The decoder bounds the depth.
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

/// Returns the full names of the top-level definitions of a file.
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

/// Returns the name of the file in the pool that defines `full_name`.
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

/// Describes a file that is certainly no descriptor set, with advice. A set always has control
/// characters: its tags and lengths.
fn other_format(set: &[u8]) -> Option<String> {
    if set.starts_with(&[0x1f, 0x8b]) {
        return Some("the file is compressed; decompress it first".to_owned());
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
