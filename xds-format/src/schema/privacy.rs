//! Parts of messages that may contain secrets, such as private keys and passwords.
// B16

use prost_reflect::{FieldDescriptor, MessageDescriptor};

use super::{Schema, TYPED_STRUCT};

/// Full name of the message of a secret resource.
pub(crate) const SECRET: &str = "envoy.extensions.transport_sockets.tls.v3.Secret";
/// Prefix of the fields of `DataSource` that contain data, not its location.
pub(crate) const INLINE: &str = "envoy.config.core.v3.DataSource.inline_";

impl Schema {
    /// Whether the API marks a field as sensitive.
    pub(crate) fn is_sensitive(&self, field: &FieldDescriptor) -> bool {
        self.annotations.is_sensitive(field.full_name())
    }

    /// Whether errors must not quote the content of a field: it is sensitive, or data from anywhere.
    pub(crate) fn is_private_field(&self, field: &FieldDescriptor) -> bool {
        self.is_sensitive(field) || field.full_name().starts_with(INLINE)
    }
}

/// Whether errors must not quote the content of a message: it is a secret resource, or has the
/// fields of another message by name.
pub(crate) fn is_private_message(message: &MessageDescriptor) -> bool {
    message.full_name() == SECRET || TYPED_STRUCT.contains(&message.full_name())
}
