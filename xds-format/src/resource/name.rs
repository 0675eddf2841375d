//! Resource names, read from encoded resources.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

use crate::error::{ErrorKind, Fault, FormatError, Path};
use crate::schema::Schema;
use crate::wire;

/// Returns the name of an encoded resource, from its name field.
///
/// The name field is field 1 if that is a string called `name` or `..._name` (such as
/// `cluster_name` of a `ClusterLoadAssignment`), otherwise the string field called `name`.
///
/// # Errors
///
/// - [`ErrorKind::UnknownType`] or [`ErrorKind::InvalidTypeUrl`] if the schema lacks the type;
/// - [`ErrorKind::NoNameField`] if the type has no name field;
/// - [`ErrorKind::EmptyName`];
/// - [`ErrorKind::Corrupt`] if the fields of the message cannot be read.
pub fn resource_name(schema: &Schema, type_url: &str, bytes: &[u8]) -> Result<String, FormatError> {
    schema
        .require_url(type_url)
        .and_then(|message| name_of(&message, type_url, bytes).map(str::to_owned))
        .map_err(|kind| Fault::new(None, &Path::Root, kind).in_source("", None))
}

pub(crate) fn name_of<'b>(
    message: &MessageDescriptor,
    type_url: &str,
    bytes: &'b [u8],
) -> Result<&'b str, ErrorKind> {
    let field = name_field(message)
        .ok_or_else(|| ErrorKind::NoNameField { type_url: type_url.to_owned() })?;
    match wire::last_string(bytes, field.number()) {
        Ok("") => Err(ErrorKind::EmptyName {
            type_url: type_url.to_owned(),
            field: field.name().to_owned(),
        }),
        Ok(name) => Ok(name),
        Err(reason) => Err(ErrorKind::corrupt(message.full_name(), reason)),
    }
}

fn name_field(message: &MessageDescriptor) -> Option<FieldDescriptor> {
    let is_string = |field: &FieldDescriptor| field.kind() == Kind::String && !field.is_list();
    let is_first =
        |field: &FieldDescriptor| field.name() == "name" || field.name().ends_with("_name");
    message
        .get_field(1)
        .filter(|field| is_string(field) && is_first(field))
        .or_else(|| message.get_field_by_name("name").filter(is_string))
}
