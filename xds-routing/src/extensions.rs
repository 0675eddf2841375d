//! Configurations of extensions, and the types they are of.

use alloc::string::String;

use bytes::Bytes;
use prost::Message as _;
use xds_core::proto::Any;

use crate::validation::Validator;

/// Configuration of an extension: its type and the encoded message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtensionConfig {
    /// Type URL of the configuration. For a `TypedStruct` this is the type inside it.
    pub type_url: String,
    /// Encoded configuration, or the encoded `TypedStruct` that wraps it. A copy, so it does not
    /// keep the whole response alive.
    pub value: Bytes,
}

/// `TypedStruct`: a configuration as a JSON object, of which only the type is read.
#[derive(Clone, PartialEq, prost::Message)]
struct TypedStruct {
    #[prost(string, tag = "1")]
    type_url: String,
}

const TYPED_STRUCTS: [&str; 2] =
    ["type.googleapis.com/xds.type.v3.TypedStruct", "type.googleapis.com/udpa.type.v1.TypedStruct"];

/// Validates the type of an extension's configuration.
pub(crate) fn validate_extension(
    config: &Any,
    validator: &mut Validator<'_>,
) -> Option<ExtensionConfig> {
    let mut type_url = config.type_url.clone();
    if is_object(config) {
        match TypedStruct::decode(config.value.clone()) {
            Ok(object) => type_url = object.type_url,
            Err(why) => {
                validator.error_in("value", why);
                return None;
            }
        }
    }
    let name = type_url.rsplit_once('/').map(|(_, name)| name);
    if name.is_none_or(str::is_empty) {
        validator.error_in("type_url", format_args!("`{type_url}` is not a valid type URL"));
        return None;
    }
    Some(ExtensionConfig { type_url, value: Bytes::copy_from_slice(&config.value) })
}

/// Whether a configuration is a `TypedStruct`, not a message of its own type.
pub(crate) fn is_object(config: &Any) -> bool {
    TYPED_STRUCTS.contains(&config.type_url.as_str())
}

/// Decodes an extension's configuration as the message `M`.
pub(crate) fn decode<M: prost::Message + Default>(
    value: &Bytes,
    validator: &mut Validator<'_>,
) -> Option<M> {
    let decoded = M::decode(value.clone());
    if let Err(why) = &decoded {
        validator.error_in("value", why);
    }
    decoded.ok()
}
